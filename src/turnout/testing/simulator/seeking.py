"""What is written of searches, on the model's disk: as ``engine.proposing`` and ``engine.changing`` have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnout.engine.changing import Change
from turnout.model.search import Elsewhere
from turnout.plugin.sampler import Proposal
from turnout.schedule import machine
from turnout.schedule.record import Cause, Refusal, RunRecord
from turnout.search.budget import Decision
from turnout.store.searches import ACTIVE, OVER, PAUSED, Standing
from turnout.testing.simulator import family, following
from turnout.testing.simulator.link import Refused
from turnout.testing.simulator.memory import Disk, Ledger, Tx
from turnout.wire.messages import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """As ``engine.proposing`` has it. `is_last`: all its parents were over when its sampler was told."""

    standing: Standing
    proposals: Sequence[Proposal]
    decision: Decision
    stops: Mapping[Attempt, str]
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
    current = {run: why for (run, attempt), why in move.stops.items() if tx.disk.records[run].is_attempt(attempt)}
    stops = {run: (Cause.STOPPED, why) for run, why in current.items()}
    if move.decision.call_off:
        live = [each.id for each in tx.disk.records.values() if each.parent in parents and not each.is_terminal]
        stops |= dict.fromkeys((run for run in live if run not in stops), (Cause.BUDGET, move.decision.why))
    ended = _stop(tx, ledger, stops)
    _stock(tx, ledger, parents, move)
    following.settle(tx, ledger)
    ledger.flush()
    _note(tx, move, is_finished=move.is_last and not family.parents_of(tx.disk, job))
    tx.touched.add("queue")
    return ended


def is_as_it_was(tx: Tx, seen: Standing) -> bool:
    return replace(tx.disk.searches[seen.job], made=seen.made) == seen


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
    left = 0 if decision.call_off else standing.ready
    planned = max(1, standing.wanted if standing.wanted is not None and is_open else standing.made + left)
    ready = 0 if waits else left
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
    after = replace(standing, wanted=wanted)
    if asked.runs is not None:
        after = _taken_up(tx, after)
        _add_parents(tx, job)
    if asked.concurrent is not None:
        after = replace(after, concurrent=asked.concurrent or None)
    if asked.action == "pause":
        after = replace(after, state=PAUSED, message="a person paused it")
    elif asked.action == "resume":
        after = replace(after, state=ACTIVE, message="")
    if asked.runs is not None or asked.action is not None:
        _restock(tx, after)
    disk.searches[job] = after
    tx.touched.add("queue")
    answer: dict[str, object] = {}
    disk.answers[key] = answer
    return answer


def _runs(standing: Standing, asked: Change) -> int | None:
    if asked.runs is None:
        return standing.wanted
    if asked.more:
        return (standing.wanted if standing.wanted is not None else standing.made) + asked.runs
    if asked.runs < standing.made:
        raise Refused(422, "there are more already")
    return asked.runs


def _taken_up(tx: Tx, standing: Standing) -> Standing:
    is_late = standing.deadline is not None and standing.deadline <= tx.now
    after = replace(standing, forgiven=standing.made, deadline=None if is_late else standing.deadline)
    if standing.state != OVER:
        return after
    tx.seen.add("search taken up again")
    return replace(after, state=ACTIVE, message="", ended=None)


def _add_parents(tx: Tx, job: int) -> None:
    going = [run for run in family.parents_of(tx.disk, job) if not tx.disk.records[run].makes_no_more]
    spec, served = tx.disk.jobs[job], {tx.disk.rows[run].target for run in going}
    missing = [target for target in (spec.target, *(each.target for each in spec.also)) if target not in served]
    if missing and going:
        tx.seen.add("search taken up again at one target")
    if missing:
        also = tuple(Elsewhere(target=target) for target in missing[1:])
        family.insert_outer(tx, job, replace(spec, target=missing[0], also=also))


def _restock(tx: Tx, standing: Standing) -> None:
    """Its parents are open, with what was proposed; with nothing while it is paused."""
    ledger, parents = Ledger(tx), family.parents_of(tx.disk, standing.job)
    ledger.load(parents)
    ready = 0 if standing.state == PAUSED else standing.ready
    for run in parents:
        parent = ledger.get(run)
        assert parent is not None
        if not parent.is_cancelled:
            step = machine.stock(parent, ready=ready, planned=parent.children_planned, is_open=True, now=tx.now)
            ledger.apply(step)
    ledger.flush()
