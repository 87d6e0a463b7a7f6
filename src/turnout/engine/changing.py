"""What a person does to a search while it goes on, or when it is over: pause, resume, let it do more."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from turnout.errors import Conflict, InvalidInput
from turnout.model.ids import job_name
from turnout.model.search import LONGEST_SECONDS, MOST_AT_ONCE, Elsewhere
from turnout.schedule import machine
from turnout.spec.check import MOST_RUNS
from turnout.store import search_runs, searches
from turnout.store.jobs import Job, add_parents, load_jobs
from turnout.store.ledger import Ledger
from turnout.store.queue import open_parents
from turnout.store.searches import Standing
from turnout.store.writer import Tx

_ACTIONS: dict[str, dict[str, Any]] = {
    "pause": {"state": searches.PAUSED, "message": "a person paused it"},
    "resume": {"state": searches.ACTIVE, "message": ""},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`action`: pause or resume. `runs` and `seconds` are in all, or with `more` on top of what there is; `concurrent`
    0 = as many as find room. None = as it was."""

    action: str | None = None
    runs: int | None = None
    seconds: float | None = None
    more: bool = False
    concurrent: int | None = None

    @property
    def is_extension(self) -> bool:
        return self.runs is not None or self.seconds is not None


def change(tx: Tx, job: int, asked: Change) -> dict[str, Any]:
    """Conflict for a job that is no search, and for what cannot be done to it any more, or not yet; InvalidInput for
    fewer runs than were made, and for more of something than there can be."""
    standing = searches.standing(tx.connection, job, lock=True)
    if standing is None:
        raise Conflict(f"{job_name(job)} is no search", hint="`turnout list jobs` shows what there is")
    if standing.state == searches.OVER and not asked.is_extension:
        hint = f"`turnout extend {job_name(job)} --runs +10` lets it do more"
        raise Conflict(f"{job_name(job)} is over, there is nothing to {asked.action or 'change'}", hint=hint)
    known = load_jobs(tx.connection, {job})[job]
    values: dict[str, Any] = {}
    if asked.runs is not None:
        values["wanted"] = _runs(standing, asked, known)
    if asked.seconds is not None:
        values["deadline"] = _deadline(tx, standing, asked)
    if asked.concurrent is not None:
        values["concurrent"] = asked.concurrent or None
    if asked.is_extension:
        values = {**_taken_up(tx, standing, asked), **values}
        _add_parents(tx, known)
    if asked.action is not None:
        values |= _ACTIONS[asked.action]
    if asked.is_extension or asked.action is not None:
        _stock(tx, replace(standing, **values))
    if values:
        searches.change(tx, job, **values)
    tx.touch("queue", "runs")
    return {}


def pause(tx: Tx, job: int, why: str) -> None:
    """It makes no more runs until it is resumed. Idempotent; nothing happens to what is over."""
    standing = searches.standing(tx.connection, job, lock=True)
    if standing is not None and standing.state != searches.OVER:
        _stock(tx, replace(standing, state=searches.PAUSED))
        searches.change(tx, job, state=searches.PAUSED, message=why)


def begin(tx: Tx, held: Collection[int]) -> None:
    """These runs are about to be let go. Of searches whose first outer runs are among them, the time begins."""
    for job in sorted(search_runs.jobs_of(tx.connection, held)):
        search = load_jobs(tx.connection, {job})[job].spec.search
        assert search is not None
        if search.seconds is not None and not search_runs.parents(tx.connection, job).has_begun:
            searches.change(tx, job, deadline=tx.now + search.seconds)
        tx.touch(f"search:{job}")


def _runs(standing: Standing, asked: Change, job: Job) -> int:
    assert asked.runs is not None and job.spec.search is not None
    most = MOST_AT_ONCE if job.spec.search.whole else MOST_RUNS
    wanted = asked.runs
    if asked.more:
        wanted += standing.wanted if standing.wanted is not None else standing.made
    elif asked.runs < standing.made:
        hint = f"give --runs {standing.made} or more; `turnout pause` keeps it from making more"
        raise InvalidInput(f"it has made {standing.made} runs already", hint=hint)
    if wanted > most:
        at_once = " whose runs are made at once" if job.spec.search.whole else ""
        raise InvalidInput(f"a search{at_once} may have up to {most} runs", hint="give a smaller number to --runs")
    return wanted


def _deadline(tx: Tx, standing: Standing, asked: Change) -> float:
    assert asked.seconds is not None
    if not search_runs.parents(tx.connection, standing.job).has_begun:
        name = job_name(standing.job)
        raise Conflict(f"{name} is held, and its time has not begun", hint=f"`turnout release {name}` lets it go")
    since = max(tx.now, standing.deadline or tx.now) if asked.more else tx.now
    if since + asked.seconds > tx.now + LONGEST_SECONDS:
        raise InvalidInput("a search may have up to 100 years", hint="give less to --max-time")
    return since + asked.seconds


def _taken_up(tx: Tx, standing: Standing, asked: Change) -> dict[str, Any]:
    """What else is new of a search that may use more."""
    values: dict[str, Any] = {"forgiven": standing.made}  # else one that gave up would do so again at once
    if asked.runs is not None and standing.deadline is not None and standing.deadline <= tx.now:
        values["deadline"] = None  # its time was up; what is asked for now is runs
    if standing.state == searches.OVER:
        values |= {"state": searches.ACTIVE, "message": "", "ended": None}
    return values


def _add_parents(tx: Tx, job: Job) -> None:
    """Where its outer runs have ended, or make no more, others take their place."""
    ledger, parents = Ledger(tx), open_parents(tx, job.id)
    ledger.load(parents)
    going = [run for run in parents if (parent := ledger.get(run)) is not None and not parent.makes_no_more]
    served = search_runs.queues_of(tx.connection, going)
    spec = job.spec
    places = [Elsewhere(target=spec.target, place=spec.place), *spec.also]
    missing = [each for each in places if each.where not in served]
    if missing:
        first, *others = missing
        add_parents(tx, replace(job, spec=replace(spec, target=first.target, place=first.place, also=tuple(others))))


def _stock(tx: Tx, standing: Standing) -> None:
    """Its parents have what was proposed, nothing if it is paused. They stay open: they do not end while it is paused,
    and when it goes on, the next round closes those that have nothing to wait for."""
    ledger = Ledger(tx)
    parents = open_parents(tx, standing.job)
    ledger.load(parents)
    ready = 0 if standing.state == searches.PAUSED else standing.ready
    for run in parents:
        parent = ledger.get(run)
        if parent is not None and not parent.is_terminal and not parent.is_cancelled:
            planned = parent.children_planned
            ledger.apply(machine.stock(parent, ready=ready, planned=planned, is_open=True, now=tx.now))
    ledger.flush()
