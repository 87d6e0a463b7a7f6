"""Taking a pipeline up again: what failed, was cancelled, or was given up for that, is done; what completed is not.

New runs take the places of those, for how a run ended is never written over. They are of the same files, and get what
the runs before them have left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Elsewhere
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason, RunState
from turnout.pipeline.languages import late_from
from turnout.store import resuming, search_runs, searches
from turnout.store.jobs import insert_runs, load_jobs
from turnout.store.pipelines import is_pipeline, origin_of
from turnout.store.resuming import Run, Step
from turnout.store.writer import Tx


@dataclass(slots=True)
class _Redone:
    """`instead` has who is in the place of which run; in `steps` something is to be done, `skipped` ones stay so."""

    instead: dict[int, int] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    names: dict[str, list[str]] = field(default_factory=dict)


def resume(tx: Tx, pipeline: int) -> dict[str, object]:
    """The names of the new runs, by their steps: none of a step whose runs are made later, and no step of which nothing
    is missing. Conflict for a job that is no pipeline."""
    if not is_pipeline(tx, pipeline):
        raise Conflict(f"{job_name(pipeline)} is no pipeline", hint="`turnout rerun RUN` runs a single run again")
    if origin_of(tx, pipeline) is not None:
        hint = "submit its file again with `turnout pipeline`"
        raise Conflict(f"{job_name(pipeline)} was imported: what its steps wait for is not known here", hint=hint)
    redone = _Redone()
    for step in resuming.steps_of(tx, pipeline):
        if not step.bears_failures and not redone.skipped.isdisjoint(step.needs):
            redone.skipped.add(step.job)
            continue
        waits_for = [need for need in step.needs if need in redone.steps]
        if _is_to_be_made(step, bool(waits_for)):
            _unmake(tx, step, redone)
        elif step.late is not None and not step.runs:  # still to be made, after what is done again before it
            resuming.unmake(tx, step.job, blocked=len(waits_for))
        else:
            _redo(tx, step, [run for run in step.runs if _is_missing(run)], redone)
        if step.is_open:
            redone.steps.add(step.job)
        if step.job not in redone.steps and any(run.reason == Reason.CONDITION for run in step.runs):
            redone.skipped.add(step.job)
    if redone.names:
        tx.touch("queue", "runs", "jobs", "pipelines", f"job:{pipeline}")
    return {"job": job_name(pipeline), "steps": redone.names}


def _is_missing(run: Run) -> bool:
    return not resuming.is_live(run) and run.state is not RunState.COMPLETED and run.reason != Reason.CONDITION


def _is_to_be_made(step: Step, waits: bool) -> bool:
    """Whether the runs of a late step have to be made, once more. One with a condition asks again after whatever is
    done before it."""
    if step.late is None or any(map(resuming.is_live, step.runs)):
        return False
    if not step.made:
        return any(map(_is_missing, step.runs)) or (waits and bool(step.runs))
    return waits and late_from(step.late).has_condition


def _unmake(tx: Tx, step: Step, redone: _Redone) -> None:
    resuming.replace_runs(tx, [run.id for run in step.runs])
    resuming.unmake(tx, step.job, blocked=len(redone.steps.intersection(step.needs)))
    redone.steps.add(step.job)
    redone.names[step.name] = []


def _redo(tx: Tx, step: Step, missing: Sequence[Run], redone: _Redone) -> None:
    if not missing:
        return
    needs = {
        run: [redone.instead.get(each, each) for each in needed]
        for run, needed in resuming.needed_by(tx, [run.id for run in missing]).items()
    }
    well = resuming.completed(tx, {each for needed in needs.values() for each in needed})
    waits_for = len(redone.steps.intersection(step.needs))
    blocked = [len(set(needs.get(run.id, ())) - well) + bool(waits_for) for run in missing]
    new = insert_runs(tx, step.job, _spec(tx, step.job, missing, blocked), blocked)
    redone.instead.update((run.id, id_) for run, id_ in zip(missing, new.ids, strict=True))
    resuming.insert_needs(tx, {redone.instead[run]: needed for run, needed in needs.items()})
    resuming.replace_runs(tx, [run.id for run in missing])
    resuming.reopen(tx, step.job, blocked=waits_for, opened=len(missing))
    redone.steps.add(step.job)
    redone.names[step.name] = [run_name(number) for number in new.runs]
    tx.touch(f"job:{step.job}")


def _spec(tx: Tx, job: int, missing: Sequence[Run], blocked: Sequence[int]) -> JobSpec:
    """What these runs are to do."""
    spec = replace(load_jobs(tx.connection, {job})[job].spec, held=False)
    if spec.search is not None:
        _take_up_search(tx, job, spec, is_free=not any(blocked))
        places = [Elsewhere(target=spec.target, place=spec.place), *spec.also]
        first, *others = [each for each in places if each.where in {run.place for run in missing}]
        return replace(spec, target=first.target, place=first.place, also=tuple(others))
    runs = [
        RunSpec(argv=tuple(run.argv), params=run.params, label=run.label, outputs=tuple(run.outputs))
        for run in missing
    ]  # fmt: skip
    return replace(spec, runs=tuple(runs))


def _take_up_search(tx: Tx, job: int, spec: JobSpec, *, is_free: bool) -> None:
    """It may make as many runs more as did not go well."""
    standing = searches.standing(tx.connection, job, lock=True)
    assert standing is not None and spec.search is not None
    values: dict[str, object] = {"state": searches.ACTIVE, "message": "", "ended": None, "forgiven": standing.made}
    if standing.wanted is not None:
        values["wanted"] = standing.wanted + search_runs.count_bad(tx.connection, job)
    if spec.search.seconds is not None:
        values["deadline"] = tx.now + spec.search.seconds if is_free else None
    searches.change(tx, job, **values)
