"""How far many calls are."""

from __future__ import annotations

import time

from turnout.terminal import ProgressLine


class Bar:
    """Of so many calls; None = nobody knows how many."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = 0
        self._line = ProgressLine()

    def advance(self, count: int = 1) -> None:
        self._done += count
        if self._line.is_due():
            rate = self._done / self._line.seconds
            if not self._total:
                self._line.show(None, f"{self._done} done, {rate:.3g}/s")
                return
            left = time.strftime("%H:%M:%S", time.gmtime((self._total - self._done) / max(rate, 1e-9)))
            text = f"{self._done} of {self._total}, {rate:.3g}/s, {left} left"
            self._line.show(self._done / self._total, text)

    def close(self) -> None:
        """The line goes."""
        self._line.clear()
