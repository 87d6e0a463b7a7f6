"""Finding runs: the filter language as SQL, on indexed columns, with bound values only."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isinf
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import job_name, parse_job_name, parse_run_name, run_name
from turnout.query import And, Compare, Exists, Expression, Not, Op, Or, Scalar, Sort, Value, regex, resolve
from turnout.query.matching import like
from turnout.store import schema
from turnout.store.distinct import few_values

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
_PATTERNS = frozenset({Op.LIKE, Op.UNLIKE, Op.MATCH, Op.NO_MATCH})
_BOUNDS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
_OPERATORS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_FEW = frozenset({"experiment", "workspace", "state", "target", "node"})  # few values, each indexed
_INDEXED = _TIMES | _FEW | {"name", "job", "exit_code", "duration"}
_MANY = 20_000
_EXACT = 2**53  # integers beyond it are not all floats


def find_runs(
    connection: sa.Connection,
    expression: Expression | None,
    order: Sort | None,
    *,
    limit: int,
    offset: int,
    within: Condition | None = None,
    from_end: bool = False,
) -> list[int]:
    """Ids of the runs that match, newest first unless sorted otherwise: by when they were created, or by when they
    started or ended if that alone is what they are filtered by. Runs without the sort column come last.

    `within` is a further condition, as `naming.chosen` makes it. With `from_end`, `limit` and `offset` count from the
    end of that order; what is found stands in it as always.
    """
    walks = order is None or "." in order.column or order.column in _INDEXED
    compiler = _Compiler(connection, walks=walks)
    rest, own = _split(resolve(expression, datetime.now(UTC)) if expression is not None else None, order)
    select = sa.select(_RUNS.c.id).where(*(compiler.condition(item) for item in rest))
    if within is not None:
        select = select.where(within)
    if order is None:
        parts = [_Part(select, _newest_first(_time_of(expression)))]
    else:
        parts = list(_sorted(select, order, compiler, own))
    if from_end:
        parts = [part.reversed() for part in reversed(parts)]
    found: list[int] = []
    for part in parts:
        found += _ids(connection, part.ordered(), limit - len(found), offset)
        if len(found) == limit:
            break
        offset = 0 if found or not offset else max(0, offset - _count(connection, part.select))
    return found[::-1] if from_end else found


@dataclass(frozen=True, slots=True)
class _Part:
    """A select that follows an index, and its order: keys, each with whether the largest comes first."""

    select: sa.Select[tuple[int]]
    keys: tuple[tuple[sa.ColumnElement[Any], bool], ...]

    def ordered(self) -> sa.Select[tuple[int]]:
        return self.select.order_by(*(key.desc() if descending else key for key, descending in self.keys))

    def reversed(self) -> _Part:
        return _Part(self.select, tuple((key, not descending) for key, descending in self.keys))


def _split(expression: Expression | None, order: Sort | None) -> tuple[list[Expression], list[Compare]]:
    """What must be true, and apart from the rest, comparisons with the metric, parameter or tag that is sorted by: they
    bound the part of its index that is read."""
    items: tuple[Expression, ...] = (
        expression.items if isinstance(expression, And) else (expression,) if expression else ()
    )
    own = [
        item
        for item in items
        if order and "." in order.column and isinstance(item, Compare) and item.column == order.column
    ]
    return [item for item in items if item not in own], own


def _time_of(expression: Expression | None) -> str:
    """What "newest" goes by: when a run was created; of a filter that bounds nothing but when runs started or ended,
    that time, whose index then leads to the matches in order."""
    parts = expression.items if isinstance(expression, And) else (expression,)
    bounded = [part.column if isinstance(part, Compare) and part.op in _BOUNDS else "" for part in parts]
    return bounded[0] if bounded[0] in _TIMES and set(bounded) == {bounded[0]} else "created"


def _newest_first(time: str = "created") -> tuple[tuple[sa.ColumnElement[Any], bool], ...]:
    return (_RUNS.c[time], True), (_RUNS.c.id, True)


def _ids(connection: sa.Connection, select: sa.Select[tuple[int]], limit: int, offset: int) -> list[int]:
    return [row.id for row in connection.execute(select.limit(limit).offset(offset))]


def _count(connection: sa.Connection, select: sa.Select[tuple[int]]) -> int:
    counted = sa.select(sa.func.count()).select_from(select.subquery())
    return int(connection.execute(counted).scalar_one())


def _sorted(select: sa.Select[tuple[int]], order: Sort, compiler: _Compiler, own: list[Compare]) -> Iterator[_Part]:
    """Selects that each follow an index, one behind the other: the runs that have the column, sorted; those that lack
    it, newest first. Of a parameter, numbers come before texts, and texts before anything else.

    `own` are comparisons with that column, which all must hold (and do not for a run that lacks it).
    """
    space, dot, name = order.column.partition(".")
    if dot:
        rows = _namespace(space, name)
        for present, keys in _sort_keys(space, rows):
            bounds = [compiler.on_value(space, rows, item.op, _several(item.value)) for item in own]
            having = select.join(rows, rows.c.run_id == _RUNS.c.id).where(*present, *bounds)
            yield _Part(having, _directed(order, *keys, rows.c.run_id))
        if not own:
            yield _Part(select.where(_RUNS.c.id.not_in(sa.select(rows.c.run_id))), _newest_first())
        return
    if order.column == "name":
        yield _Part(select, _directed(order, _RUNS.c.number, _RUNS.c.child))
        return
    key = _RUNS.c.job_id if order.column == "job" else _COLUMNS[order.column]
    having = select.where(key.is_not(None)) if order.column in _NULLABLE else select
    if order.column == "duration":
        having = having.where(_RUNS.c.ended.is_not(None))  # what its index is limited to
    by_id = order.column in _TIMES or order.column == "duration"
    ties = (_RUNS.c.id,) if by_id else (_RUNS.c.created, _RUNS.c.id)  # as in their indexes
    yield _Part(having, _directed(order, key, *ties))
    if order.column in _NULLABLE:
        yield _Part(select.where(key.is_(None)), tuple((tie, True) for tie in ties))


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


def _directed(order: Sort, *keys: sa.ColumnElement[Any]) -> tuple[tuple[sa.ColumnElement[Any], bool], ...]:
    return tuple((key, order.descending) for key in keys)


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
                return self._compare(column, op, _several(value))

    def _exists(self, column: str) -> Condition:
        space, dot, name = column.partition(".")
        if not dot:
            return _COLUMNS[column].is_not(None)
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
            rows = _namespace(space, name)
            return self._among(rows, self.on_value(space, rows, op, values))
        if op in (Op.EQ, Op.IN) and column in ("name", "job", "parent"):
            return sa.or_(*(_is_named(column, str(value)) for value in values))
        place = _COLUMNS[column]
        if op in _PATTERNS and column in _FEW:
            return self._among_few(column, op, str(values[0]))
        return sa.and_(place.is_not(None), self._test(place, op, tuple(_plain(value) for value in values)))

    def _among_few(self, column: str, op: Op, pattern: str) -> Condition:
        """A pattern for a column of few values: which of them fit is found out first, then an index leads to them."""
        values = few_values(self._connection, _RUNS.c[column])
        if values is None:
            return sa.and_(_RUNS.c[column].is_not(None), self._test(_RUNS.c[column], op, (pattern,)))
        test = regex.search if op in (Op.MATCH, Op.NO_MATCH) else (lambda wanted, text: like(text, wanted))
        negated = op in (Op.NO_MATCH, Op.UNLIKE)
        fitting = [value for value in values if test(pattern, value) != negated]
        return sa.and_(_RUNS.c[column].is_not(None), _RUNS.c[column].in_(fitting))

    def on_value(self, space: str, rows: sa.FromClause, op: Op, values: tuple[Scalar, ...]) -> Condition:
        if space == "metrics":
            return self._test(rows.c.last, op, _floats(values))
        if op in _PATTERNS:
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
        if op in _PATTERNS:
            pattern = str(values[0])
            found = self._like(place, pattern) if op in (Op.LIKE, Op.UNLIKE) else self._match(place, pattern)
            return sa.not_(found) if op in (Op.UNLIKE, Op.NO_MATCH) else found
        compared: Condition = _OPERATORS[op](place, values[0])
        return compared

    def _like(self, place: Any, pattern: str) -> Condition:
        """Case counts: GLOB on SQLite, LIKE on PostgreSQL."""
        if self._is_sqlite:
            return sa.type_coerce(place.op("GLOB")(pattern.replace("[", "[[]")), sa.Boolean)
        for special in ("\\", "%", "_"):
            pattern = pattern.replace(special, "\\" + special)
        liked: Condition = place.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")
        return liked

    def _match(self, place: Any, pattern: str) -> Condition:
        """On SQLite by `query.regex` itself; on PostgreSQL as it is written there."""
        if self._is_sqlite:
            return sa.type_coerce(place.op("REGEXP")(pattern), sa.Boolean)
        found: Condition = place.op("~", is_comparison=True)(regex.to_posix(regex.parse(pattern)))
        return found


def _several(value: Value) -> tuple[Scalar, ...]:
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
    """How many runs are before this one in its queue; None when it does not wait."""
    row = connection.execute(sa.select(_RUNS.c.queue, _RUNS.c.waiting).where(_RUNS.c.id == run)).one()
    if row.waiting is None:
        return None
    before = sa.or_(_RUNS.c.waiting < row.waiting, sa.and_(_RUNS.c.waiting == row.waiting, _RUNS.c.id < run))
    queue = (_RUNS.c.queue == row.queue, _RUNS.c.waiting.is_not(None))
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
