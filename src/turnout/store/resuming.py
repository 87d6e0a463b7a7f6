"""Pipelines that are taken up again: which of their runs count no more, and who takes their places."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
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
_STEPS = sa.select(
    *(_JOBS.c[name] for name in ("id", "step", "late", "run_count", "open", "unmade", "bears_failures", "needs"))
)
_OUTER = (
    sa.select(_RUNS.c.id, _RUNS.c.job_id, _RUNS.c.state, _RUNS.c.reason)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == OF_STEP)
    .order_by(_RUNS.c.id)
)
_NEEDED_STEPS = sa.select(_STEP_NEEDS).where(_STEP_NEEDS.c.job_id.in_(IDS))
_NEEDED_RUNS = sa.select(_RUN_NEEDS).where(_RUN_NEEDS.c.run_id.in_(IDS))
_ASKED = sa.select(*(_RUNS.c[name] for name in ("id", "queue", "argv", "params", "label", "outputs"))).where(
    _RUNS.c.id.in_(IDS)
)
_REPLACE = _RUNS.update().where(_RUNS.c.id.in_(IDS)).values(step=REPLACED)
_INSERT_RUN_NEEDS = Bulk(_RUN_NEEDS.insert(), ["needed", "run_id"])
_THE_JOB = _JOBS.c.id == sa.bindparam("the_job")
_REOPEN = Bulk(
    _JOBS.update()
    .where(_THE_JOB)
    .values(blocked=sa.bindparam("new_blocked"), open=_JOBS.c.open + sa.bindparam("more", type_=sa.Integer)),
    ["the_job", "new_blocked", "more"],
)
_NONE: sa.ColumnElement[int] = sa.literal_column("0")
_ONE: sa.ColumnElement[int] = sa.literal_column("1")
_UNMAKE = Bulk(
    _JOBS.update()
    .where(_THE_JOB)
    .values(blocked=sa.bindparam("new_blocked"), unmade=_ONE, open=_NONE, run_count=_NONE),
    ["the_job", "new_blocked"],
)


class Run(NamedTuple):
    """An outer run of a step, as it stands."""

    id: int
    state: RunState
    reason: str | None

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def is_bad(self) -> bool:
        """It is over, and neither went well nor was skipped."""
        return not self.is_live and self.state is not RunState.COMPLETED and self.reason != Reason.CONDITION


class Step(NamedTuple):
    """`late` is what makes its runs, if they were not known at submit; a `made` one has made them. It waits for all
    runs of the steps in `needs`; with `bears_failures`, for their ends only. In `after` are also those of which its
    runs wait for some."""

    job: int
    name: str
    late: dict[str, Any] | None
    made: bool
    is_open: bool
    needs: Sequence[int]
    after: Sequence[int]
    runs: Sequence[Run]
    bears_failures: bool


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
    named = {row.step: row.id for row in rows}
    return [
        Step(
            row.id, row.step, json.loads(row.late) if row.late is not None else None, bool(row.run_count),
            bool(row.open or row.unmade), needs.get(row.id, ()),
            [named[name] for name in json.loads(row.needs or "[]") if name in named],  # else it was deleted
            runs.get(row.id, ()), bool(row.bears_failures),
        )
        for row in rows
    ]  # fmt: skip


def needed_by(tx: Tx, runs: Collection[int]) -> dict[int, list[int]]:
    """The runs that each of these waited for by itself."""
    found: dict[int, list[int]] = {}
    for on, run in rows_for(tx.connection, _NEEDED_RUNS, runs):
        found.setdefault(run, []).append(on)
    return found


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


def insert_needs(tx: Tx, needs: Mapping[int, Sequence[int]]) -> None:
    """Which run waits for which others, by the run that waits."""
    _INSERT_RUN_NEEDS.execute(tx.connection, [(on, run) for run, each in needs.items() for on in sorted(set(each))])


def reopen(tx: Tx, steps: Iterable[tuple[int, int, int]]) -> None:
    """Steps, how many others each of them waits for, and how many runs more it has that are not over."""
    _REOPEN.execute(tx.connection, list(steps))


def unmake(tx: Tx, steps: Iterable[tuple[int, int]]) -> None:
    """The runs of late steps are to be made again, each when so many of those that it came after are over."""
    _UNMAKE.execute(tx.connection, list(steps))
