"""What a person does to a search while it goes on, or when it is over: pause, resume, let it do more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnout.errors import Conflict, InvalidInput
from turnout.model.ids import job_name
from turnout.schedule import machine
from turnout.store import searches
from turnout.store.jobs import add_parents, load_jobs
from turnout.store.ledger import Ledger
from turnout.store.queue import open_parents
from turnout.store.searches import Standing
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`action`: pause or resume. `runs` and `seconds` are in all, or with `more` on top of what there is; `concurrent`
    0 = as many as find room. None = as it was."""

    action: str | None = None
    runs: int | None = None
    seconds: float | None = None
    more: bool = False
    concurrent: int | None = None


def change(tx: Tx, job: int, asked: Change) -> dict[str, Any]:
    """Conflict for a job that is no search, and for what cannot be done to it any more; InvalidInput for fewer runs
    than were made."""
    standing = searches.standing(tx.connection, job, lock=True)
    if standing is None:
        raise Conflict(f"{job_name(job)} is no search", hint="`turnout list jobs` shows what there is")
    values: dict[str, object] = {}
    if asked.runs is not None:
        values["wanted"] = _runs(standing, asked)
    if asked.seconds is not None:
        begin = max(tx.now, standing.deadline or tx.now) if asked.more else tx.now
        values["deadline"] = begin + asked.seconds
    if asked.concurrent is not None:
        values["concurrent"] = asked.concurrent or None
    if asked.runs is not None or asked.seconds is not None:
        _take_up(tx, standing, asked, values)
    elif standing.state == searches.OVER:
        hint = f"`turnout extend {job_name(job)} --runs +10` lets it do more"
        raise Conflict(f"{job_name(job)} is over, there is nothing to {asked.action or 'change'}", hint=hint)
    if asked.action == "pause":
        pause(tx, job, "a person paused it")
    elif asked.action == "resume":
        values |= {"state": searches.ACTIVE, "message": ""}
        _stock(tx, standing, ready=standing.asked - standing.made)
    if values:
        searches.change(tx, job, **values)
    tx.touch("queue", "runs", f"search:{job}")
    return {}


def pause(tx: Tx, job: int, why: str) -> None:
    """It makes no more runs until it is resumed. Idempotent; nothing happens to what is over."""
    standing = searches.standing(tx.connection, job, lock=True)
    if standing is not None and standing.state != searches.OVER:
        _stock(tx, standing, ready=0)
        searches.change(tx, job, state=searches.PAUSED, message=why)


def _runs(standing: Standing, asked: Change) -> int:
    assert asked.runs is not None
    if not asked.more:
        if asked.runs < standing.asked:
            hint = f"give --runs {standing.asked} or more; `turnout pause` keeps it from making them"
            raise InvalidInput(f"its sampler has proposed {standing.asked} runs already", hint=hint)
        return asked.runs
    return (standing.wanted if standing.wanted is not None else standing.asked) + asked.runs


def _take_up(tx: Tx, standing: Standing, asked: Change, values: dict[str, object]) -> None:
    """A search that may use more goes on; if it is over, with parents that take the place of those that have ended."""
    if asked.runs is not None and standing.deadline is not None and standing.deadline <= tx.now:
        values.setdefault("deadline", None)  # its time was up; what is asked for now is runs
    if standing.state == searches.OVER:
        values |= {"state": searches.ACTIVE, "message": "", "ended": None}
    alive = open_parents(tx, standing.job)
    if alive:
        _reopen(tx, alive)
    else:
        add_parents(tx, load_jobs(tx.connection, {standing.job})[standing.job])


def _reopen(tx: Tx, parents: list[int]) -> None:
    ledger = Ledger(tx)
    ledger.load(parents)
    for run in parents:
        parent = ledger.get(run)
        if parent is not None and not parent.is_cancelled:
            planned = parent.children_planned
            ledger.apply(machine.stock(parent, ready=parent.remaining, planned=planned, is_open=True, now=tx.now))
    ledger.flush()


def _stock(tx: Tx, standing: Standing, *, ready: int) -> None:
    """Its parents stay open: they do not end while it is paused, and when it goes on, the next round closes those that
    have nothing to wait for."""
    ledger = Ledger(tx)
    parents = open_parents(tx, standing.job)
    ledger.load(parents)
    for run in parents:
        parent = ledger.get(run)
        if parent is not None and not parent.is_terminal and not parent.is_cancelled:
            planned = parent.children_planned
            ledger.apply(machine.stock(parent, ready=ready, planned=planned, is_open=True, now=tx.now))
    ledger.flush()
