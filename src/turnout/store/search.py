"""Finding runs: the filter language as SQL, on indexed columns, with bound values only."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import isinf
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import job_name, parse_job_name, parse_run_name, run_name
from turnout.query import And, Compare, Exists, Expression, Not, Op, Or, Scalar, Sort, resolve
from turnout.store import schema

_RUNS = schema.runs
Condition = sa.ColumnElement[bool]

_NAME = sa.case(
    (_RUNS.c.child == 0, sa.literal("run").concat(sa.cast(_RUNS.c.number, sa.Text))),
    else_=sa.literal("run")
    .concat(sa.cast(_RUNS.c.number, sa.Text))
    .concat(".")
    .concat(sa.cast(_RUNS.c.child, sa.Text)),
)
_PARENT = sa.case((_RUNS.c.child > 0, sa.literal("run").concat(sa.cast(_RUNS.c.number, sa.Text))), else_=None)
_COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    **{name: _RUNS.c[name] for name in (
        "experiment", "workspace", "state", "reason", "exit_code", "target", "node", "label", "priority", "created",
        "queued", "started", "ended",
    )},
    "attempts": _RUNS.c.attempt,
    "name": _NAME,
    "parent": _PARENT,
    "job": sa.literal("job").concat(sa.cast(_RUNS.c.job_id, sa.Text)),
    "duration": _RUNS.c.ended - _RUNS.c.started,
}  # fmt: skip
_NULLABLE = frozenset({"reason", "exit_code", "node", "label", "parent", "queued", "started", "ended", "duration"})
_TIMES = frozenset({"created", "started", "ended"})  # each with an index of its own
_BOUNDS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_EXACT = 2**53  # integers beyond it are not all floats


def find_runs(
    connection: sa.Connection, expression: Expression | None, order: Sort | None, *, limit: int, offset: int
) -> list[int]:
    """Ids of the runs that match, newest first unless sorted otherwise: by when they were created, or by when they
    started or ended if that alone is what they are filtered by. Runs without the sort column come last."""
    select = sa.select(_RUNS.c.id)
    if expression is not None:
        select = select.where(_Compiler(connection.dialect.name).condition(resolve(expression, datetime.now(UTC))))
    if order is None:
        return _ids(connection, select.order_by(*_newest_first(_time_of(expression))), limit, offset)
    found: list[int] = []
    for part in _sorted(select, order):
        found += _ids(connection, part, limit - len(found), offset)
        if len(found) == limit:
            break
        offset = 0 if found or not offset else max(0, offset - _count(connection, part))
    return found


def _time_of(expression: Expression | None) -> str:
    """What "newest" goes by: when a run was created; of a filter that bounds nothing but when runs started or ended,
    that time, whose index then leads to the matches in order."""
    parts = expression.items if isinstance(expression, And) else (expression,)
    bounded = [part.column if isinstance(part, Compare) and part.op in _BOUNDS else "" for part in parts]
    return bounded[0] if bounded[0] in _TIMES and set(bounded) == {bounded[0]} else "created"


def _newest_first(time: str = "created") -> tuple[sa.ColumnElement[Any], ...]:
    return _RUNS.c[time].desc(), _RUNS.c.id.desc()


def _ids(connection: sa.Connection, select: sa.Select[tuple[int]], limit: int, offset: int) -> list[int]:
    return [row.id for row in connection.execute(select.limit(limit).offset(offset))]


def _count(connection: sa.Connection, select: sa.Select[tuple[int]]) -> int:
    counted = sa.select(sa.func.count()).select_from(select.order_by(None).subquery())
    return int(connection.execute(counted).scalar_one())


def _sorted(select: sa.Select[tuple[int]], order: Sort) -> Iterator[sa.Select[tuple[int]]]:
    """Selects that each follow an index, one behind the other: the runs that have the column, sorted; those that lack
    it, newest first. Of a parameter, numbers come before texts, and texts before anything else."""
    space, dot, name = order.column.partition(".")
    if dot:
        rows = _namespace(space, name)
        for present, keys in _sort_keys(space, rows):
            having = select.join(rows, rows.c.run_id == _RUNS.c.id).where(*present)
            yield having.order_by(*_directed(order, *keys, rows.c.run_id))
        yield select.where(_RUNS.c.id.not_in(sa.select(rows.c.run_id))).order_by(*_newest_first())
        return
    if order.column == "name":
        yield select.order_by(*_directed(order, _RUNS.c.number, _RUNS.c.child))
        return
    key = _RUNS.c.job_id if order.column == "job" else _COLUMNS[order.column]
    having = select.where(key.is_not(None)) if order.column in _NULLABLE else select
    ties = (_RUNS.c.id,) if order.column in _TIMES else (_RUNS.c.created, _RUNS.c.id)  # as in their indexes
    yield having.order_by(*_directed(order, key, *ties))
    if order.column in _NULLABLE:
        yield select.where(key.is_(None)).order_by(*(tie.desc() for tie in ties))


def _sort_keys(space: str, rows: sa.FromClause) -> list[tuple[list[Condition], list[sa.ColumnElement[Any]]]]:
    if space == "metrics":
        return [([], [rows.c.last])]
    if space == "tags":
        return [([], [schema.start_of(rows.c.value), rows.c.value])]
    number, text = rows.c.number, rows.c.text
    return [
        ([number.is_not(None)], [number]),
        ([text.is_not(None)], [schema.start_of(text), text]),
        ([number.is_(None), text.is_(None)], [rows.c.value]),
    ]


def _directed(order: Sort, *keys: sa.ColumnElement[Any]) -> list[sa.ColumnElement[Any]]:
    return [key.desc() if order.descending else key for key in keys]


def _namespace(space: str, name: str) -> sa.FromClause:
    """The rows of one metric, parameter or tag that have a value: neither null nor NaN."""
    if space == "metrics":
        names, table = schema.metric_names, schema.metrics
        number = sa.select(names.c.id).where(names.c.name == name).scalar_subquery()
        return sa.select(table).where(table.c.name_id == number, table.c.last.is_not(None)).subquery()
    table = schema.params if space == "params" else schema.tags
    rows = sa.select(table).where(table.c.name == name)
    return (rows.where(table.c.value.not_in(("null", "NaN"))) if space == "params" else rows).subquery()


class _Compiler:
    """A filter as a condition on runs, as `query.matches` defines it: comparing with a missing value is false."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect

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
                values = value if isinstance(value, tuple) else (value,)
                return self._compare(column, op, values)

    def _exists(self, column: str) -> Condition:
        space, dot, name = column.partition(".")
        if not dot:
            return _COLUMNS[column].is_not(None)
        if space == "metrics":
            names, table = schema.metric_names, schema.metrics
            number = sa.select(names.c.id).where(names.c.name == name).scalar_subquery()
            return _RUNS.c.id.in_(sa.select(table.c.run_id).where(table.c.name_id == number))
        table = schema.params if space == "params" else schema.tags
        return _RUNS.c.id.in_(sa.select(table.c.run_id).where(table.c.name == name))

    def _compare(self, column: str, op: Op, values: tuple[Scalar, ...]) -> Condition:
        space, dot, name = column.partition(".")
        if dot:
            rows = _namespace(space, name)
            return _RUNS.c.id.in_(sa.select(rows.c.run_id).where(self._on_value(space, rows, op, values)))
        if op in (Op.EQ, Op.IN) and column in ("name", "job", "parent"):
            return sa.or_(*(_is_named(column, str(value)) for value in values))
        place = _COLUMNS[column]
        return sa.and_(place.is_not(None), self._test(place, op, tuple(_plain(value) for value in values)))

    def _on_value(self, space: str, rows: sa.FromClause, op: Op, values: tuple[Scalar, ...]) -> Condition:
        if space == "metrics":
            return self._test(rows.c.last, op, _floats(values))
        if op in (Op.LIKE, Op.UNLIKE):
            text = rows.c.text if space == "params" else rows.c.value
            return sa.and_(text.is_not(None), self._test(text, op, values))
        if op in (Op.LT, Op.LE, Op.GT, Op.GE):
            return sa.and_(rows.c.number.is_not(None), self._test(rows.c.number, op, _floats(values)))
        same = _same_param if space == "params" else _same_tag
        equal = sa.or_(*(same(rows, value) for value in values))
        return sa.not_(equal) if op in (Op.NE, Op.NOT_IN) else equal

    def _test(self, place: Any, op: Op, values: tuple[Any, ...]) -> Condition:
        if op in (Op.IN, Op.NOT_IN):
            found: Condition = place.in_(values)
            return sa.not_(found) if op is Op.NOT_IN else found
        if op in (Op.LIKE, Op.UNLIKE):
            found = self._like(place, str(values[0]))
            return sa.not_(found) if op is Op.UNLIKE else found
        compared: Condition = _OPERATORS[op](place, values[0])
        return compared

    def _like(self, place: Any, pattern: str) -> Condition:
        """Case counts: GLOB on SQLite, LIKE on PostgreSQL."""
        if self._dialect == "sqlite":
            return sa.type_coerce(place.op("GLOB")(pattern.replace("[", "[[]")), sa.Boolean)
        for special in ("\\", "%", "_"):
            pattern = pattern.replace(special, "\\" + special)
        liked: Condition = place.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")
        return liked


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
        number = parse_job_name(text)
        return _RUNS.c.job_id == number if number is not None and text == job_name(number) else sa.false()
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


def waiting_ahead(connection: sa.Connection, run: int) -> int | None:
    """How many runs are before this one in its target's queue; None when it does not wait."""
    row = connection.execute(sa.select(_RUNS.c.target, _RUNS.c.waiting).where(_RUNS.c.id == run)).one()
    if row.waiting is None:
        return None
    before = sa.or_(_RUNS.c.waiting < row.waiting, sa.and_(_RUNS.c.waiting == row.waiting, _RUNS.c.id < run))
    queue = (_RUNS.c.target == row.target, _RUNS.c.waiting.is_not(None))
    return int(connection.execute(sa.select(sa.func.count()).where(*queue, before)).scalar_one())


def newest_jobs(connection: sa.Connection, *, limit: int, offset: int) -> list[int]:
    select = sa.select(schema.jobs.c.id).order_by(schema.jobs.c.id.desc()).limit(limit).offset(offset)
    return [row.id for row in connection.execute(select)]


def snapshots_of(connection: sa.Connection, run: int) -> dict[str, Any]:
    """Digests of what the run was given and what it left."""
    jobs = schema.jobs
    select = sa.select(jobs.c.before, _RUNS.c.after).join(jobs, jobs.c.id == _RUNS.c.job_id).where(_RUNS.c.id == run)
    row = connection.execute(select).one()
    return {"before": row.before, "after": row.after}
