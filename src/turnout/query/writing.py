"""From :class:`Expression` back to text that parses to the same."""

from __future__ import annotations

import re
from datetime import datetime

from turnout.query.columns import PLAIN_NAME
from turnout.query.expression import Age, And, Compare, Exists, Expression, Not, Op, Or, Scalar


def unparse(expression: Expression) -> str:
    """Text with ``parse(unparse(e)) == e`` for every e that parsing can make, within its limits of length and depth."""
    match expression:
        case And(items):
            return " and ".join(_within(item) for item in items)
        case Or(items):
            return " or ".join(_within(item) for item in items)
        case Not(item):
            return f"not {_within(item)}"
        case Exists(column):
            return f"{write_column(column)} exists"
        case Compare(column, op, tuple() as values):
            return f"{write_column(column)} {op} ({', '.join(map(_written, values))})"
        case Compare(column, Op.MATCH | Op.NO_MATCH as op, str() as pattern):
            return f"{write_column(column)} {op} {_quoted_pattern(pattern)}"
        case Compare(column, op, value):
            assert not isinstance(value, tuple)
            return f"{write_column(column)} {op} {_written(value)}"


def write_column(column: str) -> str:
    """The column as it can be typed: quoted where it has to be."""
    space, dot, name = column.partition(".")
    return column if not dot or PLAIN_NAME.match(name) else f"{space}.{_quoted(name)}"


def _within(item: Expression) -> str:
    return f"({unparse(item)})" if isinstance(item, And | Or) else unparse(item)


def _written(value: Scalar) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return _quoted(value.isoformat())
        case Age(amount, unit):
            return f"{amount:.6f}".rstrip("0").rstrip(".") + unit
        case str():
            return _quoted(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _quoted_pattern(text: str) -> str:
    """In a regular expression a backslash stands for itself, so only quotes get one more."""
    return '"' + re.sub(r'\\.|"', lambda found: '\\"' if found[0] == '"' else found[0], text, flags=re.DOTALL) + '"'
