"""Rows in hand, filtered and sorted as the store does it with a million of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from turnout.query.columns import RUNS, Table
from turnout.query.expression import Expression
from turnout.query.listing import Sort
from turnout.query.matching import look_up, matches, resolve

Row = TypeVar("Row", bound=Mapping[str, object])
_DIGITS = re.compile(r"(\d+)")


def arrange(
    rows: Iterable[Row], expression: Expression | None, order: Sort | None, *, now: datetime, table: Table = RUNS
) -> list[Row]:
    """Those that match, in order: numbers by size, texts as people count (run9 before run10), what lacks the column
    last, whichever the direction; equal ones stay as they came."""
    wanted = resolve(expression, now) if expression is not None else None
    found = [row for row in rows if wanted is None or matches(wanted, row, table=table)]
    if order is None:
        return found
    valued = [(look_up(row, order.column), row) for row in found]
    having = [(_key(value), row) for value, row in valued if value is not None]
    having.sort(key=lambda pair: pair[0], reverse=order.descending)
    return [row for _, row in having] + [row for value, row in valued if value is None]


def _key(value: object) -> tuple[int, float, list[tuple[int, str]]]:
    if isinstance(value, int | float):
        return 0, value, []
    parts = _DIGITS.split(str(value))
    return 1, 0.0, [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in parts]
