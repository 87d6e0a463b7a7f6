"""Who waits for whom in pipelines: runs for runs, and for all runs of a step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from turnout.model.pipeline import Gate
from turnout.model.state import TERMINAL, RunState
from turnout.schedule.needs import End
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.bulk import Bulk
from turnout.store.parts import IDS, rows_for
from turnout.store.writer import Tx

_RUNS, _JOBS = schema.runs, schema.jobs
_RUN_NEEDS, _STEP_NEEDS, _LATE_NEEDS = schema.run_needs, schema.step_needs, schema.late_needs
_INSERT_RUN_NEEDS = Bulk(_RUN_NEEDS.insert(), ["needed", "run_id"])
_INSERT_STEP_NEEDS = Bulk(_STEP_NEEDS.insert(), ["needed", "job_id"])
_INSERT_LATE_NEEDS = Bulk(_LATE_NEEDS.insert(), ["needed", "job_id", "over"])
_STEP_OF = sa.select(_RUNS.c.id, _RUNS.c.job_id).where(_RUNS.c.id.in_(IDS))
_ENDS = (
    sa.select(_RUNS.c.job_id, _RUNS.c.state, _RUNS.c.reason)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.step == OF_STEP, _RUNS.c.state.in_([str(state) for state in TERMINAL]))
    .distinct()
)
_CREATED = sa.select(_RUNS.c.id, _RUNS.c.job_id).where(_RUNS.c.job_id.in_(IDS), _RUNS.c.state == str(RunState.CREATED))
_DEPENDANTS = sa.select(_RUN_NEEDS.c.needed, _RUN_NEEDS.c.run_id).where(_RUN_NEEDS.c.needed.in_(IDS))
_WAITERS = (
    sa.select(_STEP_NEEDS.c.needed, _STEP_NEEDS.c.job_id, _JOBS.c.gate)
    .join(_JOBS, _JOBS.c.id == _STEP_NEEDS.c.job_id)
    .where(_STEP_NEEDS.c.needed.in_(IDS))
)
_OTHER = _JOBS.alias()
_UNMADE_WAITERS = (
    sa.select(_LATE_NEEDS.c.needed, _LATE_NEEDS.c.job_id, _JOBS.c.gate)
    .join(_JOBS, _JOBS.c.id == _LATE_NEEDS.c.job_id)
    .join(_OTHER, _OTHER.c.id == _LATE_NEEDS.c.needed)
    .where(_LATE_NEEDS.c.needed.in_(IDS), _JOBS.c.unmade == 1)
    .where(sa.or_(_LATE_NEEDS.c.over == 1, _OTHER.c.run_count == 0))  # it was never made, and is over all the same
)
_FOLLOWERS = (
    sa.select(_LATE_NEEDS.c.job_id)
    .join(_JOBS, _JOBS.c.id == _LATE_NEEDS.c.job_id)
    .where(_LATE_NEEDS.c.needed == sa.bindparam("made"), _LATE_NEEDS.c.over == 0, _JOBS.c.unmade == 1)
)
_NEEDED_RUNS = (
    sa.select(_RUN_NEEDS.c.run_id, _RUNS.c.id, _RUNS.c.state, _RUNS.c.reason)
    .join(_RUNS, _RUNS.c.id == _RUN_NEEDS.c.needed)
    .where(_RUN_NEEDS.c.run_id.in_(IDS))
)
_NEEDED_STEPS = (
    sa.select(_STEP_NEEDS.c.job_id, _JOBS.c.id, _JOBS.c.open, _JOBS.c.unmade)
    .join(_JOBS, _JOBS.c.id == _STEP_NEEDS.c.needed)
    .where(_STEP_NEEDS.c.job_id.in_(IDS))
)
_MAKERS = (
    sa.select(_LATE_NEEDS.c.job_id, _LATE_NEEDS.c.over, _JOBS.c.id, _JOBS.c.open, _JOBS.c.unmade, _JOBS.c.run_count)
    .join(_JOBS, _JOBS.c.id == _LATE_NEEDS.c.needed)
    .where(_LATE_NEEDS.c.job_id.in_(IDS))
)
_GATES = sa.select(_JOBS.c.id, _JOBS.c.gate).where(_JOBS.c.id.in_(IDS))
_LOCK = sa.select(_JOBS.c.id).where(_JOBS.c.id.in_(IDS)).order_by(_JOBS.c.id).with_for_update()
_SET_BLOCKED = Bulk(
    _JOBS.update().where(_JOBS.c.id == sa.bindparam("the_job")).values(blocked=sa.bindparam("steps")),
    ["steps", "the_job"],
)


def _less_of(column: sa.Column[int]) -> sa.Executable:
    less = _JOBS.update().where(_JOBS.c.id.in_(IDS)).values({column: column - sa.bindparam("less", type_=sa.Integer)})
    return less.returning(_JOBS.c.id, column, _JOBS.c.unmade)


_LESS_OPEN, _LESS_BLOCKED = _less_of(_JOBS.c.open), _less_of(_JOBS.c.blocked)


class Ended(NamedTuple):
    """Runs of a step that are over, and how many of it are not."""

    runs: list[int]
    left: int


class Waiting(NamedTuple):
    """For how many steps a step still waits, and whether its runs are to be made then."""

    left: int
    is_late: bool


class Waiter(NamedTuple):
    """A step that waits for another: all its runs do, or they are made when that is over."""

    job: int
    gate: Gate


class NeededRun(NamedTuple):
    """What a run waits for; no `end`: it is not over."""

    id: int
    end: End | None


class NeededStep(NamedTuple):
    """What the runs of a step wait for, or before that, who makes them: then it may be enough that it is made."""

    job: int
    is_over: bool
    is_enough: bool = False


def insert_needs(
    tx: Tx, *, runs: Collection[tuple[int, int]] = (), steps: Collection[tuple[int, int]] = (),
    late: Collection[tuple[int, int, int]] = (),
) -> None:  # fmt: skip
    """Pairs of who is needed, and who waits; for `late` ones, whether that has to be over."""
    _INSERT_RUN_NEEDS.execute(tx.connection, list(runs))
    _INSERT_STEP_NEEDS.execute(tx.connection, list(steps))
    _INSERT_LATE_NEEDS.execute(tx.connection, list(late))


def late_needs_of(tx: Tx, job: int) -> dict[str, int]:
    """The steps that a late one waits for, or waited, until its runs can be made: by their names."""
    select = (
        sa.select(_JOBS.c.step, _JOBS.c.id)
        .join(_LATE_NEEDS, _LATE_NEEDS.c.needed == _JOBS.c.id)
        .where(_LATE_NEEDS.c.job_id == job)
    )
    return {row.step: row.id for row in tx.connection.execute(select)}


def lock_steps(tx: Tx, jobs: Collection[int]) -> None:
    """None of their runs ends, for those who wait for them, until the transaction is over."""
    for _ in rows_for(tx.connection, _LOCK, jobs):
        pass


# --- what is over -----------------------------------------------------------------------------------------------------


def count_down(tx: Tx, ended: Collection[int]) -> dict[int, Ended]:
    """These runs of steps are over: for each step, which of them are its own, and how many are not over yet."""
    mine: dict[int, list[int]] = {}
    for run, job in rows_for(tx.connection, _STEP_OF, ended):
        mine.setdefault(job, []).append(run)
    left = _less(tx, _LESS_OPEN, {job: len(runs) for job, runs in mine.items()})
    return {job: Ended(runs, left[job].left) for job, runs in sorted(mine.items())}


def count_down_steps(tx: Tx, met: Mapping[int, int]) -> dict[int, Waiting]:
    """So many of the steps that each of these waits for are over, or made."""
    return _less(tx, _LESS_BLOCKED, met)


def _less(tx: Tx, less: sa.Executable, counts: Mapping[int, int]) -> dict[int, Waiting]:
    """So much less of what a step has; what is left, for each. Steps of which as much goes are asked for together."""
    alike: dict[int, list[int]] = {}
    for job, count in counts.items():
        alike.setdefault(count, []).append(job)
    found: dict[int, Waiting] = {}
    for count, jobs in alike.items():
        rows = rows_for(tx.connection, less, jobs, less=count)
        found.update((job, Waiting(left, bool(unmade))) for job, left, unmade in rows)
    return found


def ends_of(tx: Tx, jobs: Collection[int]) -> dict[int, set[End]]:
    """The ways in which runs of these steps have ended, as far as that was written."""
    found: dict[int, set[End]] = {}
    for job, state, reason in rows_for(tx.connection, _ENDS, jobs):
        found.setdefault(job, set()).add(End(RunState(state), reason))
    return found


# --- who waits --------------------------------------------------------------------------------------------------------


def created_runs(tx: Tx, jobs: Collection[int]) -> list[tuple[int, int]]:
    """The runs of these steps that wait for others, each with its step."""
    return sorted((run, job) for run, job in rows_for(tx.connection, _CREATED, jobs))


def dependants(tx: Tx, runs: Collection[int]) -> list[tuple[int, int]]:
    """Which runs wait for these: (needed, run)."""
    return [(needed, run) for needed, run in rows_for(tx.connection, _DEPENDANTS, runs)]


def waiters(tx: Tx, jobs: Collection[int]) -> dict[int, list[Waiter]]:
    """Those of these steps whose end others wait for, and who does."""
    found: dict[int, list[Waiter]] = {}
    for select in (_WAITERS, _UNMADE_WAITERS):
        for needed, job, gate in rows_for(tx.connection, select, jobs):
            found.setdefault(needed, []).append(Waiter(job, Gate(gate)))
    return found


def followers(tx: Tx, made: int) -> list[int]:
    """The steps whose runs could not be made before those of this one."""
    return list(tx.connection.execute(_FOLLOWERS, {"made": made}).scalars())


def name_of(tx: Tx, step: int) -> str:
    found: str = tx.connection.execute(sa.select(_JOBS.c.step).where(_JOBS.c.id == step)).scalar_one()
    return found


def gates_of(tx: Tx, jobs: Collection[int]) -> dict[int, Gate]:
    return {job: Gate(gate) for job, gate in rows_for(tx.connection, _GATES, jobs)}


def needed_runs(tx: Tx, runs: Collection[int]) -> dict[int, list[NeededRun]]:
    """What each of these waits for by itself."""
    found: dict[int, list[NeededRun]] = {}
    for run, needed, state, reason in rows_for(tx.connection, _NEEDED_RUNS, runs):
        end = End(RunState(state), reason) if RunState(state) in TERMINAL else None
        found.setdefault(run, []).append(NeededRun(needed, end))
    return found


def needed_steps(tx: Tx, jobs: Collection[int]) -> dict[int, list[NeededStep]]:
    """What all runs of each of these wait for."""
    found: dict[int, list[NeededStep]] = {}
    for job, needed, count, unmade in rows_for(tx.connection, _NEEDED_STEPS, jobs):
        found.setdefault(job, []).append(NeededStep(needed, not count and not unmade))
    return found


def makers_of(tx: Tx, jobs: Collection[int]) -> dict[int, list[NeededStep]]:
    """What has to be over, or made, before the runs of each of these late steps can be made."""
    found: dict[int, list[NeededStep]] = {}
    for job, is_meant_over, needed, count, unmade, made in rows_for(tx.connection, _MAKERS, jobs):
        is_enough = not is_meant_over and bool(made)
        found.setdefault(job, []).append(NeededStep(needed, not count and not unmade, is_enough))
    return found


def set_blocked(tx: Tx, steps: Iterable[tuple[int, int]]) -> None:
    """How many steps the runs of a step wait for: pairs of that, and the step."""
    _SET_BLOCKED.execute(tx.connection, list(steps))
