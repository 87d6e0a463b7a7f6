"""Pipelines: their steps, and which runs wait for which."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from turnout.model.ids import run_name
from turnout.model.pipeline import PipelineSpec, StepSpec
from turnout.model.spec import CommandKind, JobSpec
from turnout.model.state import LIVE, RunState
from turnout.schedule.explain import Awaited
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.jobs import Written, insert_environment, insert_job, next_numbers
from turnout.store.new_rows import NewRows, StepOf, text_of
from turnout.store.searches import insert_search
from turnout.store.waiting import insert_needs
from turnout.store.writer import Tx

_RUNS, _JOBS, _RUN_NEEDS, _STEP_NEEDS = schema.runs, schema.jobs, schema.run_needs, schema.step_needs
_LATE_NEEDS = schema.late_needs
_LIVE = [str(state) for state in LIVE]


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
    """Their jobs and runs, and the searches among them. Late ones begin when their runs are made."""
    terms = list(zip([text_of(each.job) for each in spec.terms], _environments(tx, spec), strict=True))
    rows, searches = NewRows(tx.now), []
    for step, job, here in zip(spec.steps, jobs, steps, strict=True):
        text, environment = terms[step.terms]
        if job.search is not None:
            text = text_of(job)  # with its command
        place = _place(pipeline, spec, step, _needs(step, len(here.runs)))
        rows.add_job(here.job, job, text, environment, place)
        if step.runs:
            rows.add_runs(here.job, here.runs, here.ids, job, blocked=place.runs, gate=step.gate)
            tx.touch("queue" if job.has_own_nodes else f"queue:{job.where}")
            searches += [(here.job, job, bool(step.gate) or all(place.runs))] if job.search is not None else []
        if rows.is_many:
            rows.write(tx)
    rows.write(tx)
    for number, job, waits in searches:
        insert_search(tx, number, job, waits=waits)


def _insert_needs(tx: Tx, spec: PipelineSpec, steps: Sequence[Written]) -> None:
    singly: list[tuple[int, int]] = []
    whole: list[tuple[int, int]] = []
    late: list[tuple[int, int, int]] = []
    for step, here in zip(spec.steps, steps, strict=True):
        needs = _needs(step, len(here.runs))
        singly += [(steps[at].ids[run], waits) for waits, each in zip(here.ids, needs, strict=True) for at, run in each]
        if step.runs:
            whole += [(steps[at].job, here.job) for at in sorted(set(step.needs))]
        else:
            over = {**dict.fromkeys(step.follows, 0), **dict.fromkeys(step.needs, 1)}
            late += [(steps[at].job, here.job, is_over) for at, is_over in sorted(over.items())]
    insert_needs(tx, runs=singly, steps=whole, late=late)


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
    on = sorted({*step.needs, *step.follows, *(place for each in needs for place, _ in each)})
    names = [spec.steps[each].name for each in on]
    steps = {*step.needs, *(each for each in step.follows if not spec.steps[each].runs)}
    return StepOf(pipeline, step.name, len(steps), blocked, late, not step.runs, step.gate, names, step.each)


def _reserved(tx: Tx, spec: PipelineSpec, jobs: Sequence[JobSpec]) -> Iterator[Written]:
    """The numbers of all steps and their runs, asked for at once."""
    counts = [job.outer_runs if step.runs else 0 for step, job in zip(spec.steps, jobs, strict=True)]
    total = sum(counts)
    job = next_numbers(tx, "job", len(counts))
    run, base = next_numbers(tx, "run", total), next_numbers(tx, "run_id", total)
    for number, count in enumerate(counts):
        yield Written(job + number, range(run, run + count), range(base, base + count))
        run, base = run + count, base + count


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
    """The steps that are not over, or not made, and have to be before the runs of this one are made. None when they are
    made, or will not be."""
    if connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.id == step, _JOBS.c.unmade == 1)).first() is None:
        return None
    is_missing = sa.or_(_JOBS.c.unmade == 1, sa.and_(_JOBS.c.open > 0, _LATE_NEEDS.c.over == 1))
    select = (
        sa.select(_JOBS.c.step)
        .join(_LATE_NEEDS, _LATE_NEEDS.c.needed == _JOBS.c.id)
        .where(_LATE_NEEDS.c.job_id == step, is_missing)
        .order_by(_JOBS.c.id)
    )
    return list(connection.execute(select).scalars())
