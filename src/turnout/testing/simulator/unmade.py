"""Steps on the model's disk, and those whose runs are made late: as ``store.pipelines`` and ``store.late``."""

from __future__ import annotations

from dataclasses import replace

from turnout.errors import InvalidInput
from turnout.model.pipeline import SKIPPED, PipelineSpec
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason, RunState
from turnout.pipeline.plan import Left, StepPlan, Value, name_of
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator import family
from turnout.testing.simulator.command import left_in
from turnout.testing.simulator.memory import Disk, Row, StepRow, Tx
from turnout.testing.simulator.planners import Later

#: What a step was before its runs are made: of each step that it waited for, its runs, and what they left.
Before = dict[str, list[tuple[int, Left]]]


def insert_pipeline(tx: Tx, spec: PipelineSpec) -> tuple[int, list[tuple[int, list[int]]]]:
    """Its job, and for each step its job and the numbers of its runs."""
    pipeline = _insert_job(tx, spec.job)
    steps: list[tuple[int, list[int]]] = []
    ids: list[list[int]] = []
    for step in spec.steps:
        spec_of_job = spec.job_of(step)
        needs = step.run_needs or ((),) * spec_of_job.outer_runs
        blocked = [len(each) + bool(step.needs) for each in needs]
        job, first = _insert_job(tx, spec_of_job), tx.disk.runs + 1
        graph, is_late = tx.disk.graph, not step.runs
        waits_for = {*step.needs, *(at for at in step.follows if not spec.steps[at].runs)}
        graph.steps[job] = StepRow(
            pipeline, step.name, len(waits_for), spec_of_job.outer_runs, step.late, is_late, step.gate, not is_late
        )
        steps.append((job, family.insert_outer(tx, job, spec_of_job, blocked, step.gate)))
        ids.append(list(range(first, tx.disk.runs + 1)))
        graph.run_needs |= {
            (ids[at][run], waits) for waits, each in zip(ids[-1], needs, strict=True) for at, run in each
        }
        if is_late:
            over = {**dict.fromkeys(step.follows, 0), **dict.fromkeys(step.needs, 1)}
            graph.late_needs |= {(steps[at][0], job, is_over) for at, is_over in over.items()}
        else:
            graph.step_needs |= {(steps[at][0], job) for at in step.needs}
            tx.touched.add(f"queue:{spec_of_job.target}" if spec_of_job.nodes is None else "queue")
    return pipeline, steps


def _insert_job(tx: Tx, spec: JobSpec) -> int:
    job = len(tx.disk.jobs) + 1
    tx.disk.jobs[job] = spec
    return job


# --- late steps -------------------------------------------------------------------------------------------------------


def due_steps(disk: Disk) -> list[int]:
    """Those whose runs can be made now."""
    return sorted(job for job, step in disk.graph.steps.items() if step.unmade and not step.blocked)


def late_steps(disk: Disk, pipeline: int) -> list[int]:
    """Those of it whose runs are still to be made."""
    return sorted(job for job, step in disk.graph.steps.items() if step.unmade and step.pipeline == pipeline)


def give_up_late(disk: Disk, job: int) -> bool:
    """The runs of a late step will not be made; whether they were to be."""
    step = disk.graph.steps[job]
    was, step.unmade = step.unmade, False
    return was


def insert_stand_in(tx: Tx, job: int) -> list[int]:
    """One run for all those of a late step that will not be made."""
    tx.disk.graph.steps[job].open += 1
    spec = tx.disk.jobs[job]
    family.insert_outer(tx, job, replace(spec, runs=(RunSpec(argv=spec.display),)), [1])
    return [tx.disk.runs]


def before_making(disk: Disk, job: int) -> Before:
    """Of those that need not be over, it is not told what they have left so far."""
    found: Before = {}
    for needed, is_over in sorted((on, over) for on, each, over in disk.graph.late_needs if each == job):
        for run, record in sorted(disk.records.items()):
            row = disk.rows[run]
            if row.job == needed and record.step == OF_STEP:
                left = left_by(disk, run) if is_over else Left(label=row.label, values=_values(row), state="created")
                found.setdefault(disk.graph.steps[needed].name, []).append((run, left))
    return found


def left_by(disk: Disk, run: int) -> Left:
    """What a run left that is over, and how it ended."""
    row, record = disk.rows[run], disk.records[run]
    files = (left_in(disk.after[run]),) if run in disk.after and record.state is RunState.COMPLETED else ()
    state = SKIPPED if record.reason is Reason.CONDITION else record.state
    return Left(label=row.label, values=_values(row), files=files, state=state)


def _values(row: Row) -> dict[str, Value]:
    return {name: value for name, value in row.params.items() if isinstance(value, str | int | float)}


def plan(disk: Disk, job: int, before: Before) -> StepPlan:
    """What its runs are to be. InvalidInput when there are none."""
    step = disk.graph.steps[job]
    assert step.late is not None
    made = Later.of(step.late).make({name: [left for _, left in runs] for name, runs in before.items()})
    if not made.runs:
        raise InvalidInput("there is nothing to do it to", hint="see what the steps before it have left")
    return made


def make(tx: Tx, job: int, made: StepPlan, before: Before) -> list[int]:
    """The runs of a late step, with what they need, unless somebody made them; they wait."""
    disk, step = tx.disk, tx.disk.graph.steps[job]
    if step.blocked or not give_up_late(disk, job):
        tx.seen.add("late runs made already")
        return []
    tx.seen.add("late runs made")
    spec, first = disk.jobs[job], disk.runs + 1
    runs = tuple(
        RunSpec(
            argv=each.argv or spec.display,
            params=dict(each.values),
            label=name_of(step.name, each),
            outputs=each.outputs,
        )
        for each in made.runs
    )
    family.insert_outer(tx, job, replace(spec, runs=runs), [1] * len(runs), step.gate)
    ids = list(range(first, disk.runs + 1))
    step.open, step.made = step.open + len(runs), True
    jobs = {disk.graph.steps[on].name: on for on, each, _ in disk.graph.late_needs if each == job}
    disk.graph.step_needs |= {(jobs[name], job) for name in made.needs}
    disk.graph.run_needs |= {
        (before[place.step][place.run][0], run)
        for run, each in zip(ids, made.runs, strict=True)
        for place in each.needs
    }
    return ids
