"""Finding runs, in order and page by page, along indexes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from turnout.query import And, Compare, Expression, Sort, resolve
from turnout.query.columns import ORDER
from turnout.store import schema
from turnout.store.conditions import COLUMNS, FEW, Compiler, Condition, rows_of, several

_RUNS = schema.runs
_NULLABLE = frozenset({
    "reason", "exit_code", "node", "label", "parent", "queued", "started", "ended", "duration", "origin",
})  # fmt: skip
_TIMES = frozenset({"created", "started", "ended"})  # each with an index of its own
_INDEXED = _TIMES | FEW | {"name", "job", "exit_code", "duration"}


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
    compiler = Compiler(connection, walks=walks)
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
    bounded = [part.column if isinstance(part, Compare) and part.op in ORDER else "" for part in parts]
    return bounded[0] if bounded[0] in _TIMES and set(bounded) == {bounded[0]} else "created"


def _newest_first(time: str = "created") -> tuple[tuple[sa.ColumnElement[Any], bool], ...]:
    return (_RUNS.c[time], True), (_RUNS.c.id, True)


def _ids(connection: sa.Connection, select: sa.Select[tuple[int]], limit: int, offset: int) -> list[int]:
    return [row.id for row in connection.execute(select.limit(limit).offset(offset))]


def _count(connection: sa.Connection, select: sa.Select[tuple[int]]) -> int:
    counted = sa.select(sa.func.count()).select_from(select.subquery())
    return int(connection.execute(counted).scalar_one())


def _sorted(select: sa.Select[tuple[int]], order: Sort, compiler: Compiler, own: list[Compare]) -> Iterator[_Part]:
    """Selects that each follow an index, one behind the other: the runs that have the column, sorted; those that lack
    it, newest first. Of a parameter, numbers come before texts, and texts before anything else.

    `own` are comparisons with that column, which all must hold (and do not for a run that lacks it).
    """
    space, dot, name = order.column.partition(".")
    if dot:
        rows = rows_of(space, name)
        for present, keys in _sort_keys(space, rows):
            bounds = [compiler.on_value(space, rows, item.op, several(item.value)) for item in own]
            having = select.join(rows, rows.c.run_id == _RUNS.c.id).where(*present, *bounds)
            yield _Part(having, _directed(order, *keys, rows.c.run_id))
        if not own:
            yield _Part(select.where(_RUNS.c.id.not_in(sa.select(rows.c.run_id))), _newest_first())
        return
    if order.column == "name":
        yield _Part(select, _directed(order, _RUNS.c.number, _RUNS.c.child))
        return
    key = _RUNS.c.job_id if order.column == "job" else COLUMNS[order.column]
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
