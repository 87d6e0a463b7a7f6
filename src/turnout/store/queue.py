"""The queue of runs: rows that wait, read with all that is needed to decide on them and to grant them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.state import LIVE, RunState
from turnout.schedule.machine import RunRecord
from turnout.store import schema
from turnout.store.jobs import next_numbers
from turnout.store.ledger import MOST_IN, RECORD_COLUMNS, to_record
from turnout.store.writer import Tx

_RUNS = schema.runs
_LIVE = [str(state) for state in LIVE]
_SHARED = ("number", "job_id", "workspace", "experiment", "target", "label", "argv", "params", "priority")
_EXTRA = (_RUNS.c.number, _RUNS.c.child, _RUNS.c.job_id, _RUNS.c.argv, _RUNS.c.params, _RUNS.c.after)

_WAITING = (
    sa.select(*RECORD_COLUMNS, *_EXTRA)
    .where(_RUNS.c.waiting.is_not(None), _RUNS.c.target == sa.bindparam("target"))
    .order_by(_RUNS.c.waiting, _RUNS.c.id)
    .limit(sa.bindparam("most"))
    .with_for_update(skip_locked=True)
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run with what its grant needs."""

    record: RunRecord
    name: str
    number: int
    job: int
    argv: list[str]
    params: dict[str, Any]
    after: str | None


def waiting_runs(
    tx: Tx, target: str, *, most: int, behind: RunRecord | None = None, besides: Collection[int] = ()
) -> Iterator[Entry]:
    """Runs in the queue of a target, highest priority and oldest first. Rows that another hub holds are passed over.

    `behind` begins after that one, `besides` leaves the runs of these jobs out.
    """
    select = _WAITING
    if behind is not None:
        place = sa.tuple_(sa.literal(-behind.priority), sa.literal(behind.id, sa.BigInteger))
        select = select.where(sa.tuple_(_RUNS.c.waiting, _RUNS.c.id) > place)
    if besides:
        select = select.where(_RUNS.c.job_id.not_in(sorted(besides)))
    with tx.connection.execute(select, {"target": target, "most": most}) as rows:
        for row in rows:
            yield _entry(row)


def held_runs(tx: Tx, agent: int) -> list[Entry]:
    """The runs whose current attempt is this agent's."""
    select = sa.select(*RECORD_COLUMNS, *_EXTRA).where(_RUNS.c.agent == agent).order_by(_RUNS.c.id)
    return [_entry(row) for row in tx.connection.execute(select)]


def insert_child(tx: Tx, parent: Entry, index: int) -> Entry:
    """The row of child number `index`, with its parent's tags and parameters; created, not yet queued."""
    run = next_numbers(tx, "run_id", 1)
    record = RunRecord(
        id=run, state=RunState.CREATED, priority=parent.record.priority, parent=parent.record.id,
        failures_left=parent.record.failures_left, losses_left=parent.record.losses_left,
    )  # fmt: skip
    own: dict[str, sa.ColumnElement[Any]] = {
        "id": sa.literal(run, sa.BigInteger), "child": sa.literal(index), "state": sa.literal(str(record.state)),
        "parent": sa.literal(parent.record.id, sa.BigInteger), "created": sa.literal(tx.now, sa.Double),
        "failures_left": sa.literal(record.failures_left), "losses_left": sa.literal(record.losses_left),
    }  # fmt: skip
    source = sa.select(*own.values(), *(_RUNS.c[name] for name in _SHARED)).where(_RUNS.c.id == parent.record.id)
    tx.connection.execute(_RUNS.insert().from_select([*own, *_SHARED], source))
    for table in (schema.tags, schema.params):
        columns = [column for column in table.c if column.name != "run_id"]
        inherited = sa.select(own["id"], *columns).where(table.c.run_id == parent.record.id)
        tx.connection.execute(table.insert().from_select([table.c.run_id, *columns], inherited))
    name = run_name(parent.number, index)
    return Entry(record, name, parent.number, parent.job, parent.argv, parent.params, None)


def targets_with_waiting_runs(connection: sa.Connection, targets: Iterable[str]) -> list[str]:
    found = []
    for target in targets:
        select = sa.select(_RUNS.c.id).where(_RUNS.c.waiting.is_not(None), _RUNS.c.target == target).limit(1)
        if connection.execute(select).first() is not None:
            found.append(target)
    return found


def live_runs(connection: sa.Connection, *, job: int | None = None) -> list[int]:
    """The runs that are not over, of one job or of all."""
    select = sa.select(_RUNS.c.id).where(_RUNS.c.state.in_(_LIVE))
    if job is not None:
        select = select.where(_RUNS.c.job_id == job)
    return [row.id for row in connection.execute(select)]


def live_children(tx: Tx, parents: set[int]) -> set[int]:
    found: set[int] = set()
    for part in _parts(parents):
        select = sa.select(_RUNS.c.id).where(_RUNS.c.parent.in_(part), _RUNS.c.state.in_(_LIVE))
        found |= {row.id for row in tx.connection.execute(select)}
    return found


def runs_of_agent(tx: Tx, agent: int) -> list[int]:
    return [row.id for row in tx.connection.execute(sa.select(_RUNS.c.id).where(_RUNS.c.agent == agent))]


def names_of(tx: Tx, ids: Iterable[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for part in _parts(ids):
        select = sa.select(_RUNS.c.id, _RUNS.c.number, _RUNS.c.child).where(_RUNS.c.id.in_(part))
        names.update({row.id: run_name(row.number, row.child or None) for row in tx.connection.execute(select)})
    return names


def _parts(ids: Iterable[int]) -> Iterator[list[int]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), MOST_IN):
        yield ordered[start : start + MOST_IN]


def _entry(row: Iterable[Any]) -> Entry:
    values = tuple(row)
    number, child, job, argv, params, after = values[len(RECORD_COLUMNS) :]
    return Entry(
        to_record(values[: len(RECORD_COLUMNS)]), run_name(number, child or None), number, job, json.loads(argv),
        json.loads(params), after,
    )  # fmt: skip
