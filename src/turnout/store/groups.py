"""The runs of a job by how they stand, or how they ended: few groups, however many runs there are."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.state import ON_NODE
from turnout.store import schema
from turnout.store.belonging import REPLACED, of_job
from turnout.store.reads import View

_RUNS = schema.runs
_STANDING = {"created": ("created",), "queued": ("queued",), "running": tuple(str(state) for state in ON_NODE)}
_UNWELL = ("failed", "cancelled", "stopped")
_CAUSE = (_RUNS.c.state, _RUNS.c.reason, _RUNS.c.exit_code, _RUNS.c.signal)
_MOST_NAMES = 3
_MOST_NODES = 20
Condition = sa.ColumnElement[bool]


def groups_of(connection: sa.Connection, job: int) -> list[View]:
    """Those that are held, wait, or are on nodes, as `state` created, queued, running; then those that did not end
    well, by cause, most frequent first. Each with its `count`, its first `names`, and the `nodes` it is on.

    A parent that has children is left out where they tell its story.
    """
    mine = sa.and_(of_job(job), _RUNS.c.step != REPLACED)
    own = [mine, _RUNS.c.id.not_in(sa.select(_RUNS.c.parent).where(mine, _RUNS.c.parent.is_not(None)))]
    groups = []
    for state, states in _STANDING.items():
        where = [*(own if state == "running" else [mine]), _RUNS.c.state.in_(states)]
        count = connection.execute(sa.select(sa.func.count()).select_from(_RUNS).where(*where)).scalar_one()
        if count:
            nodes = _nodes(connection, where) if state == "running" else []
            groups.append({"state": state, "count": count, "names": _names(connection, where), "nodes": nodes})
    return [*groups, *_unwell(connection, own)]


def _unwell(connection: sa.Connection, own: list[Condition]) -> list[View]:
    count = sa.func.count().label("count")
    select = sa.select(*_CAUSE, count).where(*own, _RUNS.c.state.in_(_UNWELL)).group_by(*_CAUSE)
    return [
        {**row, "nodes": [],
         "names": _names(connection, [*own, *(column.is_not_distinct_from(row[column.name]) for column in _CAUSE)])}
        for row in connection.execute(select.order_by(count.desc(), sa.func.min(_RUNS.c.id))).mappings()
    ]  # fmt: skip


def _names(connection: sa.Connection, where: Iterable[Condition]) -> list[str]:
    select = sa.select(_RUNS.c.number, _RUNS.c.child).where(*where).order_by(_RUNS.c.number, _RUNS.c.child)
    return [run_name(row.number, row.child or None) for row in connection.execute(select.limit(_MOST_NAMES))]


def _nodes(connection: sa.Connection, where: Iterable[Condition]) -> list[str]:
    select = sa.select(_RUNS.c.node).where(*where, _RUNS.c.node.is_not(None)).distinct().order_by(_RUNS.c.node)
    return [str(node) for node in connection.execute(select.limit(_MOST_NODES)).scalars()]
