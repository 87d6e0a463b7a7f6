"""Long lists of values in pieces that one statement takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
MOST_IN = 500  # bound parameters per statement; SQLite's limit is 32766, plans stay small


def in_parts(values: Iterable[T], most: int = MOST_IN) -> Iterator[list[T]]:
    """In their order, at most so many at a time."""
    ordered = list(values)
    for start in range(0, len(ordered), most):
        yield ordered[start : start + most]
