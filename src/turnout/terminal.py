"""One line that tells how far something is: on a terminal, and only when it takes a while."""

from __future__ import annotations

import shutil
import sys
import time

_FIRST_SECONDS = 0.3
_EACH_SECONDS = 0.1


class ProgressLine:
    """On the standard error. Ask whether it `is_due`, which is quick, and then `show` it anew."""

    def __init__(self, verb: str = "") -> None:
        self._verb = f"{verb} " if verb else ""
        self._began = time.monotonic()
        self._next = self._began + _FIRST_SECONDS if sys.stderr.isatty() else float("inf")
        self._is_shown = False

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def is_due(self) -> bool:
        """Not more often than an eye can follow; never where nobody looks."""
        return time.monotonic() >= self._next

    def show(self, share: float | None, text: str) -> None:
        """A bar that is full to that share, if it is known, and `text`."""
        self._next = time.monotonic() + _EACH_SECONDS
        self._is_shown = True
        bar = ""
        if share is not None:
            width = max(5, min(40, shutil.get_terminal_size().columns - len(self._verb) - len(text) - 10))
            full = int(width * min(1.0, share))
            bar = f"[{'#' * full}{'.' * (width - full)}] {share:4.0%}  "
        sys.stderr.write(f"\r{self._verb}{bar}{text}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """It goes."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
