"""Pipelines that are taken up again: which of their runs count no more, and who takes their places."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.spec import RunSpec
from turnout.model.state import LIVE, Reason, RunState
from turnout.store import schema
from turnout.store.belonging import OF_STEP, REPLACED
from turnout.store.bulk import Bulk
from turnout.store.parts import IDS, in_parts, rows_for
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
_LATE_NEEDS = schema.late_needs
_STEPS = sa.select(*(_JOBS.c[name] for name in ("id", "step", "late", "run_count", "gate", "stale", "needs")))
_OUTER = (
    sa.select(_RUNS.c.id, _RUNS.c.job_id, _RUNS.c.state, _RUNS.c.reason)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == OF_STEP)
    .order_by(_RUNS.c.id)
)
_NEEDED_STEPS = sa.select(_STEP_NEEDS).where(_STEP_NEEDS.c.job_id.in_(IDS))
_MAKERS = sa.select(_LATE_NEEDS).where(_LATE_NEEDS.c.job_id.in_(IDS))
_NEEDED_RUNS = sa.select(_RUN_NEEDS).where(_RUN_NEEDS.c.run_id.in_(IDS))
_ASKED = sa.select(*(_RUNS.c[name] for name in ("id", "queue", "argv", "params", "label", "outputs"))).where(
    _RUNS.c.id.in_(IDS)
)
_PLACE = tuple(_RUNS.c[name] for name in ("id", "job_id", "label", "params"))
_PLACES = sa.select(*_PLACE).where(_RUNS.c.id.in_(IDS))
_PLACES_NOW = sa.select(*_PLACE).where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == OF_STEP)
_REPLACE = _RUNS.update().where(_RUNS.c.id.in_(IDS)).values(step=REPLACED)
_FORGET_RUN = Bulk(
    _RUN_NEEDS.delete().where(_RUN_NEEDS.c.needed == sa.bindparam("old"), _RUN_NEEDS.c.run_id == sa.bindparam("run")),
    ["old", "run"],
)
_FORGET_STEPS = _STEP_NEEDS.delete().where(_STEP_NEEDS.c.job_id.in_(IDS))
_NONE: sa.ColumnElement[int] = sa.literal_column("0")
_ONE: sa.ColumnElement[int] = sa.literal_column("1")
_REOPEN = Bulk(
    _JOBS.update()
    .where(_JOBS.c.id == sa.bindparam("the_job"))
    .values(stale=_NONE, open=_JOBS.c.open + sa.bindparam("more", type_=sa.Integer)),
    ["the_job", "more"],
)
_UNMAKE = _JOBS.update().where(_JOBS.c.id.in_(IDS)).values(unmade=_ONE, stale=_NONE, open=_NONE, run_count=_NONE)
_MARK_STALE = _JOBS.update().where(_JOBS.c.id.in_(IDS)).values(stale=_ONE)


class Run(NamedTuple):
    """An outer run of a step, as it stands."""

    id: int
    state: RunState
    reason: str | None

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def is_waiting(self) -> bool:
        """It has not begun, nor could it have."""
        return self.state is RunState.CREATED

    @property
    def is_bad(self) -> bool:
        """It is over, and neither went well nor was skipped."""
        return not self.is_live and self.state is not RunState.COMPLETED and self.reason != Reason.CONDITION


class Step(NamedTuple):
    """`late` makes its runs, if they were not known at submit, or looks at them at their gates; a `made` one has runs
    of its own, and not what stands for them. They wait for all runs of the steps in `needs`; and to be made, for those
    in `makers` to be over, or (False) made. In `after` are all of these, and those of which some of its runs wait for
    some. A stale one was made of what was done again since."""

    job: int
    name: str
    late: dict[str, Any] | None
    made: bool
    has_gate: bool
    is_stale: bool
    needs: Sequence[int]
    makers: Sequence[tuple[int, bool]]
    after: Sequence[int]
    runs: Sequence[Run]


class Asked(NamedTuple):
    """What a run was to do, and whose queue it was in."""

    queue: str
    spec: RunSpec


def steps_of(tx: Tx, pipeline: int) -> list[Step]:
    """In an order in which each comes after those it needs. They cannot change until the transaction is over."""
    select = _STEPS.where(_JOBS.c.pipeline == pipeline).order_by(_JOBS.c.id).with_for_update()
    rows = tx.connection.execute(select).all()
    jobs = [row.id for row in rows]
    runs: dict[int, list[Run]] = {}
    for id_, job, state, reason in rows_for(tx.connection, _OUTER, jobs):
        runs.setdefault(job, []).append(Run(id_, RunState(state), reason))
    needs: dict[int, list[int]] = {}
    for on, job in rows_for(tx.connection, _NEEDED_STEPS, jobs):
        needs.setdefault(job, []).append(on)
    makers: dict[int, list[tuple[int, bool]]] = {}
    for on, job, is_over in rows_for(tx.connection, _MAKERS, jobs):
        makers.setdefault(job, []).append((on, bool(is_over)))
    named = {row.step: row.id for row in rows}
    return [
        Step(
            row.id, row.step, json.loads(row.late) if row.late is not None else None, bool(row.run_count),
            bool(row.gate), bool(row.stale), needs.get(row.id, ()), makers.get(row.id, ()),
            [named[name] for name in json.loads(row.needs or "[]") if name in named],  # else it was deleted
            runs.get(row.id, ()),
        )
        for row in rows
    ]  # fmt: skip


def needed_by(tx: Tx, runs: Collection[int]) -> dict[int, list[int]]:
    """The runs that each of these waited for by itself."""
    found: dict[int, list[int]] = {}
    for on, run in rows_for(tx.connection, _NEEDED_RUNS, runs):
        found.setdefault(run, []).append(on)
    return found


def in_place_of(tx: Tx, runs: Collection[int]) -> dict[int, int]:
    """Who stands now in the places of these runs, which were replaced some time."""
    old = {(row.job_id, row.label, row.params): row.id for row in rows_for(tx.connection, _PLACES, runs)}
    jobs = {job for job, _, _ in old}
    return {
        old[key]: row.id
        for row in (rows_for(tx.connection, _PLACES_NOW, jobs) if jobs else ())
        if (key := (row.job_id, row.label, row.params)) in old
    }


def asked_of(tx: Tx, runs: Collection[int]) -> dict[int, Asked]:
    return {
        row.id: Asked(
            row.queue,
            RunSpec(
                argv=tuple(json.loads(row.argv)), params=json.loads(row.params), label=row.label,
                outputs=tuple(json.loads(row.outputs) if row.outputs else ()),
            ),
        )
        for row in rows_for(tx.connection, _ASKED, runs)
    }  # fmt: skip


def replace_runs(tx: Tx, runs: Collection[int]) -> None:
    """From now on others count in their places."""
    for part in in_parts(sorted(runs)):
        tx.connection.execute(_REPLACE, {"ids": part})


def forget_needs(tx: Tx, needs: Iterable[tuple[int, int]]) -> None:
    """These runs are not needed by those any more: (needed, run)."""
    _FORGET_RUN.execute(tx.connection, list(needs))


def reopen(tx: Tx, steps: Iterable[tuple[int, int]]) -> None:
    """Steps, and how many runs more each of them has that are not over."""
    _REOPEN.execute(tx.connection, list(steps))


def unmake(tx: Tx, steps: Collection[int]) -> None:
    """The runs of these late steps are to be made again."""
    for part in in_parts(sorted(steps)):
        tx.connection.execute(_UNMAKE, {"ids": part})
        tx.connection.execute(_FORGET_STEPS, {"ids": part})


def mark_stale(tx: Tx, steps: Collection[int]) -> None:
    """They were made of what is done again, and stay as they are for now."""
    for part in in_parts(sorted(steps)):
        tx.connection.execute(_MARK_STALE, {"ids": part})
