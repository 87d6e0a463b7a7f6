"""What workers do for `map`: one call makes many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from turnout.futures.packing import pack_error, said

#: What the calls returned, up to the first that raised something; that; and how many raised what.
Found = tuple[list[Any], bytes | None, dict[str, int]]


def each_item(function: Callable[..., Any], items: Iterable[Any]) -> Found:
    """Those after one that raised something are called all the same."""
    found: list[Any] = []
    trouble: bytes | None = None
    raised: dict[str, int] = {}
    for item in items:
        try:
            value = function(item)
            if trouble is None:
                found.append(value)
        except BaseException as error:
            trouble = trouble or pack_error(error)
            text = said(error)
            raised[text] = raised.get(text, 0) + 1
    return found, trouble, raised


def each_row(function: Callable[..., Any], rows: Iterable[tuple[Any, ...]]) -> Found:
    """The same of functions with several arguments."""
    return each_item(lambda row: function(*row), rows)
