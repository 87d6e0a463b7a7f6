"""What a filter means: the reference that the store's SQL has to agree with."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from turnout.query.columns import RUNS, Kind, Table
from turnout.query.expression import Age, And, Compare, Exists, Expression, Not, Op, Or, Scalar, Value

_ORDER: dict[Op, Callable[[float, float], bool]] = {
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
#: `started < 2h` asks for a small age, which is a late time
_AS_TIME = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}


def resolve(expression: Expression, now: datetime) -> Expression:
    """The same filter with every age replaced by the time it means at `now` (aware)."""
    match expression:
        case And(items):
            return And(tuple(resolve(item, now) for item in items))
        case Or(items):
            return Or(tuple(resolve(item, now) for item in items))
        case Not(item):
            return Not(resolve(item, now))
        case Compare(column, op, Age() as age):
            return Compare(column, _AS_TIME[op], age.before(now).astimezone(UTC))
        case _:
            return expression


def matches(
    expression: Expression, record: Mapping[str, object], *, now: datetime | None = None, table: Table = RUNS
) -> bool:
    """Whether a run (or a row of another `table`), shown as in JSON (metrics, params and tags are mappings in it), is
    what is asked for.

    Comparing with a missing value is false, whatever the operator. `now` is needed for ages (ValueError without).
    """
    if now is not None:
        return matches(resolve(expression, now), record, table=table)
    match expression:
        case And(items):
            return all(matches(item, record, table=table) for item in items)
        case Or(items):
            return any(matches(item, record, table=table) for item in items)
        case Not(item):
            return not matches(item, record, table=table)
        case Exists(column):
            return _exists(record, column)
        case Compare(column, op, value):
            return _compare(look_up(record, column), op, value, table.field_of(column).kind)


def look_up(record: Mapping[str, object], column: str) -> object:
    """A column of a row; dotted names look into metrics, params and tags. None where there is nothing."""
    space, dot, name = column.partition(".")
    if not dot:
        return record.get(column)
    names = record.get(space)
    return names.get(name) if isinstance(names, Mapping) else None


def _exists(record: Mapping[str, object], column: str) -> bool:
    space, dot, name = column.partition(".")
    if not dot:
        return record.get(column) is not None
    names = record.get(space)
    return isinstance(names, Mapping) and name in names


def _compare(found: object, op: Op, value: Value, kind: Kind) -> bool:
    if isinstance(value, tuple):
        equal = any(_equal(found, one) for one in value)
        return _present(found) and equal == (op is Op.IN)
    if isinstance(value, Age):
        raise ValueError("an age means nothing without the time it is now")
    if op in _ORDER:
        left, right = (_seconds(found), _seconds(value)) if kind is Kind.TIME else (_number(found), _number(value))
        return left is not None and right is not None and _ORDER[op](left, right)
    if op in (Op.MATCH, Op.NO_MATCH):
        from turnout.query import regex  # only who uses it pays for it

        return isinstance(found, str) and regex.search(str(value), found) == (op is Op.MATCH)
    if op in (Op.LIKE, Op.UNLIKE):
        return isinstance(found, str) and like(found, str(value)) == (op is Op.LIKE)
    return _present(found) and _equal(found, value) == (op is Op.EQ)


def _present(found: object) -> bool:
    return found is not None and not (isinstance(found, float) and math.isnan(found))


def _equal(found: object, value: Scalar) -> bool:
    """Equal and of one type: text is not a number, and true is not 1."""
    if isinstance(value, bool) or isinstance(found, bool):
        return found is value
    if isinstance(value, int | float):
        return isinstance(found, int | float) and found == value
    return isinstance(found, str) and found == value


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return value


def _seconds(value: object) -> float | None:
    """A time as seconds since 1970: from ISO text, a datetime, or such seconds."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return _number(value)


def like(text: str, pattern: str) -> bool:
    """Whether all of `text` fits `pattern`: ``*`` any characters or none, ``?`` one. At most len x len steps."""
    at = read = 0
    star, resume = -1, 0
    while at < len(text):
        if read < len(pattern) and pattern[read] == "*":
            star, resume = read, at
            read += 1
        elif read < len(pattern) and pattern[read] in ("?", text[at]):
            at, read = at + 1, read + 1
        elif star >= 0:  # let the last star take one character more
            resume += 1
            at, read = resume, star + 1
        else:
            return False
    return all(character == "*" for character in pattern[read:])
