"""For whoever looks at the log of the platform: what the trial prints, printed once more, and what its keeper says."""

from __future__ import annotations

import os
import sys
import threading

_BLOCK = 1 << 16
_LOOK_SECONDS = 0.05
#: Nobody reads it: the end is not kept waiting for that.
_LAST_SECONDS = 10.0


def say(text: str) -> None:
    print(f"trialkeeper: {text}", file=sys.stderr, flush=True)


class Echo:
    """Of the file that the trial prints to. In a thread of its own: who reads may be slow, or not read at all."""

    def __init__(self, path: str) -> None:
        self._source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._to = sys.stdout.fileno()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="echo", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """What is in the file now is all; returns when it was written, or nobody takes it."""
        self._is_over.set()
        self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._is_over.wait(_LOOK_SECONDS)
            try:
                while block := os.read(self._source, _BLOCK):
                    while block:
                        block = block[os.write(self._to, block) :]
            except OSError:
                return
