"""A filter as a value: what the parser makes, and the store and `matches` understand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Op(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    MATCH = "~"  # a regular expression, found somewhere in the text
    NO_MATCH = "!~"
    LIKE = "like"  # a wildcard pattern, * and ?, for the whole text
    UNLIKE = "not like"
    IN = "in"  # the value is a tuple
    NOT_IN = "not in"


@dataclass(frozen=True, slots=True)
class Age:
    """A time told by how long ago it is: ``2h`` is Age(2, "h"). `started < 2h` is *less* than two hours ago."""

    amount: float
    unit: str

    @property
    def seconds(self) -> float:
        return self.amount * UNITS[self.unit]

    def before(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.seconds)


#: text, a number, true or false, an aware UTC time, or an age
Scalar = str | int | float | bool | datetime | Age
Value = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """`column` is a canonical name, ``state`` or ``metrics.val loss``; the value has the type of the column.

    False where the column has no value, whatever the operator. `value` is a tuple exactly for IN and NOT_IN.
    """

    column: str
    op: Op
    value: Value


@dataclass(frozen=True, slots=True)
class Exists:
    """The column has a value; in a namespace: something was recorded under that name, even if it is null or NaN."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    item: Expression


@dataclass(frozen=True, slots=True)
class And:
    """All of `items`; at least two."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of `items`; at least two."""

    items: tuple[Expression, ...]


Expression = Compare | Exists | Not | And | Or


def columns_of(expression: Expression | None) -> list[str]:
    """The columns it asks about, each once, in their order."""
    match expression:
        case None:
            return []
        case Compare(column) | Exists(column):
            return [column]
        case Not(item):
            return columns_of(item)
        case And(items) | Or(items):
            return list(dict.fromkeys(column for item in items for column in columns_of(item)))
