"""Pipelines that go on from an earlier one: what completed there, and is asked for in the same way, is taken over."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.state import Reason, RunState
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.bulk import Bulk
from turnout.store.parts import IDS, rows_for
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
#: In these two runs have to be alike for one to be taken over. The files they are given may differ.
_ASKED = (_RUNS.c.argv, _RUNS.c.params, _RUNS.c.outputs)


_STEPS = sa.select(_JOBS.c.id, _JOBS.c.step, _JOBS.c.spec).where(_JOBS.c.pipeline == sa.bindparam("pipeline"))
_SPECS = sa.select(_JOBS.c.id, _JOBS.c.spec).where(_JOBS.c.id.in_(IDS))
_LINK = Bulk(
    _JOBS.update().where(_JOBS.c.id == sa.bindparam("the_job")).values(continues=sa.bindparam("earlier")),
    ["earlier", "the_job"],
)
_TO_CARRY = (
    sa.select(_RUNS.c.id, _RUNS.c.job_id, _JOBS.c.continues, *_ASKED)
    .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
    .where(_RUNS.c.id.in_(IDS), _JOBS.c.continues.is_not(None), _RUNS.c.state != str(RunState.COMPLETED))
    .where(_RUNS.c.children_planned == 0)
)
#: What was skipped left nothing, now as then.
_IS_SKIPPED = _RUNS.c.reason.is_not_distinct_from(str(Reason.CONDITION))
_IS_NEW = (_RUNS.c.step == OF_STEP, _RUNS.c.carried.is_(None), sa.not_(_IS_SKIPPED))
_NEEDS_NEW = (
    sa.select(_RUN_NEEDS.c.run_id)
    .join(_RUNS, _RUNS.c.id == _RUN_NEEDS.c.needed)
    .where(_RUN_NEEDS.c.run_id.in_(IDS), *_IS_NEW)
    .distinct()
)
_STEP_NEEDS_NEW = (
    sa.select(_STEP_NEEDS.c.job_id)
    .join(_RUNS, _RUNS.c.job_id == _STEP_NEEDS.c.needed)
    .where(_STEP_NEEDS.c.job_id.in_(IDS), *_IS_NEW)
    .distinct()
)
_COMPLETED = (
    sa.select(_RUNS.c.id, _RUNS.c.job_id, _RUNS.c.number, _RUNS.c.carried, _RUNS.c.after, *_ASKED)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == OF_STEP, _RUNS.c.state == str(RunState.COMPLETED))
    .where(_RUNS.c.children_planned == 0)
    .order_by(_RUNS.c.id)
)
_CARRIED = sa.select(_RUNS.c.id, _RUNS.c.carried).where(_RUNS.c.id.in_(IDS), _RUNS.c.carried.is_not(None))
_TAKE_OVER = Bulk(
    _RUNS.update()
    .where(_RUNS.c.id == sa.bindparam("run"))
    .values(carried=sa.bindparam("earlier"), after=sa.bindparam("left")),
    ["earlier", "left", "run"],
)


class Earlier(NamedTuple):
    """A run that completed: which one was executed, its name, and the manifest of what it left."""

    id: int
    name: str
    after: str | None


def link_steps(tx: Tx, pipeline: int, earlier: int) -> None:
    """Each step goes on from the one of its name in the earlier pipeline, if its results are in the same place."""
    places = _Places()
    before = {(row.step, places.of(row.spec)): row.id for row in tx.connection.execute(_STEPS, {"pipeline": earlier})}
    steps = tx.connection.execute(_STEPS, {"pipeline": pipeline}).all()
    found = ((before.get((row.step, places.of(row.spec))), row.id) for row in steps)
    _LINK.execute(tx.connection, [(on, job) for on, job in found if on is not None])


class _Places:
    """The directories in which results lie, where nodes share one. Most steps of a pipeline have the same spec."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, spec: str) -> str:
        if spec not in self._known:
            self._known[spec] = json.loads(spec).get("shared", "")
        return self._known[spec]


def is_any(connection: sa.Connection) -> bool:
    """Whether there is any pipeline that goes on from another. Quick where there is none."""
    return connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.continues.is_not(None)).limit(1)).first() is not None


def found_for(tx: Tx, runs: Collection[int]) -> dict[int, Earlier]:
    """For those of these runs, all of whose needs are over, that can be taken over: from whom."""
    rows = list(rows_for(tx.connection, _TO_CARRY, runs))
    anew = _in_need_of_new(tx, [row.id for row in rows], {row.job_id for row in rows})
    rows = [row for row in rows if row.id not in anew and row.job_id not in anew]
    earlier = _completed(tx, {row.continues for row in rows})
    found = {row.id: earlier.get((row.continues, row.argv, row.params, row.outputs)) for row in rows}
    return {run: each for run, each in found.items() if each is not None}


def take_over(tx: Tx, found: Mapping[int, Earlier]) -> None:
    """Notes whose results these runs have."""
    _TAKE_OVER.execute(tx.connection, [(earlier.id, earlier.after, run) for run, earlier in found.items()])


def roots(connection: sa.Connection, runs: Iterable[int]) -> dict[int, int]:
    """Who was executed for each of these: for most, they themselves."""
    found = {run: run for run in runs}
    found.update((run, carried) for run, carried in rows_for(connection, _CARRIED, found))
    return found


def _in_need_of_new(tx: Tx, runs: Collection[int], steps: Collection[int]) -> set[int]:
    """Those of the runs, and of their steps, that wait for a run which was not taken over."""
    found = {row.run_id for row in rows_for(tx.connection, _NEEDS_NEW, runs)}
    return found | {row.job_id for row in rows_for(tx.connection, _STEP_NEEDS_NEW, steps)}


def _completed(tx: Tx, steps: Collection[int]) -> dict[tuple[Any, ...], Earlier]:
    """Runs of earlier steps that completed, by their step and what was asked of them. Searches are none of these."""
    places = _Places()
    shared = {job for job, spec in rows_for(tx.connection, _SPECS, steps) if places.of(spec)}
    return {
        (row.job_id, row.argv, row.params, row.outputs): Earlier(row.carried or row.id, run_name(row.number), row.after)
        for row in rows_for(tx.connection, _COMPLETED, steps)
        if row.after is not None or row.outputs is None or row.job_id in shared  # what it left is there
    }
