"""A filter as SQL: a condition on runs, on indexed columns, with bound values only."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from datetime import datetime
from math import isinf
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import job_name, parse_job_name, parse_run_name, parse_step_name, run_name
from turnout.query import And, Compare, Exists, Expression, Not, Op, Or, Scalar, Value, regex
from turnout.query.columns import ORDER, PATTERNS, WILDCARDS
from turnout.query.matching import like
from turnout.store import schema
from turnout.store.belonging import of_job
from turnout.store.distinct import few_values
from turnout.store.globs import fits

_RUNS = schema.runs
Condition = sa.ColumnElement[bool]

_OUTER = sa.literal("run").concat(sa.cast(_RUNS.c.number, sa.Text))
_NAME = sa.case((_RUNS.c.child == 0, _OUTER), else_=_OUTER.concat(".").concat(sa.cast(_RUNS.c.child, sa.Text)))
_PARENT = sa.case((_RUNS.c.child > 0, _OUTER), else_=None)
COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    **{name: _RUNS.c[name] for name in (
        "experiment", "workspace", "state", "reason", "exit_code", "target", "node", "label", "priority", "created",
        "queued", "started", "ended", "origin",
    )},
    "attempts": _RUNS.c.attempt,
    "name": _NAME,
    "parent": _PARENT,
    "job": sa.literal("job").concat(sa.cast(_RUNS.c.job_id, sa.Text)),
    "duration": _RUNS.c.ended - _RUNS.c.started,
}  # fmt: skip
_PATTERNS = PATTERNS | WILDCARDS
_OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
FEW = frozenset({"experiment", "workspace", "state", "target", "node"})  # few values, each indexed
_MANY = 20_000
_EXACT = 2**53  # integers beyond it are not all floats


def rows_of(space: str, name: str) -> sa.FromClause:
    """The rows of one metric, parameter or tag that have a value: neither null nor NaN."""
    if space == "metrics":
        names, table = schema.metric_names, schema.metrics
        number = sa.select(names.c.id).where(names.c.name == name).scalar_subquery()
        return sa.select(table).where(table.c.name_id == number, table.c.last.is_not(None)).subquery()
    table = schema.params if space == "params" else schema.tags
    rows = sa.select(table).where(table.c.name == name)
    return (rows.where(table.c.value.not_in(("null", "NaN"))) if space == "params" else rows).subquery()


class Compiler:
    """A filter as a condition on runs, as `query.matches` defines it: comparing with a missing value is false.

    `walks`: the runs are read in order along an index, until enough are found.
    """

    def __init__(self, connection: sa.Connection, *, walks: bool) -> None:
        self._connection = connection
        self._walks = walks
        self._is_sqlite = connection.dialect.name == "sqlite"

    def condition(self, expression: Expression) -> Condition:
        match expression:
            case And(items):
                return sa.and_(*(self.condition(item) for item in items))
            case Or(items):
                return sa.or_(*(self.condition(item) for item in items))
            case Not(item):
                return sa.not_(self.condition(item))
            case Exists(column):
                return self._exists(column)
            case Compare(column, op, value):
                return self._compare(column, op, several(value))

    def _exists(self, column: str) -> Condition:
        space, dot, name = column.partition(".")
        if not dot:
            return COLUMNS[column].is_not(None)
        if space == "metrics":
            names, table = schema.metric_names, schema.metrics
            number = sa.select(names.c.id).where(names.c.name == name).scalar_subquery()
            return self._among(table, table.c.name_id == number)
        table = schema.params if space == "params" else schema.tags
        return self._among(table, table.c.name == name)

    def _among(self, rows: sa.FromClause, *conditions: Condition) -> Condition:
        """Runs that have such a row. Few are looked up first; of many, each run on the way is asked whether it has."""
        found = sa.select(rows.c.run_id).where(*conditions)
        if self._walks and self._connection.execute(found.limit(1).offset(_MANY)).first() is not None:
            return found.where(rows.c.run_id == _RUNS.c.id).correlate(_RUNS).exists()
        return _RUNS.c.id.in_(found)

    def _compare(self, column: str, op: Op, values: tuple[Scalar, ...]) -> Condition:
        space, dot, name = column.partition(".")
        if dot:
            rows = rows_of(space, name)
            return self._among(rows, self.on_value(space, rows, op, values))
        if op in (Op.EQ, Op.IN) and column in ("name", "job", "parent"):
            return sa.or_(*(_is_named(column, str(value)) for value in values))
        place = COLUMNS[column]
        if op in _PATTERNS and column in FEW:
            return self._among_few(column, op, str(values[0]))
        return sa.and_(place.is_not(None), self._test(place, op, tuple(_plain(value) for value in values)))

    def _among_few(self, column: str, op: Op, pattern: str) -> Condition:
        """A pattern for a column of few values: which of them fit is found out first, then an index leads to them."""
        values = few_values(self._connection, _RUNS.c[column])
        if values is None:
            return sa.and_(_RUNS.c[column].is_not(None), self._test(_RUNS.c[column], op, (pattern,)))
        test = regex.search if op in PATTERNS else (lambda wanted, text: like(text, wanted))
        negated = op in (Op.NO_MATCH, Op.UNLIKE)
        fitting = [value for value in values if test(pattern, value) != negated]
        return sa.and_(_RUNS.c[column].is_not(None), _RUNS.c[column].in_(fitting))

    def on_value(self, space: str, rows: sa.FromClause, op: Op, values: tuple[Scalar, ...]) -> Condition:
        if space == "metrics":
            return self._test(rows.c.last, op, _floats(values))
        if op in _PATTERNS:
            text = rows.c.text if space == "params" else rows.c.value
            return sa.and_(text.is_not(None), self._test(text, op, values))
        if op in ORDER:
            return sa.and_(rows.c.number.is_not(None), self._test(rows.c.number, op, _floats(values)))
        same = _same_param if space == "params" else _same_tag
        equal = sa.or_(*(same(rows, value) for value in values))
        return sa.not_(equal) if op in (Op.NE, Op.NOT_IN) else equal

    def _test(self, place: Any, op: Op, values: tuple[Any, ...]) -> Condition:
        if op in (Op.IN, Op.NOT_IN):
            found: Condition = place.in_(values)
            return sa.not_(found) if op is Op.NOT_IN else found
        if op in _PATTERNS:
            pattern = str(values[0])
            is_wild = op in WILDCARDS
            found = fits(self._connection, place, pattern) if is_wild else self._match(place, pattern)
            return sa.not_(found) if op in (Op.UNLIKE, Op.NO_MATCH) else found
        compared: Condition = _OPERATORS[op](place, values[0])
        return compared

    def _match(self, place: Any, pattern: str) -> Condition:
        """On SQLite by `query.regex` itself; on PostgreSQL as it is written there."""
        if self._is_sqlite:
            return sa.type_coerce(place.op("REGEXP")(pattern), sa.Boolean)
        found: Condition = place.op("~", is_comparison=True)(regex.to_posix(regex.parse(pattern)))
        return found


def several(value: Value) -> tuple[Scalar, ...]:
    return value if isinstance(value, tuple) else (value,)


def _same_param(rows: sa.FromClause, value: Scalar) -> Condition:
    """A parameter that was recorded as a number equals a number, a text a text, true only true."""
    if isinstance(value, str):
        return sa.and_(rows.c.text.is_not(None), _same_text(rows.c.text, value))
    if not isinstance(value, int | float) or isinstance(value, bool):
        return rows.c.value == json.dumps(value)
    same = sa.and_(rows.c.number.is_not(None), rows.c.number == float(value))
    if abs(value) < _EXACT or isinf(value):
        return same
    forms = {json.dumps(value), *([json.dumps(int(value)), json.dumps(float(value))] if value == float(value) else [])}
    return sa.and_(same, rows.c.value.in_(sorted(forms)))


def _same_tag(rows: sa.FromClause, value: Scalar) -> Condition:
    return _same_text(rows.c.value, str(value))


def _same_text(place: sa.ColumnElement[str], text: str) -> Condition:
    return sa.and_(schema.start_of(place) == schema.start_of(sa.literal(text)), place == text)


def _is_named(column: str, text: str) -> Condition:
    if column == "job":
        number, step = parse_job_name(text), parse_step_name(text)
        if step is not None:
            of_step = sa.and_(schema.jobs.c.pipeline == step[0], schema.jobs.c.step == step[1])
            return _RUNS.c.job_id.in_(sa.select(schema.jobs.c.id).where(of_step))
        return of_job(number) if number is not None and text == job_name(number) else sa.false()
    parsed = parse_run_name(text)
    if parsed is None or text != run_name(parsed[0], parsed[1] or None):
        return sa.false()
    if column == "parent":
        return sa.and_(_RUNS.c.number == parsed[0], _RUNS.c.child > 0) if parsed[1] is None else sa.false()
    return sa.and_(_RUNS.c.number == parsed[0], _RUNS.c.child == (parsed[1] or 0))


def _plain(value: Scalar) -> Any:
    """A value as it is bound. An integer may be larger than any of its column, which is no error but false."""
    if isinstance(value, datetime):
        return value.timestamp()
    return sa.literal(value, sa.BigInteger()) if isinstance(value, int) else value


def _floats(values: tuple[Scalar, ...]) -> tuple[float, ...]:
    """Numbers as what they are compared with: SQLAlchemy would bind ``(0, 0.1)`` as two integers."""
    return tuple(float(value) for value in values if isinstance(value, int | float))
