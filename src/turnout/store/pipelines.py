"""Pipelines: their steps, and which runs wait for which."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.pipeline import PipelineSpec, StepSpec
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.model.state import LIVE, TERMINAL, RunState
from turnout.schedule.explain import Awaited
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.bulk import Bulk
from turnout.store.jobs import (
    MoreRuns,
    Written,
    insert_environment,
    insert_job,
    insert_runs,
    load_jobs,
    next_numbers,
    set_commands,
)
from turnout.store.new_rows import NewRows, StepOf, text_of
from turnout.store.parts import IDS, in_parts, rows_for
from turnout.store.searches import begin_search, insert_search
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
_INSERT_RUN_NEEDS = Bulk(_RUN_NEEDS.insert(), ["needed", "run_id"])
_INSERT_STEP_NEEDS = Bulk(_STEP_NEEDS.insert(), ["needed", "job_id"])
_LIVE = [str(state) for state in LIVE]
_NOT_WELL = [str(state) for state in TERMINAL - {RunState.COMPLETED}]
_STEP_OF = sa.select(_RUNS.c.id, _RUNS.c.job_id).where(_RUNS.c.id.in_(IDS))
_UNWELL = (
    sa.select(_RUNS.c.job_id)
    .where(_RUNS.c.job_id.in_(IDS), _RUNS.c.state.in_(_NOT_WELL), _RUNS.c.step == OF_STEP)
    .distinct()
)
_CREATED = sa.select(_RUNS.c.id, _RUNS.c.job_id).where(_RUNS.c.job_id.in_(IDS), _RUNS.c.state == str(RunState.CREATED))
_GIVE_UP_LATE = _JOBS.update().where(_JOBS.c.id.in_(IDS), _JOBS.c.unmade == 1).values(unmade=0).returning(_JOBS.c.id)
_STAND_INS = _JOBS.update().where(_JOBS.c.id.in_(IDS)).values(open=_JOBS.c.open + 1)
_DEPENDANTS = sa.select(_RUN_NEEDS.c.needed, _RUN_NEEDS.c.run_id).where(_RUN_NEEDS.c.needed.in_(IDS))
_WAITERS = (
    sa.select(_STEP_NEEDS.c.needed, _STEP_NEEDS.c.job_id, _JOBS.c.bears_failures)
    .join(_JOBS, _JOBS.c.id == _STEP_NEEDS.c.job_id)
    .where(_STEP_NEEDS.c.needed.in_(IDS))
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


class LateStep(NamedTuple):
    job: int
    name: str
    late: dict[str, Any]


class Waiter(NamedTuple):
    """A step that waits for another as a whole; with `bears_failures`, only for its end."""

    job: int
    bears_failures: bool


def insert_pipeline(tx: Tx, spec: PipelineSpec) -> tuple[int, list[Written]]:
    """Writes the pipeline's job, those of its steps with their runs, and what they wait for; gives its number."""
    pipeline = insert_job(tx, spec.job).job
    jobs = [spec.job_of(step) for step in spec.steps]
    steps = list(_reserved(tx, spec, jobs))
    _insert_steps(tx, pipeline, spec, jobs, steps)
    _insert_needs(tx, spec, steps)
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == pipeline).values(run_count=0))  # its steps have them
    tx.touch("runs", *(f"job:{here.job}" for here in steps))
    return pipeline, steps


def _insert_steps(tx: Tx, pipeline: int, spec: PipelineSpec, jobs: Sequence[JobSpec], steps: Sequence[Written]) -> None:
    """Their jobs and runs, and the searches among them. Those of late steps begin when their runs are made."""
    terms = list(zip([text_of(each.job) for each in spec.terms], _environments(tx, spec), strict=True))
    rows, searches = NewRows(tx.now), []
    for step, job, here in zip(spec.steps, jobs, steps, strict=True):
        text, environment = terms[step.terms]
        if job.search is not None:
            text = text_of(job)  # with its command
        place = _place(pipeline, spec, step, _needs(step, len(here.runs)))
        rows.add_job(here.job, job, text, environment, place)
        if step.late is None:
            rows.add_runs(here.job, here.runs, here.ids, job, blocked=place.runs)
            tx.touch("queue" if job.has_own_nodes else f"queue:{job.where}")
            searches += [(here.job, job, all(place.runs))] if job.search is not None else []
        if rows.is_many:
            rows.write(tx)
    rows.write(tx)
    for number, job, waits in searches:
        insert_search(tx, number, job, waits=waits)


def _insert_needs(tx: Tx, spec: PipelineSpec, steps: Sequence[Written]) -> None:
    singly: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    for step, here in zip(spec.steps, steps, strict=True):
        needs = _needs(step, len(here.runs))
        singly += [(steps[at].ids[run], waits) for waits, each in zip(here.ids, needs, strict=True) for at, run in each]
        whole += [(steps[at].job, here.job) for at in sorted(set(step.needs))]
    _INSERT_RUN_NEEDS.execute(tx.connection, singly)
    _INSERT_STEP_NEEDS.execute(tx.connection, whole)


def _needs(step: StepSpec, runs: int) -> Sequence[Sequence[tuple[int, int]]]:
    """What each of its outer runs waits for: of a search on several targets, they are as many, and all wait alike."""
    return step.run_needs * runs if len(step.run_needs) == 1 else step.run_needs or ((),) * runs


def _environments(tx: Tx, spec: PipelineSpec) -> Iterator[str]:
    """The digest of what the runs of each of its terms get. Mostly it is the same, and large."""
    known: dict[tuple[object, ...], str] = {}
    for each in spec.terms:
        own = {**each.job.inherited_env, **each.job.env}
        key = (each.environment, *own.items())
        if key not in known:
            inherited = spec.environments[each.environment] if each.environment is not None else {}
            known[key] = insert_environment(tx, {**inherited, **own})
        yield known[key]


def _place(pipeline: int, spec: PipelineSpec, step: StepSpec, needs: Sequence[Sequence[tuple[int, int]]]) -> StepOf:
    blocked = [len(each) + bool(step.needs) for each in needs]
    late = json.dumps(step.late) if step.late is not None else None
    on = sorted({*step.needs, *(place for each in needs for place, _ in each)})
    names = [spec.steps[each].name for each in on]
    return StepOf(pipeline, step.name, len(set(step.needs)), blocked, late, names, step.bears_failures)


def _reserved(tx: Tx, spec: PipelineSpec, jobs: Sequence[JobSpec]) -> Iterator[Written]:
    """The numbers of all steps and their runs, asked for at once."""
    counts = [0 if step.late is not None else job.outer_runs for step, job in zip(spec.steps, jobs, strict=True)]
    total = sum(counts)
    job = next_numbers(tx, "job", len(counts))
    run, base = next_numbers(tx, "run", total), next_numbers(tx, "run_id", total)
    for number, count in enumerate(counts):
        yield Written(job + number, range(run, run + count), range(base, base + count))
        run, base = run + count, base + count


def count_down(tx: Tx, ended: Collection[int]) -> dict[int, Ended]:
    """These runs of steps are over: for each step, which of them are its own, and how many are not over yet."""
    mine: dict[int, list[int]] = {}
    for run, job in rows_for(tx.connection, _STEP_OF, ended):
        mine.setdefault(job, []).append(run)
    left = _less(tx, _LESS_OPEN, {job: len(runs) for job, runs in mine.items()})
    return {job: Ended(runs, left[job].left) for job, runs in sorted(mine.items())}


def count_down_steps(tx: Tx, met: Mapping[int, int]) -> dict[int, Waiting]:
    """So many of the steps that each of these waits for are over."""
    return _less(tx, _LESS_BLOCKED, met)


def failed_among(tx: Tx, jobs: Collection[int]) -> set[int]:
    """Those of these steps that have a run which is over, and not well."""
    return {row.job_id for row in rows_for(tx.connection, _UNWELL, jobs)}


def created_runs(tx: Tx, jobs: Collection[int]) -> list[tuple[int, int]]:
    """The runs of these steps that wait for others, each with its step."""
    return sorted((run, job) for run, job in rows_for(tx.connection, _CREATED, jobs))


def give_up_late(tx: Tx, jobs: Collection[int]) -> set[int]:
    """The runs of late steps will not be made; the steps of these of which they were to be."""
    return {job for (job,) in rows_for(tx.connection, _GIVE_UP_LATE, jobs)}


def is_due(tx: Tx, job: int) -> bool:
    """Whether the runs of a late step can be made now; nobody else changes that before the transaction is over."""
    where = (_JOBS.c.id == job, _JOBS.c.unmade == 1, _JOBS.c.blocked == 0)
    return tx.connection.execute(sa.select(_JOBS.c.id).where(*where).with_for_update()).first() is not None


def due_steps(connection: sa.Connection) -> list[LateStep]:
    """Those whose runs can be made now."""
    columns = (_JOBS.c.id, _JOBS.c.step, _JOBS.c.late)
    select = sa.select(*columns).where(_JOBS.c.unmade == 1, _JOBS.c.blocked == 0)
    return [LateStep(row.id, row.step, json.loads(row.late)) for row in connection.execute(select.order_by(_JOBS.c.id))]


def insert_late_runs(tx: Tx, job: int, runs: Sequence[RunSpec]) -> Sequence[int]:
    """The runs of a late step, unless somebody made them, or had something before it done again; their ids."""
    if not is_due(tx, job) or not give_up_late(tx, [job]):
        return ()
    spec = replace(load_jobs(tx.connection, {job})[job].spec, runs=tuple(runs))
    (written,) = insert_runs(tx, [MoreRuns(job, spec, [0] * spec.outer_runs)])
    if spec.search is not None:
        set_commands(tx, job, runs)
        begin_search(tx, job, spec)
    values = {"open": _JOBS.c.open + len(written.ids), "run_count": spec.commands}
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == job).values(values))
    tx.touch("queue", f"job:{job}", "runs")
    return written.ids


def late_steps(tx: Tx, pipeline: int | None) -> list[int]:
    """The steps, of one pipeline or of all, whose runs are still to be made."""
    select = sa.select(_JOBS.c.id).where(_JOBS.c.unmade == 1).order_by(_JOBS.c.id)
    if pipeline is not None:
        select = select.where(_JOBS.c.pipeline == pipeline)
    return list(tx.connection.execute(select).scalars())


def is_pipeline(tx: Tx, job: int) -> bool:
    kind = tx.connection.execute(sa.select(_JOBS.c.kind).where(_JOBS.c.id == job)).scalar()
    return bool(kind == CommandKind.PIPELINE)


def origin_of(tx: Tx, job: int) -> str | None:
    """Its name where it was exported, of one that was imported."""
    found: str | None = tx.connection.execute(sa.select(_JOBS.c.origin).where(_JOBS.c.id == job)).scalar()
    return found


def is_open(connection: sa.Connection, job: int) -> bool:
    """Whether a step of this pipeline is not over. False for a job that is none."""
    where = (_JOBS.c.pipeline == job, sa.or_(_JOBS.c.open > 0, _JOBS.c.unmade == 1))
    last = sa.select(_JOBS.c.id).where(*where).order_by(_JOBS.c.id.desc()).limit(1)  # mostly over last, so found first
    return connection.execute(last).first() is not None


def open_pipelines(connection: sa.Connection) -> list[int]:
    """Those that are not over."""
    is_open = sa.and_(_JOBS.c.pipeline.is_not(None), sa.or_(_JOBS.c.open > 0, _JOBS.c.unmade == 1))
    return list(connection.execute(sa.select(_JOBS.c.pipeline).where(is_open).distinct()).scalars())


def has_failures(connection: sa.Connection, pipeline: int) -> bool:
    """Whether a run of its steps has failed."""
    steps = sa.select(_JOBS.c.id).where(_JOBS.c.pipeline == pipeline)
    where = (_RUNS.c.job_id.in_(steps), _RUNS.c.state == str(RunState.FAILED), _RUNS.c.step == OF_STEP)
    return connection.execute(sa.select(_RUNS.c.id).where(*where).limit(1)).first() is not None


def insert_stand_ins(tx: Tx, jobs: Sequence[int]) -> list[tuple[int, int]]:
    """One run for all those of a late step that will not be made, each with its step."""
    known = load_jobs(tx.connection, set(jobs))
    wanted = [MoreRuns(job, _stand_in(known[job].spec), [1]) for job in jobs]
    for part in in_parts(sorted(jobs)):
        tx.connection.execute(_STAND_INS, {"ids": part})
    return [(run, written.job) for written in insert_runs(tx, wanted) for run in written.ids]


def _stand_in(spec: JobSpec) -> JobSpec:
    argv = spec.display[1:] if spec.script is not None else spec.display  # shown is the script's name before them
    return replace(spec, runs=(RunSpec(argv=argv),), search=None, also=(), held=False, nodes=None)


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


def dependants(tx: Tx, runs: Collection[int]) -> list[tuple[int, int]]:
    """Which runs wait for these: (needed, run)."""
    return [(needed, run) for needed, run in rows_for(tx.connection, _DEPENDANTS, runs)]


def awaited(connection: sa.Connection, run: int, step: int) -> list[Awaited]:
    """What a run of this step waits for, and is not over."""
    singly = sa.select(_RUN_NEEDS.c.needed).where(_RUN_NEEDS.c.run_id == run)
    whole = sa.select(_STEP_NEEDS.c.needed).where(_STEP_NEEDS.c.job_id == step)
    columns = (_RUNS.c.number, _RUNS.c.child, _RUNS.c.state, _JOBS.c.step)
    select = (
        sa.select(*columns)
        .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
        .where(sa.or_(_RUNS.c.id.in_(singly), _RUNS.c.job_id.in_(whole)), _RUNS.c.step == OF_STEP)
        .where(_RUNS.c.state.in_(_LIVE))
        .order_by(_RUNS.c.id)
    )
    runs = [Awaited(run_name(row.number, row.child or None), row.step, row.state) for row in connection.execute(select)]
    unmade = sa.select(_JOBS.c.step).where(_JOBS.c.id.in_(whole), _JOBS.c.unmade == 1)
    return [*runs, *(Awaited("", name, "") for name in connection.execute(unmade).scalars())]


def unmade_needs(connection: sa.Connection, step: int) -> list[str] | None:
    """The steps that are not over, and have to be before the runs of this one are made. None when they are made, or
    will not be."""
    if connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.id == step, _JOBS.c.unmade == 1)).first() is None:
        return None
    waits_for = sa.select(_STEP_NEEDS.c.needed).where(_STEP_NEEDS.c.job_id == step)
    is_open = sa.or_(_JOBS.c.open > 0, _JOBS.c.unmade == 1)
    select = sa.select(_JOBS.c.step).where(_JOBS.c.id.in_(waits_for), is_open).order_by(_JOBS.c.id)
    return list(connection.execute(select).scalars())


def needed_steps(tx: Tx, jobs: Collection[int]) -> dict[int, list[Waiter]]:
    """Those of these steps that others wait for as a whole, and who does."""
    found: dict[int, list[Waiter]] = {}
    for needed, job, bears_failures in rows_for(tx.connection, _WAITERS, jobs):
        found.setdefault(needed, []).append(Waiter(job, bool(bears_failures)))
    return found
