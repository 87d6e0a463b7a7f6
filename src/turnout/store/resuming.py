"""Pipelines that are taken up again: which of their runs count no more, and who takes their places."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.state import LIVE, RunState
from turnout.store import schema
from turnout.store.belonging import OF_STEP, REPLACED
from turnout.store.bulk import Bulk
from turnout.store.parts import IDS, in_parts, rows_for
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
_INSERT_RUN_NEEDS = Bulk(_RUN_NEEDS.insert(), ["needed", "run_id"])
_INSERT_STEP_NEEDS = Bulk(_STEP_NEEDS.insert(), ["needed", "job_id"])


class Run(NamedTuple):
    """An outer run of a step, as it stands."""

    id: int
    job: int
    state: RunState
    reason: str | None
    place: str
    argv: list[str]
    params: dict[str, Any]
    label: str | None
    outputs: list[str]


class Step(NamedTuple):
    """`late` is what makes its runs, if they were not known at submit; a `made` one has made them. It waits for all
    runs of the steps in `needs`; with `bears_failures`, for their ends only. `after` are those that it came after, also
    where each of its runs has since said which runs it needs of them."""

    job: int
    name: str
    late: dict[str, Any] | None
    made: bool
    is_open: bool
    needs: list[int]
    after: list[int]
    runs: list[Run]
    bears_failures: bool


def steps_of(tx: Tx, pipeline: int) -> list[Step]:
    """In an order in which each comes after those it needs. They cannot change until the transaction is over."""
    columns = (
        _JOBS.c.id,
        _JOBS.c.step,
        _JOBS.c.late,
        _JOBS.c.run_count,
        _JOBS.c.open,
        _JOBS.c.unmade,
        _JOBS.c.bears_failures,
        _JOBS.c.needs,
    )
    select = sa.select(*columns).where(_JOBS.c.pipeline == pipeline).order_by(_JOBS.c.id).with_for_update()
    rows = tx.connection.execute(select).all()
    jobs = [row.id for row in rows]
    runs, needs, named = _runs(tx, jobs), _needs(tx, jobs), {row.step: row.id for row in rows}
    return [
        Step(
            row.id, row.step, json.loads(row.late) if row.late is not None else None, bool(row.run_count),
            bool(row.open or row.unmade), needs.get(row.id, []),
            [named[name] for name in json.loads(row.needs or "[]") if name in named],  # else it was deleted
            runs.get(row.id, []), bool(row.bears_failures),
        )
        for row in rows
    ]  # fmt: skip


def _runs(tx: Tx, jobs: Collection[int]) -> dict[int, list[Run]]:
    names = ("id", "job_id", "state", "reason", "queue", "argv", "params", "label", "outputs")
    select = sa.select(*(_RUNS.c[name] for name in names)).where(_RUNS.c.step == OF_STEP).order_by(_RUNS.c.id)
    found: dict[int, list[Run]] = {}
    for part in in_parts(jobs):
        for row in tx.connection.execute(select.where(_RUNS.c.job_id.in_(part))):
            outputs = json.loads(row.outputs) if row.outputs else []
            run = Run(
                row.id, row.job_id, RunState(row.state), row.reason, row.queue, json.loads(row.argv),
                json.loads(row.params), row.label, outputs,
            )  # fmt: skip
            found.setdefault(row.job_id, []).append(run)
    return found


def _needs(tx: Tx, jobs: Collection[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for part in in_parts(jobs):
        for row in tx.connection.execute(sa.select(_STEP_NEEDS).where(_STEP_NEEDS.c.job_id.in_(part))):
            found.setdefault(row.job_id, []).append(row.needed)
    return found


def needed_by(tx: Tx, runs: Collection[int]) -> dict[int, list[int]]:
    """The runs that each of these waited for by itself."""
    found: dict[int, list[int]] = {}
    for part in in_parts(sorted(runs)):
        for row in tx.connection.execute(sa.select(_RUN_NEEDS).where(_RUN_NEEDS.c.run_id.in_(part))):
            found.setdefault(row.run_id, []).append(row.needed)
    return found


def completed(tx: Tx, runs: Collection[int]) -> set[int]:
    """Those of these that are over well."""
    found: set[int] = set()
    for part in in_parts(sorted(runs)):
        where = (_RUNS.c.id.in_(part), _RUNS.c.state == str(RunState.COMPLETED))
        found.update(tx.connection.execute(sa.select(_RUNS.c.id).where(*where)).scalars())
    return found


def is_any_replaced(tx: Tx, runs: Collection[int]) -> bool:
    """Whether another counts in the place of one of these."""
    of_them = sa.select(_RUNS.c.id).where(_RUNS.c.id.in_(IDS), _RUNS.c.step == REPLACED)
    return next(iter(rows_for(tx.connection, of_them, runs)), None) is not None


def replace_runs(tx: Tx, runs: Collection[int]) -> None:
    """From now on others count in their places."""
    for part in in_parts(sorted(runs)):
        tx.connection.execute(_RUNS.update().where(_RUNS.c.id.in_(part)).values(step=REPLACED))


def insert_needs(tx: Tx, needs: Mapping[int, Sequence[int]]) -> None:
    """Which run waits for which others, by the run that waits."""
    _INSERT_RUN_NEEDS.execute(tx.connection, [(on, run) for run, each in needs.items() for on in sorted(set(each))])


def reopen(tx: Tx, step: int, *, blocked: int, opened: int) -> None:
    """A step that waits for so many others has so many runs more that are not over."""
    values = {"blocked": blocked, "open": _JOBS.c.open + opened}
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == step).values(values))


def unmake(tx: Tx, step: Step, *, blocked: int) -> None:
    """The runs of a late step are to be made again, when so many of those that it came after are over."""
    values = {"blocked": blocked, "unmade": 1, "open": 0, "run_count": 0}
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == step.job).values(values))
    _INSERT_STEP_NEEDS.execute(tx.connection, [(on, step.job) for on in sorted(set(step.after) - set(step.needs))])


def is_live(run: Run) -> bool:
    return run.state in LIVE
