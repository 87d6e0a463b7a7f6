"""Taking a pipeline up again: what failed, was cancelled, or was given up for that, is done; what completed is not.

New runs take the places of those, for how a run ended is never written over. They are of the same files, and get what
the runs before them have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from turnout.engine.following import Why, give_up
from turnout.engine.redoing import Again, Needs, Redone, asked_about, decide
from turnout.engine.waiting import let_wait
from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Elsewhere
from turnout.model.spec import JobSpec
from turnout.store import resuming, search_runs, searches
from turnout.store.jobs import Job, MoreRuns, insert_runs, load_jobs
from turnout.store.late import late_steps
from turnout.store.ledger import Ledger
from turnout.store.pipelines import is_pipeline, origin_of
from turnout.store.resuming import Asked
from turnout.store.waiting import gates_of, insert_needs
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
    names = _do(tx, pipeline, redone, needs)
    if redone.agains:
        tx.touch("queue", "runs", "jobs", "pipelines", f"job:{pipeline}")
    return {"job": job_name(pipeline), "steps": names, "later": redone.later}


def _do(tx: Tx, pipeline: int, redone: Redone, needs: Needs) -> dict[str, list[str]]:
    _end_waiting(tx, [run for again in redone.agains if again.unmade for run in again.runs])
    resuming.replace_runs(tx, [run for again in redone.agains for run in again.runs])
    unmade = [again.step.job for again in redone.agains if again.unmade]
    resuming.unmake(tx, unmade)
    resuming.mark_stale(tx, redone.stale)
    anew = [again for again in redone.agains if again.runs and not again.unmade]
    resuming.reopen(tx, [(again.step.job, len(again.runs)) for again in anew])
    new = _insert(tx, anew)
    instead = {run: id_ for run, (id_, _) in new.items()}
    instead |= {old: instead.get(now, now) for old, now in resuming.in_place_of(tx, redone.gone).items()}
    waiting = {again.step.job: again.waiting for again in redone.agains if again.waiting}
    moved = [(on, run) for runs in waiting.values() for run in runs for on in needs.get(run, ()) if on in instead]
    resuming.forget_needs(tx, moved)
    wanted = {(instead.get(on, on), instead[run]) for run in new for on in needs.get(run, ())}
    insert_needs(tx, runs=sorted(wanted | {(instead[on], run) for on, run in moved}))
    in_place = {again.step.job: [instead[run] for run in again.runs] for again in anew}
    steps = {job: [*waiting.get(job, ()), *in_place.get(job, ())] for job in waiting.keys() | in_place.keys()}
    lost = let_wait(tx, steps, unmade)
    found = {
        again.step.name: names
        for again in anew
        if (names := [run_name(new[run][1]) for run in again.runs if instead[run] not in lost])
    }
    going = late_steps(tx, pipeline)
    found |= {again.step.name: [] for again in redone.agains if again.unmade and again.runs and again.step.job in going}
    return {again.step.name: found[again.step.name] for again in redone.agains if again.step.name in found}


def _end_waiting(tx: Tx, runs: Sequence[int]) -> None:
    """Those of these runs that have not begun, and in whose places none come. Nobody is told: others will be there."""
    ledger = Ledger(tx)
    ledger.load(runs)
    for run in runs:
        give_up(ledger, run, Why("what it was made of is done again"), tx.now)
    ledger.flush()


def _insert(tx: Tx, agains: Sequence[Again]) -> dict[int, tuple[int, int]]:
    """For each run that is done again, the id and the number of the one in its place. They are to be told what they
    wait for."""
    asked = resuming.asked_of(tx, [run for again in agains for run in again.runs])
    jobs = load_jobs(tx.connection, {again.step.job for again in agains})
    gates = gates_of(tx, jobs)
    found: dict[int, tuple[int, int]] = {}
    wanted = [
        MoreRuns(
            again.step.job, _spec(tx, jobs[again.step.job], again, asked), [1] * len(again.runs), gates[again.step.job]
        )
        for again in agains
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
    values["deadline"] = None  # its time begins when it does
    if is_derived and spec.search.runs is not None:
        values["wanted"] = spec.search.runs + standing.made
    elif standing.wanted is not None:
        values["wanted"] = standing.wanted + search_runs.count_bad(tx.connection, job)
    searches.change(tx, job, **values)
