"""How what was found is shown: its order, and the columns of the table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from turnout.query.columns import RUNS, Kind, Table
from turnout.query.matching import like
from turnout.query.problem import problem, shown
from turnout.query.reader import Reader
from turnout.query.tokens import check_text

MAX_COLUMNS = 64

# Widths are bounded: a format may ask for a line as long as memory otherwise. A comma belongs to the format only where
# no column could begin behind it.
_VALUE_FORMAT = r"(?:[^,%]?[<>=^])?[+\- ]?z?\#?0?\d{0,3}(?:_|,(?=\.\d|[deEfFgGn%]?\s*(?:,|$)))?(?:\.\d{1,2})?[a-zA-Z%]?"
_TIME_FORMAT = r"(?:%[YmdHMSfjaAbByZzpI%]|[^%,]){1,40}"
#: XT's: a zero is left blank; of a time, the date or the time of day.
BLANK_ZERO, DATE_ONLY, TIME_ONLY = "$bz", "$do", "$to"
_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = rf"\w+(?:\.(?:{_STRING}|[^\"=:,\s]*))?"
_HEADER = rf'{_STRING}|[^",:]{{0,128}}'
_SPEC = re.compile(
    rf"\s*(?P<name>{_NAME})(?:\s{{0,9}}=\s{{0,9}}(?P<header>{_HEADER}))?"
    rf"(?::(?P<format>\$(?:bz|do|to)|{_VALUE_FORMAT}(?=\s*(?:,|$))|{_TIME_FORMAT}))?\s*(?P<end>,|$)",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SAMPLES: dict[Kind, tuple[object, ...]] = {
    Kind.TEXT: ("x",),
    Kind.STATE: ("x",),
    Kind.INT: (1,),
    Kind.FLOAT: (1.5,),
    Kind.SPAN: (1.5,),
    Kind.SIZE: (1,),
    Kind.ANY: (1.5, 1, "x"),
}


@dataclass(frozen=True, slots=True)
class Sort:
    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is canonical; `format` is a Python format spec or one of XT's, empty = as it is.

    With `is_pattern`, the name stands for all of its namespace that fit: ``metrics.*``, ``params.l?``.
    """

    name: str
    header: str
    format: str = ""
    is_pattern: bool = False


def parse_sort(text: str, table: Table = RUNS, what: str = "sort") -> Sort:
    """``metrics.loss``, ``-metrics.loss``, ``metrics.loss desc``. Raises InvalidInput, which says `what` it is."""
    check_text(text, what)
    start = len(text) - len(text.lstrip())
    minus = text.startswith("-", start)
    reader = Reader(text[start + minus :], what, table=table, whole=text, offset=start + minus)
    column = reader.column()
    descending = reader.take_word("desc")
    if descending and minus:
        raise problem(what, text, start, start + 1, "both `-` and `desc`", "write one of them")
    if not descending:
        reader.take_word("asc")
    reader.expect_end("one column is enough: write `-NAME` or `NAME desc`")
    return Sort(column, descending or minus)


def parse_columns(text: str, table: Table = RUNS) -> list[Column]:
    """XT's form, ``name[=header][:format]``, separated by commas: ``state,metrics.*:.3f,params.lr=LR``.

    Raises InvalidInput for an unknown column, or a format that values of that column cannot have.
    """
    check_text(text, "columns")
    columns: list[Column] = []
    position = 0
    while True:
        found = _SPEC.match(text, position)
        if found is None:
            end = text.find(",", position) if "," in text[position:] else len(text)
            message = f"{shown(text[position:end].strip())} is not a column"
            raise problem(
                "columns", text, position, end, message, "write name, name=header or name:format, as in loss:.3f"
            )
        columns.append(_column(text, found, table))
        if len(columns) > MAX_COLUMNS:
            raise problem("columns", text, position, found.end(), f"more than {MAX_COLUMNS} columns", "name fewer")
        if not found["end"]:
            return columns
        position = found.end()


def expand_columns(columns: Iterable[Column], views: Sequence[Mapping[str, object]]) -> list[Column]:
    """The same with each pattern replaced by the columns that `views` have for it, by name, and none twice."""
    expanded: dict[str, Column] = {}
    for column in columns:
        if not column.is_pattern:
            expanded.setdefault(column.name, column)
            continue
        space, _, pattern = column.name.partition(".")
        names = {name for view in views if isinstance(found := view.get(space), Mapping) for name in found}
        for name in sorted(str(name) for name in names if like(str(name), pattern)):
            whole = f"{space}.{name}"
            expanded.setdefault(whole, replace(column, name=whole, header=name, is_pattern=False))
    return list(expanded.values())


def _column(text: str, found: re.Match[str], table: Table) -> Column:
    name, kind = found["name"], Kind.TEXT
    space, dot, rest = name.partition(".")
    is_pattern = bool(dot) and not rest.startswith('"') and ("*" in rest or "?" in rest)
    if is_pattern and table.canonical(f"{space}.x"):
        name = str(table.canonical(name))
        kind = table.field_of(name).kind
    elif name not in table.shown_only:
        reader = Reader(name, "columns", table=table, whole=text, offset=found.start("name"))
        name, is_pattern = reader.column(), False
        reader.expect_end('quote a name with unusual characters: metrics."val loss"')
        kind = table.field_of(name).kind
    header = (found["header"] or "").strip()
    if header.startswith('"'):
        header = _ESCAPED.sub(r"\1", header[1:-1])
    spec = found["format"] or ""
    if found["format"] is not None and not _formats(spec, kind):
        message = f"{shown(spec)} does not format {name}"
        hint = "write for example :.3f for a number, :>10 for text, :%H:%M for a time"
        raise problem("columns", text, found.start("format"), found.end("format"), message, hint)
    return Column(name, header or name, spec, is_pattern)


def _formats(spec: str, kind: Kind) -> bool:
    """Whether `spec` is a format for values of that kind, and one that makes short text."""
    if spec.startswith("$"):
        return (kind is Kind.TIME) == (spec != BLANK_ZERO) and kind not in (Kind.TEXT, Kind.STATE)
    if kind is Kind.TIME:
        return "%" in spec and re.fullmatch(_TIME_FORMAT, spec) is not None
    return (
        bool(spec) and re.fullmatch(_VALUE_FORMAT, spec) is not None and any(_fits(spec, one) for one in _SAMPLES[kind])
    )


def _fits(spec: str, sample: object) -> bool:
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True
