"""What a round of a search writes: proposals, the parents that wait with them, runs that shall end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from turnout.engine.children import Planned, command_with, make_children
from turnout.engine.report import close_children, touch_changed
from turnout.engine.study import Study
from turnout.plugin.sampler import Proposal
from turnout.schedule import machine
from turnout.schedule.record import Cause, Refusal, RunRecord, Stage
from turnout.search.budget import Decision
from turnout.store import searches
from turnout.store.ledger import Ledger
from turnout.store.queue import count_children, entries_of, live_children, open_parents
from turnout.store.searches import Standing
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What was decided from `standing`: new `proposals`, runs to end with the reasons (`stops`), whether it makes no
    more; `trouble`: why it has to be paused. `stages` are those of its parents that have not ended."""

    standing: Standing
    study: Study
    proposals: Sequence[Proposal]
    decision: Decision
    stops: Mapping[int, str]
    trouble: str = ""
    stages: Collection[int] = ()

    @property
    def is_anything(self) -> bool:
        is_known = self.decision.why == self.study.closed and Stage.OPEN not in self.stages
        is_news = self.decision.is_over and not is_known
        return bool(self.proposals or self.stops or self.trouble or not self.stages or is_news)


def make(tx: Tx, move: Move) -> list[RunRecord] | None:
    """Writes it, and gives the runs that are on a node and shall end. None = the search is not as it was; nothing was
    written."""
    job = move.standing.job
    fresh = searches.standing(tx.connection, job, lock=True)
    if fresh is None or (fresh.state, fresh.wanted, fresh.asked) != _guard(move.standing):
        return None
    if move.proposals:
        searches.add_proposals(tx, fresh, [(each.params, each.memo) for each in move.proposals])
    ledger = Ledger(tx)
    parents = open_parents(tx, job)
    ledger.load(parents)
    asked = fresh.asked + len(move.proposals)
    made = fresh.made
    is_at_once = move.study.search.whole or move.study.job.spec.direct
    if is_at_once and fresh.made == fresh.asked:  # what nobody could make before, nodes take one by one
        made += _make_children(tx, ledger, move, [run for run in parents if _makes_more(ledger, run)])
    waits = bool(move.trouble) or fresh.state == searches.PAUSED
    is_open = not move.decision.is_over or (waits and not move.decision.call_off)
    planned = max(1, fresh.wanted if fresh.wanted is not None and is_open else asked)
    ready = 0 if move.decision.call_off or waits else asked - made
    stops: dict[int, tuple[Cause, str]] = {run: (Cause.STOPPED, why) for run, why in move.stops.items()}
    if move.decision.call_off:
        stops |= dict.fromkeys(sorted(live_children(tx, set(parents))), (Cause.BUDGET, move.decision.why))
    ended = _stop(tx, ledger, stops)
    wrong = move.decision.why if move.decision.is_wrong else ""
    for run in parents:
        parent = ledger.get(run)
        if parent is not None and not parent.is_terminal:
            step = machine.stock(parent, ready=ready, planned=planned, is_open=is_open, now=tx.now, message=wrong)
            ledger.apply(step)
    close_children(ledger, tx.now)
    touch_changed(tx, ledger)
    ledger.flush()
    is_finished = all(parent.is_terminal for run in parents if (parent := ledger.get(run)) is not None)
    if is_finished and move.stages:  # its sampler has yet to hear of what ended meanwhile
        tx.touch(f"search:{job}")
    _note(tx, move, planned, is_finished=is_finished and not move.stages)
    tx.touch("queue", "runs")
    return ended


def _guard(standing: Standing) -> tuple[str, int | None, int]:
    return standing.state, standing.wanted, standing.asked


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
    return parent is not None and not parent.makes_no_more


def _stop(tx: Tx, ledger: Ledger, stops: Mapping[int, tuple[Cause, str]]) -> list[RunRecord]:
    ledger.load(stops)
    asked: list[RunRecord] = []
    for run, (cause, why) in stops.items():
        record = ledger.get(run)
        if record is None:
            continue
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
