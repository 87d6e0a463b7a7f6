"""Pipelines that go on from an earlier one: what completed there, and is asked for in the same way, is taken over."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.state import RunState
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.parts import in_parts
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
#: In these two runs have to be alike for one to be taken over. The files they are given may differ.
_ASKED = (_RUNS.c.argv, _RUNS.c.params, _RUNS.c.outputs)


class Earlier(NamedTuple):
    """A run that completed: which one was executed, its name, and the manifest of what it left."""

    id: int
    name: str
    after: str | None


def link_steps(tx: Tx, pipeline: int, earlier: int) -> None:
    """Each step goes on from the one of its name in the earlier pipeline, if its results are in the same place."""
    steps = sa.select(_JOBS.c.id, _JOBS.c.step, _JOBS.c.spec)
    before = {_place(row): row.id for row in tx.connection.execute(steps.where(_JOBS.c.pipeline == earlier))}
    for row in tx.connection.execute(steps.where(_JOBS.c.pipeline == pipeline)).all():
        if _place(row) in before:
            update = _JOBS.update().where(_JOBS.c.id == row.id)
            tx.connection.execute(update.values(continues=before[_place(row)]))


def _place(step: Any) -> tuple[str, str]:
    """Its name, and the directory in which its results lie, if nodes share one."""
    return step.step, json.loads(step.spec).get("shared", "")


def is_any(connection: sa.Connection) -> bool:
    """Whether there is any pipeline that goes on from another. Quick where there is none."""
    return connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.continues.is_not(None)).limit(1)).first() is not None


def found_for(tx: Tx, runs: Collection[int]) -> dict[int, Earlier]:
    """For those of these runs, all of whose needs are over, that can be taken over: from whom."""
    found: dict[int, Earlier] = {}
    select = (
        sa.select(_RUNS.c.id, _RUNS.c.job_id, _JOBS.c.continues, *_ASKED)
        .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
        .where(_JOBS.c.continues.is_not(None), _RUNS.c.state != str(RunState.COMPLETED))
        .where(_RUNS.c.children_planned == 0)
    )
    known: dict[int, Mapping[tuple[Any, ...], Earlier]] = {}
    for part in in_parts(sorted(runs)):
        rows = tx.connection.execute(select.where(_RUNS.c.id.in_(part))).all()
        anew = _in_need_of_new(tx, [row.id for row in rows], {row.job_id for row in rows})
        for row in rows:
            if row.id in anew or row.job_id in anew:
                continue
            if row.continues not in known:
                known[row.continues] = _completed(tx, row.continues)
            earlier = known[row.continues].get((row.argv, row.params, row.outputs))
            if earlier is not None:
                found[row.id] = earlier
    return found


def take_over(tx: Tx, found: Mapping[int, Earlier]) -> None:
    """Notes whose results these runs have."""
    update = _RUNS.update().where(_RUNS.c.id == sa.bindparam("run"))
    rows = [{"run": run, "earlier": earlier.id, "left": earlier.after} for run, earlier in found.items()]
    if rows:
        tx.connection.execute(update.values(carried=sa.bindparam("earlier"), after=sa.bindparam("left")), rows)


def roots(connection: sa.Connection, runs: Iterable[int]) -> dict[int, int]:
    """Who was executed for each of these: for most, they themselves."""
    found = {run: run for run in runs}
    for part in in_parts(sorted(found)):
        select = sa.select(_RUNS.c.id, _RUNS.c.carried).where(_RUNS.c.id.in_(part), _RUNS.c.carried.is_not(None))
        found.update((row.id, row.carried) for row in connection.execute(select))
    return found


def _in_need_of_new(tx: Tx, runs: Collection[int], steps: Collection[int]) -> set[int]:
    """Those of the runs, and of their steps, that wait for a run which was not taken over."""
    is_new = (_RUNS.c.step == OF_STEP, _RUNS.c.carried.is_(None))
    singly = sa.select(_RUN_NEEDS.c.run_id).join(_RUNS, _RUNS.c.id == _RUN_NEEDS.c.needed)
    whole = sa.select(_STEP_NEEDS.c.job_id).join(_RUNS, _RUNS.c.job_id == _STEP_NEEDS.c.needed)
    found = set(tx.connection.execute(singly.where(_RUN_NEEDS.c.run_id.in_(runs), *is_new)).scalars())
    for part in in_parts(sorted(steps)):
        found.update(tx.connection.execute(whole.where(_STEP_NEEDS.c.job_id.in_(part), *is_new)).scalars())
    return found


def _completed(tx: Tx, step: int) -> dict[tuple[Any, ...], Earlier]:
    """The runs of an earlier step that completed, by what was asked of them. Searches are none of these."""
    columns = (_RUNS.c.id, _RUNS.c.number, _RUNS.c.carried, _RUNS.c.after, *_ASKED)
    where = (_RUNS.c.step == OF_STEP, _RUNS.c.state == str(RunState.COMPLETED), _RUNS.c.children_planned == 0)
    select = sa.select(*columns).where(_RUNS.c.job_id == step, *where).order_by(_RUNS.c.id)
    spec = tx.connection.execute(sa.select(_JOBS.c.spec).where(_JOBS.c.id == step)).scalar()
    is_shared = bool(json.loads(spec or "{}").get("shared"))
    return {
        (row.argv, row.params, row.outputs): Earlier(row.carried or row.id, run_name(row.number), row.after)
        for row in tx.connection.execute(select)
        if is_shared or row.after is not None or row.outputs is None  # what it left is there
    }
