"""Steps on the model's disk, and those whose runs are made late: as ``store.pipelines`` and ``engine.expanding``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnout.errors import InvalidInput
from turnout.model.pipeline import SKIPPED, PipelineSpec
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason, RunState
from turnout.pipeline.plan import Left, RunPlan, name_of
from turnout.testing.simulator import family
from turnout.testing.simulator.command import left_in
from turnout.testing.simulator.memory import Disk, StepRow, Tx
from turnout.testing.simulator.planners import Later


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
        graph, is_late = tx.disk.graph, step.late is not None
        row = StepRow(pipeline, step.name, len(set(step.needs)), spec_of_job.outer_runs, step.late, is_late)
        row.bears_failures = step.bears_failures
        graph.steps[job] = row
        steps.append((job, family.insert_outer(tx, job, spec_of_job, blocked)))
        ids.append(list(range(first, tx.disk.runs + 1)))
        graph.run_needs |= {
            (ids[at][run], waits) for waits, each in zip(ids[-1], needs, strict=True) for at, run in each
        }
        graph.step_needs |= {(steps[at][0], job) for at in step.needs}
        if not is_late:
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


def plan(disk: Disk, job: int) -> Sequence[RunPlan]:
    """What its runs are to be. InvalidInput when there are none, Skipped."""
    step = disk.graph.steps[job]
    assert step.late is not None
    made = Later.of(step.late).expand(leavers(disk, job))
    if not made:
        raise InvalidInput("there is nothing to do it to", hint="see what the steps before it have left")
    return made


def leavers(disk: Disk, job: int) -> dict[str, list[Left]]:
    """What the runs of the steps left that a step waited for, and how they ended."""
    needed = {on for on, each in disk.graph.step_needs if each == job}
    found: dict[str, list[Left]] = {}
    for run, record in sorted(disk.records.items()):
        row = disk.rows[run]
        if row.job in needed and record.step:
            files = (left_in(disk.after[run]),) if run in disk.after and record.state is RunState.COMPLETED else ()
            state = SKIPPED if record.reason is Reason.CONDITION else record.state
            left = Left(label=row.label, values=dict(row.params), files=files, state=state)  # type: ignore[arg-type]
            found.setdefault(disk.graph.steps[row.job].name, []).append(left)
    return found


def make(tx: Tx, job: int, made: Sequence[RunPlan]) -> None:
    """The runs of a late step, unless somebody made them."""
    if tx.disk.graph.steps[job].blocked or not give_up_late(tx.disk, job):
        tx.seen.add("late runs made already")
        return
    tx.seen.add("late runs made")
    step, spec = tx.disk.graph.steps[job], tx.disk.jobs[job]
    runs = tuple(
        RunSpec(argv=each.argv, params=dict(each.values), label=name_of(step.name, each), outputs=each.outputs)
        for each in made
    )
    family.insert_outer(tx, job, replace(spec, runs=runs), [0] * len(runs))
    step.open += len(runs)
    tx.touched.add("queue")
