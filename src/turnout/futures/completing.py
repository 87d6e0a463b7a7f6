"""Futures in the order in which they get their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import TypeVar

from turnout.futures.progress import Bar

F = TypeVar("F", bound=futures.Future)  # type: ignore[type-arg]


def as_completed(these: Iterable[F], timeout: float | None = None, *, progress: bool = False) -> Iterator[F]:
    """As in `concurrent.futures`; with `progress`, a line on the terminal shows how far they are."""
    given = list(these)
    bar = Bar(len(set(given))) if progress else None
    try:
        for each in futures.as_completed(given, timeout):
            if bar is not None:
                bar.advance()
            yield each  # type: ignore[misc]
    finally:
        if bar is not None:
            bar.close()
