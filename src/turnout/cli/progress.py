"""One line that shows how far a transfer is: on a terminal, and only when it takes a while."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnout.model.measures import scaled

_FIRST_SECONDS = 0.3
_EACH_SECONDS = 0.1
_UNITS = ("B", "KB", "MB", "GB", "TB")


@contextmanager
def transfer(verb: str) -> Iterator[Callable[[int, int], None] | None]:
    """What to call with (bytes done, bytes in all); None where nobody looks. The line is gone at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(verb)
    try:
        yield bar.show
    finally:
        bar.clear()


class _Bar:
    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._began = time.monotonic()
        self._next = self._began + _FIRST_SECONDS
        self._shown = False

    def show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next or not total:
            return
        self._next = now + _EACH_SECONDS
        self._shown = True
        rate = done / (now - self._began)
        text = f" {done / total:4.0%}  {size(done)} of {size(total)}, {size(rate)}/s"
        width = max(5, min(40, shutil.get_terminal_size().columns - len(self._verb) - len(text) - 4))
        full = int(width * done / total)
        sys.stderr.write(f"\r{self._verb} [{'#' * full}{'.' * (width - full)}]{text}\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def size(count: float) -> str:
    """Bytes as people say them."""
    return scaled(count, 1000, _UNITS)
