"""What follows from the end of a run: for its parent, and for the runs of a pipeline that wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from turnout.engine.carrying import carry
from turnout.engine.changing import begin
from turnout.model.pipeline import Gate
from turnout.model.state import Reason, RunState
from turnout.schedule import machine, needs
from turnout.schedule.needs import End, Verdict
from turnout.schedule.record import Refusal, RunRecord
from turnout.store import late, waiting
from turnout.store.ledger import Ledger
from turnout.store.queue import names_of
from turnout.store.writer import Tx


def settle(tx: Tx, ledger: Ledger) -> None:
    """Tells those whom the ends in this transaction concern, and so on with what ends for that. Wakes who waits for the
    end of a job, and nodes when there is something to take again. Call it before the ledger is flushed."""
    followers = None
    while fresh := ledger.newly_ended():
        tx.touch("jobs", "runs")
        _tell_parents(ledger, fresh, tx.now)
        of_steps = [record for record in fresh if record.step]
        if of_steps:
            followers = followers or _Followers(tx, ledger)
            followers.tell(of_steps)
    if ledger.has_requeued():
        tx.touch("queue")


def _tell_parents(ledger: Ledger, ended: Iterable[RunRecord], now: float) -> None:
    """Who looks after searches hears of one that is over, and of a run that failed."""
    children = [record for record in ended if record.parent is not None]
    ledger.load(record.parent for record in children if record.parent is not None)
    for child in children:
        parent = ledger.get(child.parent) if child.parent is not None else None
        if parent is not None and not parent.is_terminal:
            after = ledger.apply(machine.child_ended(parent, child, now))
            if after.stage and (after.is_terminal or child.state is RunState.FAILED):
                ledger.touch("searches")


class Why(NamedTuple):
    """Why a run will not begin: something it waits for did not end well (DEPENDENCY), a condition does not hold, or it
    could not be made of what was left before it (UNMADE)."""

    text: str
    reason: Reason = Reason.DEPENDENCY


def skipped(name: str) -> Why:
    """For who waits for this run, or this step."""
    return Why(f"{name} was skipped", Reason.CONDITION)


def give_up_steps(tx: Tx, ledger: Ledger, whys: Mapping[int, Why]) -> None:
    """The runs of these steps that wait for others are given up; where they are not made yet, one stands for them."""
    unmade = late.give_up_late(tx, whys.keys())
    runs = waiting.created_runs(tx, whys.keys())
    runs += late.insert_stand_ins(tx, sorted(unmade)) if unmade else []
    ledger.load(run for run, _ in runs)
    of_steps: dict[int, list[int]] = {step: [] for step in whys}
    for run, step in runs:
        of_steps[step].append(run)
    for step, mine in of_steps.items():
        for run in mine:
            give_up(ledger, run, whys[step], tx.now)


def give_up(ledger: Ledger, run: int, why: Why, now: float) -> None:
    """A run that was loaded and waits for others; nothing happens to any other."""
    record = ledger.get(run)
    if record is not None:
        step = machine.abandon(record, why.text, now, why.reason)
        if not isinstance(step, Refusal):
            ledger.apply(step)


def release(tx: Tx, ledger: Ledger, runs: Sequence[int]) -> None:
    """Loaded runs that wait for nothing more: they begin, or have begun in an earlier pipeline, or somebody is to look
    at them before. Settle the ledger afterwards."""
    created = [run for run in runs if (record := ledger.get(run)) is not None and record.state is RunState.CREATED]
    gated = {run for run in created if (record := ledger.get(run)) is not None and record.gate}
    if gated:
        tx.touch("pipelines")
    free = [run for run in created if run not in gated]
    carried = carry(tx, ledger, free)
    for run in free:
        record = ledger.get(run)
        if record is None or run in carried:
            continue
        if record.stage:
            begin(tx, [run])
        ledger.apply(machine.enqueue(record, tx.now))
        tx.touch("queue")


def let_steps(tx: Tx, ledger: Ledger, met: Mapping[int, int]) -> None:
    """So many steps that each of these waits for are over, or made."""
    left = waiting.count_down_steps(tx, met)
    free = [step for step, found in left.items() if not found.left]
    if any(left[step].is_late for step in free):
        tx.touch("pipelines")
    runs = [run for run, _ in waiting.created_runs(tx, [step for step in free if not left[step].is_late])]
    ledger.load(runs)
    release(tx, ledger, [run for run in runs if _is_freed(ledger, run)])


def _is_freed(ledger: Ledger, run: int) -> bool:
    """One thing less that it waits for; whether that was the last."""
    record = ledger.get(run)
    if record is None or record.state is not RunState.CREATED:
        return False
    return ledger.apply(machine.unblock(record)).blocked == 0


class _Followers:
    """What waits for runs of steps. One that is over well lets them come nearer to the queue; else they are given up,
    and what waits for them in turn. It remembers what it was told in this transaction, which is not written yet."""

    def __init__(self, tx: Tx, ledger: Ledger) -> None:
        self._tx = tx
        self._ledger = ledger
        self._ends: dict[int, set[End]] = {}
        """of steps"""
        self._whys: dict[int, Why] = {}
        """of steps with a bad end, one for each"""

    def tell(self, ended: list[RunRecord]) -> None:
        ends = {record.id: End(record.state, record.reason) for record in ended}
        bad = [record for record in ended if record.state is not RunState.COMPLETED]
        if bad:
            self._tx.touch("pipelines")
        names = names_of(self._tx, [record.id for record in bad])
        whys = {record.id: why_not(names[record.id], ends[record.id]) for record in bad}
        steps = waiting.count_down(self._tx, ends)  # first: who resumes, or makes runs, has to wait for it
        self._tell_runs(ends, whys)
        news: dict[int, int] = {}
        for step, (runs, left) in steps.items():
            self._ends.setdefault(step, set()).update(ends[run] for run in runs)
            bad_ones = [run for run in runs if ends[run].is_bad]
            if bad_ones:
                self._whys.setdefault(step, whys[bad_ones[0]])
            if bad_ones or not left:
                news[step] = left
        self._tell_steps(news)

    def _tell_runs(self, ends: Mapping[int, End], whys: Mapping[int, Why]) -> None:
        dependants = waiting.dependants(self._tx, ends)
        self._ledger.load(run for _, run in dependants)
        free = []
        for needed, run in dependants:
            record = self._ledger.get(run)
            if record is None or record.state is not RunState.CREATED:
                continue
            if needs.of_run(ends[needed], Gate(record.gate)) is not Verdict.MET:
                give_up(self._ledger, run, whys[needed], self._tx.now)
            elif _is_freed(self._ledger, run):
                free.append(run)
        release(self._tx, self._ledger, free)

    def _tell_steps(self, left: Mapping[int, int]) -> None:
        """Steps that are over, or have had a bad end: so many of their runs are not over."""
        waiters = waiting.waiters(self._tx, left)
        before = waiting.ends_of(self._tx, waiters)
        met: Counter[int] = Counter()
        lost: dict[int, Why] = {}
        for needed, all_waiters in sorted(waiters.items()):
            ends = self._ends[needed] | before.get(needed, set())
            for step, gate in all_waiters:
                verdict = needs.of_step(ends, gate, is_over=not left[needed])
                if verdict is Verdict.MET:
                    met[step] += 1
                elif verdict is not Verdict.WAITS:
                    lost.setdefault(step, self._whys.get(needed) or in_vain(self._tx, verdict, needed))
        if lost:
            give_up_steps(self._tx, self._ledger, lost)
        let_steps(self._tx, self._ledger, met)


def in_vain(tx: Tx, verdict: Verdict, step: int) -> Why:
    """For runs that all runs of this step were needed for."""
    name = waiting.name_of(tx, step)
    return skipped(name) if verdict is Verdict.SKIPPED else Why(f"not all of {name} completed")


def why_not(name: str, end: End) -> Why:
    """For a run that this one was needed for, which did not complete."""
    return skipped(name) if end.is_skipped else Why(f"{name} {_WORDS.get(end.state, end.state)}")


#: How it is said that a run has ended so.
_WORDS = {RunState.FAILED: "failed", RunState.CANCELLED: "was cancelled", RunState.STOPPED: "was stopped"}
