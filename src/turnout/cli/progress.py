"""How far a transfer is, and sizes as people say them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnout.model.measures import scaled
from turnout.terminal import ProgressLine

_UNITS = ("B", "KB", "MB", "GB", "TB")


@contextmanager
def transfer(verb: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with (bytes done, bytes in all). The line is gone at the end."""
    line = ProgressLine(verb)

    def show(done: int, total: int) -> None:
        if total and line.is_due():
            line.show(done / total, f"{size(done)} of {size(total)}, {size(done / line.seconds)}/s")

    try:
        yield show
    finally:
        line.clear()


def size(count: float) -> str:
    """Bytes as people say them."""
    return scaled(count, 1000, _UNITS)
