"""Rows as people and programs read them: a table that fits the terminal, or lines with tabs, or CSV, whole and plain.

On a terminal (or with ``--table``), times are told as ages, bytes as KB or MB, long texts are cut, and columns that no
row has a value for are left out. What is piped has times and numbers as they are, so that the same rows are the same
bytes.
"""

from __future__ import annotations

import csv
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from turnout.cli import render
from turnout.cli.progress import size
from turnout.query import Column, Kind, Table, expand_columns, look_up
from turnout.query.listing import BLANK_ZERO, DATE_ONLY, TIME_ONLY

View = dict[str, Any]
_DATES = {DATE_ONLY: "%Y-%m-%d", TIME_ONLY: "%H:%M:%S"}
_NARROWEST = 8
_WHOLE = frozenset({Kind.STATE, Kind.TIME, Kind.SPAN, Kind.SIZE, Kind.INT, Kind.FLOAT})


class Style(StrEnum):
    TERMINAL = "terminal"
    TABS = "tabs"
    CSV = "csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`columns` with `asked` are shown even if they are empty. `precision`: digits after the point of numbers that have
    no format; `max_width`: of a cell; both for terminals."""

    table: Table
    columns: Sequence[Column]
    asked: bool
    style: Style
    precision: int | None = None
    max_width: int | None = None


def style_of(*, as_csv: bool, as_table: bool) -> Style:
    return Style.CSV if as_csv else Style.TERMINAL if as_table or sys.stdout.isatty() else Style.TABS


def write(views: Sequence[View], look: Look) -> None:
    columns = _columns(views, look)
    rows = [[_cell(view, column, look) for column in columns] for view in views]
    headers = [column.header for column in columns]
    if look.style is Style.CSV:
        csv.writer(sys.stdout, lineterminator="\n").writerows([headers, *rows])
    elif look.style is Style.TABS:
        for row in [headers, *rows]:
            print("\t".join(map(render.harmless, row)))
    else:
        right = {i for i, column in enumerate(columns) if _is_numeric(views, column.name)}
        whole = {0} | right | {i for i, column in enumerate(columns) if _kind(look.table, column.name) in _WHOLE}
        _write_table(headers, rows, _Layout(right, whole, _place_of("state", columns), look.max_width))


def _columns(views: Sequence[View], look: Look) -> list[Column]:
    wanted = expand_columns(look.columns, views)
    named = {column.name for column in look.columns if look.asked and not column.is_pattern}
    return [
        column for column in wanted if column.name in named or any(_has(view, column, look) for view in views)
    ] or wanted[:1]


def _has(view: View, column: Column, look: Look) -> bool:
    """Whether there is something to show; a tag may be there without a value."""
    in_namespace = "." in column.name and look_up(view, column.name) is not None
    return in_namespace or _cell(view, column, look) != ""


def _place_of(name: str, columns: Sequence[Column]) -> int:
    return next((i for i, column in enumerate(columns) if column.name == name), -1)


def _cell(view: Mapping[str, Any], column: Column, look: Look) -> str:
    value: Any = look_up(view, column.name)
    kind = _kind(look.table, column.name)
    if value is None:
        return ""
    if value == "" and "." in column.name and look.style is Style.TERMINAL:
        return "✓"  # a tag without a value
    if column.format == BLANK_ZERO:
        return "" if value == 0 else _plain(value, look)
    if kind is Kind.TIME:
        return _time(str(value), column.format, look.style)
    if column.format:
        return render.shown(value, column.format)
    if kind is Kind.SPAN and look.style is Style.TERMINAL:
        return render.span(value)
    if kind is Kind.SIZE and look.style is Style.TERMINAL:
        return size(value)
    return _plain(value, look)


def _kind(table: Table, name: str) -> Kind:
    return Kind.TEXT if name in table.shown_only else table.field_of(name).kind


def _plain(value: Any, look: Look) -> str:
    if isinstance(value, float) and look.style is not Style.TERMINAL:
        return repr(value)
    if isinstance(value, float) and look.precision is not None and math.isfinite(value):
        return f"{value:.{look.precision}f}"
    return render.shown(value)


def _time(text: str, spec: str, style: Style) -> str:
    if spec:
        return datetime.fromisoformat(text).strftime(_DATES.get(spec, spec))
    return render.ago(text) if style is Style.TERMINAL else text


def _is_numeric(views: Sequence[View], name: str) -> bool:
    values = [value for view in views if (value := look_up(view, name)) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


@dataclass(frozen=True, slots=True)
class _Layout:
    """`right` are aligned so, `whole` are never cut, `state` has colours (-1 for none)."""

    right: set[int]
    whole: set[int]
    state: int
    max_width: int | None


def _write_table(headers: list[str], rows: list[list[str]], layout: _Layout) -> None:
    """Names, numbers and times are shown whole; texts are cut, the widest first; what does not fit at all is named."""
    room = shutil.get_terminal_size().columns
    cells = [[render.harmless(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(render.width(row[i]) for row in cells) for i in range(len(headers))]
    shrinkable = [i for i in range(len(widths)) if i not in layout.whole]
    if layout.max_width is not None:
        widths = [min(width, layout.max_width) if i in shrinkable else width for i, width in enumerate(widths)]
    _shrink(widths, shrinkable, room)
    shown = len(widths)
    while shown > 1 and _total(widths[:shown]) > room:
        shown -= 1
    kept = [row[:shown] for row in cells]
    state = layout.state if layout.state < shown else -1
    render.aligned(kept[0], kept[1:], widths[:shown], right=frozenset(layout.right), state=state)
    if shown < len(widths):
        missing = ", ".join(render.harmless(header) for header in headers[shown:])
        print(f"not shown, for the terminal is too narrow: {missing} (--columns chooses)", file=sys.stderr)


def _shrink(widths: list[int], shrinkable: list[int], room: int) -> None:
    while _total(widths) > room:
        widest = max(shrinkable, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            return
        widths[widest] -= 1


def _total(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)
