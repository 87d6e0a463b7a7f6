"""How far many calls are: one line, on a terminal, and only when it takes a while."""

from __future__ import annotations

import shutil
import sys
import time

_FIRST_SECONDS = 0.3
_EACH_SECONDS = 0.1


class Bar:
    """Of so many calls; None = nobody knows how many."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._next = self._began + _FIRST_SECONDS if sys.stderr.isatty() else float("inf")
        self._is_shown = False

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EACH_SECONDS
            self._is_shown = True
            sys.stderr.write(f"\r{self._line(now - self._began)}\x1b[K")
            sys.stderr.flush()

    def close(self) -> None:
        """The line goes."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _line(self, seconds: float) -> str:
        rate = self._done / seconds
        if not self._total:
            return f"{self._done} done, {rate:.3g}/s"
        share = min(1.0, self._done / self._total)
        left = time.strftime("%H:%M:%S", time.gmtime((self._total - self._done) / max(rate, 1e-9)))
        text = f" {share:4.0%}  {self._done} of {self._total}, {rate:.3g}/s, {left} left"
        width = max(5, min(40, shutil.get_terminal_size().columns - len(text) - 4))
        full = int(width * share)
        return f"[{'#' * full}{'.' * (width - full)}]{text}"
