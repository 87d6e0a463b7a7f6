"""What is written of searches, on the model's disk: as ``engine.proposing`` and ``engine.changing`` have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnout.engine.changing import Change
from turnout.plugin.sampler import Proposal
from turnout.schedule import machine
from turnout.schedule.record import Cause, Refusal, RunRecord
from turnout.search.budget import Decision
from turnout.store.searches import ACTIVE, OVER, PAUSED, Standing
from turnout.testing.simulator import family
from turnout.testing.simulator.link import Refused
from turnout.testing.simulator.memory import Disk, Ledger, Tx, close_children


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """As ``engine.proposing`` has it. `is_last`: all its parents were over when its sampler was told."""

    standing: Standing
    proposals: Sequence[Proposal]
    decision: Decision
    stops: Mapping[int, str]
    trouble: str
    is_last: bool
    closed: str


def make(tx: Tx, move: Move) -> list[RunRecord] | None:
    """Writes it; None = the search is not as it was."""
    job = move.standing.job
    if not is_as_it_was(tx, move.standing):
        tx.seen.add("search changed meanwhile")
        return None
    add_proposals(tx, job, move.proposals)
    ledger, parents = Ledger(tx), family.parents_of(tx.disk, job)
    ledger.load(parents)
    search = tx.disk.jobs[job].search
    assert search is not None
    if search.whole and move.standing.made == move.standing.asked:
        makers = [run for run in parents if not tx.disk.records[run].makes_no_more]
        _make_children(tx, ledger, job, makers, len(move.proposals))
    stops = {run: (Cause.STOPPED, why) for run, why in move.stops.items()}
    if move.decision.call_off:
        live = [each.id for each in tx.disk.records.values() if each.parent in parents and not each.is_terminal]
        stops |= dict.fromkeys(live, (Cause.BUDGET, move.decision.why))
    ended = _stop(tx, ledger, stops)
    _stock(tx, ledger, parents, move)
    close_children(ledger, tx.now)
    ledger.flush()
    _note(tx, move, is_finished=move.is_last and not family.parents_of(tx.disk, job))
    tx.touched.add("queue")
    return ended


def is_as_it_was(tx: Tx, seen: Standing) -> bool:
    fresh = tx.disk.searches[seen.job]
    return (fresh.state, fresh.wanted, fresh.asked) == (seen.state, seen.wanted, seen.asked)


def add_proposals(tx: Tx, job: int, proposals: Sequence[Proposal]) -> None:
    standing = tx.disk.searches[job]
    tx.disk.proposals[job].extend(proposals)
    tx.disk.searches[job] = replace(standing, asked=standing.asked + len(proposals))


def _make_children(tx: Tx, ledger: Ledger, job: int, parents: Sequence[int], count: int) -> None:
    """Dealt out to the parents in turn, the first parent's first."""
    first = tx.disk.searches[job].made + 1
    for number, run in enumerate(parents):
        for index in range(first + number, first + count, len(parents)):
            family.make_child(tx, ledger, run, index, 0, tx.disk.proposals[job][index - 1])
    if parents:
        tx.disk.searches[job] = replace(tx.disk.searches[job], made=first + count - 1)


def _stop(tx: Tx, ledger: Ledger, stops: Mapping[int, tuple[Cause, str]]) -> list[RunRecord]:
    ledger.load(stops)
    asked = []
    for run, (cause, why) in stops.items():
        record = ledger.get(run)
        assert record is not None
        step = machine.request_cancel(record, cause, "search", tx.now, why)
        if not isinstance(step, Refusal):
            tx.seen.add(f"run asked to end: {cause}")
            after = ledger.apply(step)
            if after.on_node:
                asked.append(after)
    return asked


def _stock(tx: Tx, ledger: Ledger, parents: Sequence[int], move: Move) -> None:
    standing, decision = tx.disk.searches[move.standing.job], move.decision
    waits = bool(move.trouble) or standing.state == PAUSED
    is_open = not decision.is_over or (waits and not decision.call_off)
    planned = max(1, standing.wanted if standing.wanted is not None and is_open else standing.asked)
    ready = 0 if decision.call_off or waits else standing.asked - standing.made
    wrong = decision.why if decision.is_wrong else ""
    for run in parents:
        parent = ledger.get(run)
        assert parent is not None
        if not parent.is_terminal:
            ledger.apply(
                machine.stock(parent, ready=ready, planned=planned, is_open=is_open, now=tx.now, message=wrong)
            )


def _note(tx: Tx, move: Move, *, is_finished: bool) -> None:
    job = move.standing.job
    if is_finished:
        why = move.decision.why or move.closed or _why_closed(tx.disk, job)
        tx.seen.add(f"search over: {why if 'none of' not in why else 'nothing worked'}")
        tx.disk.searches[job] = replace(tx.disk.searches[job], state=OVER, message=why, ended=tx.now)
    elif move.trouble:
        tx.seen.add("search paused: its sampler failed")
        tx.disk.searches[job] = replace(tx.disk.searches[job], state=PAUSED, message=move.trouble)


def _why_closed(disk: Disk, job: int) -> str:
    parents = [record for record in disk.records.values() if record.is_parent and disk.rows[record.id].job == job]
    if any(record.cancel is not None for record in parents):
        return "it was cancelled"
    scripts = [record.message for record in parents if record.cause is not None]
    return scripts[-1] if scripts else "there is nothing left to try"


# --- what people do ---------------------------------------------------------------------------------------------------


def change(tx: Tx, key: str, job: int, asked: Change) -> dict[str, object]:
    """Once per key. Refused for what cannot be done to it any more."""
    disk = tx.disk
    if key in disk.answers:
        tx.seen.add("change known")
        return disk.answers[key]
    standing = disk.searches[job]
    wanted = _runs(standing, asked)
    if asked.runs is None and standing.state == OVER:
        raise Refused(409, "it is over")
    if asked.runs is not None:
        _take_up(tx, standing)
        if standing.deadline is not None and standing.deadline <= tx.now:
            disk.searches[job] = replace(disk.searches[job], deadline=None)
    if asked.concurrent is not None:
        disk.searches[job] = replace(disk.searches[job], concurrent=asked.concurrent or None)
    disk.searches[job] = replace(disk.searches[job], wanted=wanted)
    if asked.action == "pause":
        _restock(tx, job, ready=0)
        disk.searches[job] = replace(disk.searches[job], state=PAUSED, message="a person paused it")
    elif asked.action == "resume":
        _restock(tx, job, ready=standing.asked - standing.made)
        disk.searches[job] = replace(disk.searches[job], state=ACTIVE, message="")
    tx.touched.add("queue")
    answer: dict[str, object] = {}
    disk.answers[key] = answer
    return answer


def _runs(standing: Standing, asked: Change) -> int | None:
    if asked.runs is None:
        return standing.wanted
    if asked.more:
        return (standing.wanted if standing.wanted is not None else standing.asked) + asked.runs
    if asked.runs < standing.asked:
        raise Refused(422, "there are more already")
    return asked.runs


def _take_up(tx: Tx, standing: Standing) -> None:
    job = standing.job
    if standing.state == OVER:
        tx.seen.add("search taken up again")
        tx.disk.searches[job] = replace(standing, state=ACTIVE, message="", ended=None)
    if family.parents_of(tx.disk, job):
        _restock(tx, job, ready=None)
    else:
        family.insert_outer(tx, job, tx.disk.jobs[job])


def _restock(tx: Tx, job: int, *, ready: int | None) -> None:
    """Its parents are open; `ready` None = as many proposals as before."""
    ledger, parents = Ledger(tx), family.parents_of(tx.disk, job)
    ledger.load(parents)
    for run in parents:
        parent = ledger.get(run)
        assert parent is not None
        if not parent.is_cancelled:
            count = parent.remaining if ready is None else ready
            step = machine.stock(parent, ready=count, planned=parent.children_planned, is_open=True, now=tx.now)
            ledger.apply(step)
    ledger.flush()
