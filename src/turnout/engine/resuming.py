"""Taking a pipeline up again: what failed, was cancelled, or was given up for that, is done; what completed is not.

New runs take the places of those, for how a run ended is never written over. They are of the same files, and get what
the runs before them have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from turnout.engine.following import give_up, give_up_steps, settle, skipped
from turnout.engine.redoing import Again, Needs, Redone, asked_about, decide
from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Elsewhere
from turnout.model.spec import JobSpec
from turnout.store import resuming, search_runs, searches
from turnout.store.jobs import Job, MoreRuns, insert_runs, load_jobs
from turnout.store.ledger import Ledger
from turnout.store.pipelines import is_pipeline, origin_of
from turnout.store.queue import names_of
from turnout.store.resuming import Asked
from turnout.store.writer import Tx


def resume(tx: Tx, pipeline: int) -> dict[str, object]:
    """The names of the new runs, by their steps: none of a step whose runs are made later, and no step of which nothing
    is missing; and the steps that would be done again, too, if nothing needed them just now. Conflict for a job that is
    no pipeline."""
    if not is_pipeline(tx, pipeline):
        raise Conflict(f"{job_name(pipeline)} is no pipeline", hint="`turnout rerun RUN` runs a single run again")
    if origin_of(tx, pipeline) is not None:
        hint = "submit its file again with `turnout pipeline`"
        raise Conflict(f"{job_name(pipeline)} was imported: what its steps wait for is not known here", hint=hint)
    steps = resuming.steps_of(tx, pipeline)
    needs = resuming.needed_by(tx, asked_about(steps))
    redone = decide(steps, needs)
    names = _do(tx, redone, needs) if redone.agains else {}
    if redone.agains:
        tx.touch("queue", "runs", "jobs", "pipelines", f"job:{pipeline}")
    return {"job": job_name(pipeline), "steps": names, "later": redone.later}


def _do(tx: Tx, redone: Redone, needs: Needs) -> dict[str, list[str]]:
    resuming.replace_runs(tx, [run for again in redone.agains for run in again.runs])
    resuming.unmake(tx, [(each.step.job, each.waits_for) for each in redone.agains if each.unmade])
    anew = [again for again in redone.agains if not again.unmade]
    resuming.reopen(tx, [(each.step.job, each.waits_for, len(each.runs)) for each in anew])
    new = _insert(tx, anew)
    instead = {run: id_ for run, (id_, _) in new.items()}
    resuming.insert_needs(tx, {instead[run]: [instead.get(on, on) for on in needs.get(run, ())] for run in new})
    _skip(tx, redone.agains, instead)
    return {
        again.step.name: [run_name(new[run][1]) for run in again.runs if run in new and run not in again.vain]
        for again in redone.agains
        if again.all_vain is None and set(again.runs) - again.vain.keys()
    }


def _insert(tx: Tx, agains: Sequence[Again]) -> dict[int, tuple[int, int]]:
    """For each run that is done again, the id and the number of the one in its place."""
    asked = resuming.asked_of(tx, [run for again in agains for run in again.runs])
    jobs = load_jobs(tx.connection, {again.step.job for again in agains})
    found: dict[int, tuple[int, int]] = {}
    wanted = [
        MoreRuns(again.step.job, _spec(tx, jobs[again.step.job], again, asked), again.blocked) for again in agains
    ]
    for again, new in zip(agains, insert_runs(tx, wanted), strict=True):
        found.update(zip(again.runs, zip(new.ids, new.runs, strict=True), strict=True))
        tx.touch(f"job:{again.step.job}")
    return found


def _spec(tx: Tx, job: Job, again: Again, asked: Mapping[int, Asked]) -> JobSpec:
    """What these runs are to do."""
    spec = replace(job.spec, held=False)
    if spec.search is None:
        return replace(spec, runs=tuple(asked[run].spec for run in again.runs))
    _take_up_search(tx, job.id, spec, again)
    queues = {asked[run].queue for run in again.runs}
    places = [Elsewhere(target=spec.target, place=spec.place), *spec.also]
    first, *others = [each for each in places if each.where in queues]
    return replace(spec, target=first.target, place=first.place, also=tuple(others))


def _take_up_search(tx: Tx, job: int, spec: JobSpec, again: Again) -> None:
    """It may make as many runs more as did not go well; all of them, where what it was made of is done again."""
    standing = searches.standing(tx.connection, job, lock=True)
    assert standing is not None and spec.search is not None
    is_derived = any(run.id in again.runs and not run.is_bad for run in again.step.runs)
    values: dict[str, object] = {"state": searches.ACTIVE, "message": "", "ended": None, "forgiven": standing.made}
    if is_derived and spec.search.runs is not None:
        values["wanted"] = spec.search.runs + standing.made
    elif standing.wanted is not None:
        values["wanted"] = standing.wanted + search_runs.count_bad(tx.connection, job)
    if spec.search.seconds is not None:
        values["deadline"] = None if any(again.blocked) else tx.now + spec.search.seconds
    searches.change(tx, job, **values)


def _skip(tx: Tx, agains: Iterable[Again], instead: Mapping[int, int]) -> None:
    """Who waits for one that was skipped is skipped, too: it was given up for another reason, which may now be gone."""
    runs = {instead[run]: instead.get(on, on) for again in agains for run, on in again.vain.items()}
    steps = {
        again.step.job: instead.get(again.all_vain, again.all_vain) for again in agains if again.all_vain is not None
    }
    names = names_of(tx, {*runs.values(), *steps.values()})
    ledger = Ledger(tx)
    give_up_steps(tx, ledger, {job: skipped(names[on]) for job, on in steps.items()})
    ledger.load(runs)
    for run, on in runs.items():
        give_up(ledger, run, skipped(names[on]), tx.now)
    settle(tx, ledger)
    ledger.flush()
