"""What a round of a search writes: proposals, the parents that wait with them, runs that shall end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from turnout.engine.children import Planned, command_with, make_children
from turnout.engine.following import settle
from turnout.engine.study import Study
from turnout.model.state import RunState
from turnout.plugin.sampler import Proposal
from turnout.schedule import machine
from turnout.schedule.record import Cause, Refusal, RunRecord, Stage
from turnout.search.budget import Decision
from turnout.store import searches
from turnout.store.ledger import Ledger
from turnout.store.queue import count_children, entries_of, live_children, open_parents
from turnout.store.search_runs import Parents
from turnout.store.searches import Standing
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What was decided from `standing`, when its outer runs were as in `parents`: new `proposals`, attempts to end
    with the reasons (`stops`), whether it makes no more; `trouble`: why it has to be paused. `frees`: runs have ended,
    for which other targets wait."""

    standing: Standing
    study: Study
    proposals: Sequence[Proposal]
    decision: Decision
    stops: Mapping[Attempt, str]
    parents: Parents
    trouble: str = ""
    frees: bool = False

    @property
    def is_anything(self) -> bool:
        """Whether there is something to write down, or somebody to wake."""
        is_known = self.decision.why == self.study.closed and Stage.OPEN not in self.parents.stages
        is_news = self.decision.is_over and not is_known
        is_trouble = bool(self.trouble) and self.trouble != self.standing.message
        return bool(self.proposals or self.stops or is_trouble or not self.parents.stages or is_news or self.frees)


def make(tx: Tx, move: Move) -> list[RunRecord] | None:
    """Writes it, and gives the runs that are on a node and shall end. None = the search is not as it was; nothing was
    written."""
    job = move.standing.job
    fresh = searches.standing(tx.connection, job, lock=True)
    if fresh is None or not _is_as_it_was(fresh, move.standing):
        return None
    if move.proposals:
        searches.add_proposals(tx, fresh, [(each.params, each.memo) for each in move.proposals])
    ledger = Ledger(tx)
    parents = open_parents(tx, job)
    ledger.load(parents)
    made = fresh.made
    is_at_once = move.study.search.whole or move.study.job.spec.direct
    if is_at_once and fresh.made == fresh.asked:  # what nobody could make before, nodes take one by one
        made += _make_children(tx, ledger, move, [run for run in parents if _makes_more(ledger, run)])
    after = replace(fresh, asked=fresh.asked + len(move.proposals), made=made)
    waits = bool(move.trouble) or fresh.state == searches.PAUSED
    is_open = not move.decision.is_over or (waits and not move.decision.call_off)
    left = 0 if move.decision.call_off else after.ready
    planned = max(1, after.wanted if after.wanted is not None and is_open else made + left)
    ended = _stop(tx, ledger, move, parents)
    for run in parents:
        parent = ledger.get(run)
        if parent is not None and not parent.is_terminal:
            stays = is_open or _is_held(parent)
            wrong = move.decision.why if move.decision.is_wrong else ""
            ready = 0 if waits else left
            ledger.apply(machine.stock(parent, ready=ready, planned=planned, is_open=stays, now=tx.now, message=wrong))
    settle(tx, ledger)
    ledger.flush()
    is_finished = all(parent.is_terminal for run in parents if (parent := ledger.get(run)) is not None)
    if is_finished and move.parents.stages:  # its sampler has yet to hear of what ended meanwhile
        tx.touch(f"search:{job}")
    _note(tx, move, planned, is_finished=is_finished and not move.parents.stages)
    tx.touch("queue", "runs")
    return ended


def close(tx: Tx, standing: Standing) -> None:
    """It is over, and has nobody to be told of it. Nothing happens if it is not as it was, or not over."""
    fresh = searches.standing(tx.connection, standing.job, lock=True)
    if fresh is not None and _is_as_it_was(fresh, standing) and not open_parents(tx, standing.job):
        why = searches.why_closed(tx.connection, standing.job)
        searches.change(tx, standing.job, state=searches.OVER, message=why, ended=tx.now)


def _is_as_it_was(fresh: Standing, standing: Standing) -> bool:
    """But for the runs that nodes have taken meanwhile."""
    return replace(fresh, made=standing.made) == standing


def _note(tx: Tx, move: Move, planned: int, *, is_finished: bool) -> None:
    """What the search's own row says now."""
    job = move.standing.job
    searches.plan(tx, job, planned)
    if is_finished:
        why = move.decision.why or move.study.closed or searches.why_closed(tx.connection, job)
        searches.change(tx, job, state=searches.OVER, message=why, ended=tx.now)
    elif move.trouble:
        searches.change(tx, job, state=searches.PAUSED, message=move.trouble)


def _makes_more(ledger: Ledger, run: int) -> bool:
    parent = ledger.get(run)
    return parent is not None and not parent.makes_no_more and not _is_held(parent)


def _is_held(parent: RunRecord) -> bool:
    """It makes no run before it is let go, and does not end before."""
    return parent.state is RunState.CREATED


def _stop(tx: Tx, ledger: Ledger, move: Move, parents: Sequence[int]) -> list[RunRecord]:
    """Asks for the end of what was judged, if that is still what its node has, and when all is called off of the rest;
    gives those that nodes have to end."""
    ledger.load(run for run, _ in move.stops)
    records = ((ledger.get(run), attempt, why) for (run, attempt), why in move.stops.items())
    wanted = [(each, Cause.STOPPED, why) for each, attempt, why in records if each and each.is_attempt(attempt)]
    if move.decision.call_off:
        live = sorted(live_children(tx, set(parents)) - {record.id for record, *_ in wanted})
        ledger.load(live)
        wanted += [(each, Cause.BUDGET, move.decision.why) for run in live if (each := ledger.get(run)) is not None]
    asked: list[RunRecord] = []
    for record, cause, why in wanted:
        step = machine.request_cancel(record, cause, "search", tx.now, why)
        if not isinstance(step, Refusal):
            after = ledger.apply(step)
            if after.on_node:
                asked.append(after)
    return asked


def _make_children(tx: Tx, ledger: Ledger, move: Move, parents: Sequence[int]) -> int:
    """All runs of a search that is made as a whole, or whose runs are launched one by one, dealt out to these parents
    in turn; how many that are."""
    entries = entries_of(tx, parents)
    if not entries or not move.proposals:
        return 0
    job, search = move.study.job, move.study.search
    first = count_children(tx, job.id, len(move.proposals))
    for number, entry in enumerate(entries):
        mine = list(enumerate(move.proposals, first))[number :: len(entries)]
        planned = [Planned(index, command_with(entry, search, dict(each.params)), 0) for index, each in mine]
        make_children(tx, ledger, entry, job, planned)
    return len(move.proposals)
