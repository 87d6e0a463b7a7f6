"""From what was written to a value of the column's type."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from turnout.model.likeness import nearest
from turnout.model.measures import parse_size
from turnout.query.columns import Field, Kind
from turnout.query.expression import UNITS, Age, Scalar
from turnout.query.problem import shown

_INT = re.compile(r"[+-]?\d+\Z", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?\Z", re.ASCII | re.IGNORECASE)
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])\Z", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?\Z", re.ASCII)
_WIDEST_INT = 1 << 63
_OLDEST = 36_500 * UNITS["d"]
_BOOLEANS = {"true": True, "false": False, "$true": True, "$false": False}


class Unfit(ValueError):
    """The text is no value of that type. Its text says what is wanted, `hint` what to write."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def read(text: str, field: Field, *, quoted: bool) -> Scalar:
    """The value. Raises Unfit."""
    return _READERS[field.kind](text, field, quoted)


def _text(text: str, field: Field, quoted: bool) -> str:
    return "" if text == "$empty" and not quoted else text


def _choice(text: str, field: Field, quoted: bool) -> str:
    if text not in field.choices:
        near = nearest(text, field.choices)
        raise Unfit(
            f"{shown(text)} is not one", f"did you mean {near}?" if near else "write " + ", ".join(field.choices)
        )
    return text


def _int(text: str, field: Field, quoted: bool) -> int:
    if not _INT.match(text):
        raise Unfit(f"{shown(text)} is not one", "write a number such as 1, or `exists`")
    value = int(text)
    if not -_WIDEST_INT <= value < _WIDEST_INT:
        raise Unfit(f"{shown(text)} has more than 64 bits")
    return value


def _number(text: str) -> int | float | None:
    if _INT.match(text) and -_WIDEST_INT <= int(text) < _WIDEST_INT:
        return int(text)
    return float(text) if _FLOAT.match(text) else None


def _float(text: str, field: Field, quoted: bool) -> int | float:
    value = float(text) if _INFINITE.match(text) else _number(text)
    if value is None:
        raise Unfit(f"{shown(text)} is not one", "write a number such as 0.3, or `exists`; NaN counts as missing")
    return value


def _span(text: str, field: Field, quoted: bool) -> int | float:
    found = _AGE.match(text)
    value = float(found[1]) * UNITS[found[2]] if found else _number(text)
    if value is None:
        raise Unfit(f"{shown(text)} is not one", "write seconds, or 90s, 15m, 2h, 3d, 1w")
    return value


def _size(text: str, field: Field, quoted: bool) -> int:
    try:
        size = parse_size(text)
    except (ValueError, OverflowError) as error:
        raise Unfit(f"{shown(text)} is not one", "write bytes, or 500K, 20M, 1.5G") from error
    return _int(str(size), field, quoted)


def _time(text: str, field: Field, quoted: bool) -> datetime | Age:
    found = _AGE.match(text)
    if found:
        age = Age(float(found[1]), found[2])
        if age.seconds > _OLDEST:
            raise Unfit(f"{shown(text)} is more than a hundred years")
        return age
    wanted = "write a date such as 2024-05-01, 2024-05-01T10:30, or an age such as 90s, 15m, 2h, 3d"
    if not _TIME.match(text):
        raise Unfit(f"{shown(text)} is not one", wanted)
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # 2024-02-31
        raise Unfit(f"{shown(text)} is not in the calendar", wanted) from error


def _any(text: str, field: Field, quoted: bool) -> str | int | float | bool:
    if quoted:
        return text
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    number = _number(text)
    return _text(text, field, quoted) if number is None else number


_READERS: dict[Kind, Callable[[str, Field, bool], Scalar]] = {
    Kind.TEXT: _text,
    Kind.STATE: _choice,
    Kind.INT: _int,
    Kind.FLOAT: _float,
    Kind.SPAN: _span,
    Kind.SIZE: _size,
    Kind.TIME: _time,
    Kind.ANY: _any,
}
