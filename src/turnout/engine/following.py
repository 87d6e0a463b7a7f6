"""What follows from the end of a run: for its parent, and for the runs of a pipeline that wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from turnout.engine.carrying import carry
from turnout.engine.changing import begin
from turnout.model.state import Reason, RunState
from turnout.schedule import machine
from turnout.schedule.record import Refusal, RunRecord
from turnout.store import pipelines
from turnout.store.ledger import Ledger
from turnout.store.queue import names_of
from turnout.store.writer import Tx


def settle(tx: Tx, ledger: Ledger) -> None:
    """Tells those whom the ends in this transaction concern, and so on with what ends for that. Wakes who waits for the
    end of a job, and nodes when there is something to take again. Call it before the ledger is flushed."""
    is_any = False
    while fresh := ledger.newly_ended():
        is_any = True
        _tell_parents(ledger, fresh, tx.now)
        of_steps = [record for record in fresh if record.step]
        if of_steps:
            _Followers(tx, ledger).tell(of_steps)
    if is_any:
        tx.touch("jobs", "runs")
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
    """For who waits for this run."""
    return Why(f"{name} was skipped", Reason.CONDITION)


def give_up_steps(tx: Tx, ledger: Ledger, whys: Mapping[int, Why]) -> None:
    """The runs of these steps that wait for others are given up; where they are not made yet, one stands for them."""
    late = pipelines.give_up_late(tx, whys.keys())
    runs = pipelines.created_runs(tx, whys.keys())
    runs += pipelines.insert_stand_ins(tx, [step for step in whys if step in late]) if late else []
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


class _Followers:
    """What waits for runs of steps. One that is over well lets them come nearer to the queue; else they are given up,
    and what waits for them in turn."""

    def __init__(self, tx: Tx, ledger: Ledger) -> None:
        self._tx = tx
        self._ledger = ledger

    def tell(self, ended: list[RunRecord]) -> None:
        bad = [record for record in ended if record.state is not RunState.COMPLETED]
        if bad:
            self._tx.touch("pipelines")
        names = names_of(self._tx, [record.id for record in bad])
        why = {record.id: _why(names[record.id], record) for record in bad}
        steps = pipelines.count_down(self._tx, [record.id for record in ended])  # first: who resumes has to wait for it
        self._tell_runs([record.id for record in ended], why)
        news = [step for step, (runs, left) in steps.items() if not left or not why.keys().isdisjoint(runs)]
        waiting = pipelines.needed_steps(self._tx, news)
        unwell = pipelines.failed_among(self._tx, [step for step in waiting if not steps[step].left])
        met: Counter[int] = Counter()
        lost: dict[int, Why] = {}
        for needed, waiters in waiting.items():
            runs, left = steps[needed]
            reason = next((why[run] for run in runs if run in why), None)
            is_well = reason is None and left == 0 and needed not in unwell
            for step, bears_failures in waiters:
                if is_well or (bears_failures and left == 0):
                    met[step] += 1
                elif not bears_failures and (reason is not None or left == 0):
                    lost.setdefault(step, reason or Why("not all that it waits for completed"))
        if lost:
            give_up_steps(self._tx, self._ledger, lost)
        self._let_steps(met)

    def _tell_runs(self, ended: list[int], why: dict[int, Why]) -> None:
        waiting = pipelines.dependants(self._tx, ended)
        self._ledger.load(run for _, run in waiting)
        free = []
        for needed, run in waiting:
            if needed in why:
                give_up(self._ledger, run, why[needed], self._tx.now)
            elif self._is_freed(run):
                free.append(run)
        self._release(free)

    def _let_steps(self, met: Mapping[int, int]) -> None:
        """So many steps that each of these waits for are over well."""
        left = pipelines.count_down_steps(self._tx, met)
        free = [step for step, found in left.items() if not found.left]
        if any(left[step].is_late for step in free):
            self._tx.touch("pipelines")
        runs = [run for run, _ in pipelines.created_runs(self._tx, [step for step in free if not left[step].is_late])]
        self._ledger.load(runs)
        self._release([run for run in runs if self._is_freed(run)])

    def _is_freed(self, run: int) -> bool:
        """One thing less that it waits for; whether that was the last."""
        record = self._ledger.get(run)
        if record is None or record.state is not RunState.CREATED:
            return False
        return self._ledger.apply(machine.unblock(record)).blocked == 0

    def _release(self, runs: list[int]) -> None:
        """They begin, or have begun in an earlier pipeline."""
        carried = carry(self._tx, self._ledger, runs)
        for run in runs:
            record = self._ledger.get(run)
            if record is None or run in carried:
                continue
            if record.stage:
                begin(self._tx, [run])
            self._ledger.apply(machine.enqueue(record, self._tx.now))
            self._tx.touch("queue")


def _why(name: str, record: RunRecord) -> Why:
    if record.reason is Reason.CONDITION:
        return skipped(name)
    return Why(f"{name} {_WORDS.get(record.state, record.state)}")


#: How it is said that a run has ended so.
_WORDS = {RunState.FAILED: "failed", RunState.CANCELLED: "was cancelled", RunState.STOPPED: "was stopped"}
