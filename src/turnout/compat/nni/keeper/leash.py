"""A trial does not outlive its keeper, whatever ends that.

A pipe is held by nobody but the keeper. A shell waits at its other end for two words: which process group the trial is,
and that it is over. When the pipe ends without the second, the keeper is gone, and the group is killed.
"""

from __future__ import annotations

import os
import subprocess

_WATCH = 'read -r group || exit; read -r word || kill -s KILL -- "-$group"'


class Leash:
    """Made before the trial is started: where there is no room for the shell, there is none for the trial."""

    def __init__(self) -> None:
        read, self._write = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH], stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={},
                cwd="/", start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(read)

    def tie(self, group: int) -> None:
        os.write(self._write, b"%d\n" % group)

    def let_go(self) -> None:
        """What the trial left running on purpose stays. Idempotent."""
        if self._write >= 0:
            os.write(self._write, b"over\n")
            os.close(self._write)
            self._write = -1
            self._shell.wait()
