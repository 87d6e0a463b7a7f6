"""What wakes a keeper: signals, the trial's end, and news of the hub."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress


class Bell:
    """For the one thread that decides; `ring` from any. `signals` are those that came and nobody took."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)
        signal.signal(signal.SIGCHLD, lambda *_: self.ring())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def ring(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> None:
        if select.select([self._read], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                os.read(self._read, 1024)

    def take_signals(self) -> list[int]:
        found = list(self.signals)
        del self.signals[: len(found)]
        return found

    def _note(self, number: int, _frame: object) -> None:
        self.signals.append(number)
        self.ring()
