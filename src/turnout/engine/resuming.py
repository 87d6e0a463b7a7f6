"""Taking a pipeline up again: what failed, was cancelled, or was given up for that, is done; what completed is not.

New runs take the places of those, for how a run ended is never written over. They are of the same files, and get what
the runs before them have left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from turnout.engine.following import give_up, give_up_step, settle, skipped
from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Elsewhere
from turnout.model.spec import JobSpec, RunSpec
from turnout.model.state import Reason, RunState
from turnout.pipeline.languages import late_from
from turnout.store import resuming, search_runs, searches
from turnout.store.jobs import insert_runs, load_jobs
from turnout.store.ledger import Ledger
from turnout.store.pipelines import is_pipeline, origin_of
from turnout.store.queue import names_of
from turnout.store.resuming import Run, Step
from turnout.store.writer import Tx


@dataclass(slots=True)
class _Redone:
    """`instead` has who is in the place of which run; in `steps` something is to be done, and the runs of `unmade` ones
    are made anew. Runs in `skipped` are so, or will be; for each step that has one, `partly` has who was skipped first.
    What waits for that in vain is in `vain_runs` and `vain_steps`, with the same."""

    instead: dict[int, int] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    unmade: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)
    partly: dict[int, int] = field(default_factory=dict)
    vain_runs: dict[int, int] = field(default_factory=dict)
    vain_steps: dict[int, int] = field(default_factory=dict)
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
        in_vain = None if step.bears_failures else next(filter(None, map(redone.partly.get, step.needs)), None)
        is_stale = _is_stale(tx, step, redone)
        is_live = any(map(resuming.is_live, step.runs))
        missing = [] if is_stale and is_live else _missing(tx, step, redone, in_vain)
        waits_for = redone.steps.intersection(step.after)
        if in_vain is not None and not missing:
            _stays(step, redone)
            continue
        if not is_live and (is_stale or _is_to_be_made(step, redone)):
            _unmake(tx, step, redone)
        elif step.late is not None and not step.runs:  # still to be made, after what is done again before it
            resuming.unmake(tx, step, blocked=len(waits_for))
        else:
            _redo(tx, step, missing, redone, is_vain=in_vain is not None)
            _stays(step, redone)
        if in_vain is not None:
            redone.vain_steps[step.job] = redone.partly[step.job] = in_vain
            redone.names.pop(step.name, None)
        if step.is_open:
            redone.steps.add(step.job)
    _skip(tx, redone)
    if redone.names or redone.vain_runs or redone.vain_steps:
        tx.touch("queue", "runs", "jobs", "pipelines", f"job:{pipeline}")
    return {"job": job_name(pipeline), "steps": redone.names}


def _missing(tx: Tx, step: Step, redone: _Redone, in_vain: int | None) -> list[Run]:
    """The runs that did not go well; also what was skipped for one before it that is done again."""
    missing = {run.id for run in step.runs if _is_missing(run)}
    if step.late is None and in_vain is None:
        skipped = [run.id for run in step.runs if run.reason == Reason.CONDITION]
        needs = resuming.needed_by(tx, skipped)
        missing.update(run for run in skipped if redone.skipped.isdisjoint(needs.get(run, ())))
    return [run for run in step.runs if run.id in missing]


def _is_missing(run: Run) -> bool:
    return not resuming.is_live(run) and run.state is not RunState.COMPLETED and run.reason != Reason.CONDITION


def _is_stale(tx: Tx, step: Step, redone: _Redone) -> bool:
    """Whether a late step, each of whose runs waits for certain runs, was made of such as count no more: there may be
    others now. While one of its runs is under way nothing is done about that; who resumes it after that does."""
    if step.late is None or not step.made or step.needs:
        return False
    if not redone.unmade.isdisjoint(step.after):
        return True
    needs = resuming.needed_by(tx, [run.id for run in step.runs])
    return resuming.is_any_replaced(tx, {each for needed in needs.values() for each in needed})


def _is_to_be_made(step: Step, redone: _Redone) -> bool:
    """Whether the runs of a late step have to be made, or made once more: one with a condition asks again after
    whatever is done before it."""
    if step.late is None:
        return False
    waits = not redone.steps.isdisjoint(step.after)
    if not step.made:
        return any(map(_is_missing, step.runs)) or (waits and bool(step.runs))
    return waits and late_from(step.late).has_condition


def _stays(step: Step, redone: _Redone) -> None:
    """What was skipped and is not done again."""
    skipped = [run.id for run in step.runs if run.reason == Reason.CONDITION and run.id not in redone.instead]
    redone.skipped.update(skipped)
    if skipped:
        redone.partly[step.job] = skipped[0]


def _skip(tx: Tx, redone: _Redone) -> None:
    """Who waits for one that was skipped is skipped, too: it was given up for another reason, which may now be gone."""
    names = names_of(tx, {*redone.vain_runs.values(), *redone.vain_steps.values()})
    ledger = Ledger(tx)
    for job, needed in redone.vain_steps.items():
        give_up_step(tx, ledger, job, skipped(names[needed]))
    ledger.load(redone.vain_runs)
    for run, needed in redone.vain_runs.items():
        give_up(ledger, run, skipped(names[needed]), tx.now)
    settle(tx, ledger)
    ledger.flush()


def _unmake(tx: Tx, step: Step, redone: _Redone) -> None:
    resuming.replace_runs(tx, [run.id for run in step.runs])
    resuming.unmake(tx, step, blocked=len(redone.steps.intersection(step.after)))
    redone.steps.add(step.job)
    redone.unmade.add(step.job)
    redone.names[step.name] = []


def _redo(tx: Tx, step: Step, missing: Sequence[Run], redone: _Redone, *, is_vain: bool) -> None:
    """None of them begins at once if that `is_vain`."""
    if not missing:
        return
    needs = {
        run: [redone.instead.get(each, each) for each in needed]
        for run, needed in resuming.needed_by(tx, [run.id for run in missing]).items()
    }
    well = resuming.completed(tx, {each for needed in needs.values() for each in needed})
    waits_for = len(redone.steps.intersection(step.needs))
    blocked = [len(set(needs.get(run.id, ())) - well) + bool(waits_for or is_vain) for run in missing]
    new = insert_runs(tx, step.job, _spec(tx, step.job, missing, blocked), blocked)
    redone.instead.update((run.id, id_) for run, id_ in zip(missing, new.ids, strict=True))
    resuming.insert_needs(tx, {redone.instead[run]: needed for run, needed in needs.items()})
    resuming.replace_runs(tx, [run.id for run in missing])
    resuming.reopen(tx, step.job, blocked=waits_for, opened=len(missing))
    redone.steps.add(step.job)
    for run, number in zip(missing, new.runs, strict=True):
        in_vain = next((each for each in needs.get(run.id, ()) if each in redone.skipped), None)
        if in_vain is None:
            redone.names.setdefault(step.name, []).append(run_name(number))
        else:
            redone.vain_runs[redone.instead[run.id]] = redone.partly[step.job] = in_vain
            redone.skipped.add(redone.instead[run.id])
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
