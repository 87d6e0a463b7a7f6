"""What workers do for `map`: one call makes many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from turnout.futures.packing import pack_error


def each_item(function: Callable[..., Any], items: Iterable[Any]) -> tuple[list[Any], bytes | None]:
    """What came of them, up to the first that raised something, and that."""
    found: list[Any] = []
    try:
        for item in items:
            found.append(function(item))
    except BaseException as error:
        return found, pack_error(error)
    return found, None


def each_row(function: Callable[..., Any], rows: Iterable[tuple[Any, ...]]) -> tuple[list[Any], bytes | None]:
    """The same of functions with several arguments."""
    return each_item(lambda row: function(*row), rows)
