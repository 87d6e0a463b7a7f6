"""What follows from the end of a run, on the model's disk: as ``engine.following`` and ``store.pipelines`` have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from turnout.engine.following import Why
from turnout.model.state import Reason, RunState
from turnout.schedule import machine
from turnout.schedule.record import Refusal, RunRecord
from turnout.testing.simulator.memory import Disk, Ledger, Tx
from turnout.testing.simulator.unmade import give_up_late, insert_stand_in

_WORDS = {RunState.FAILED: "failed", RunState.CANCELLED: "was cancelled", RunState.STOPPED: "was stopped"}


def settle(tx: Tx, ledger: Ledger) -> None:
    """Tells parents, and who waits for runs of steps, and so on with what ends for that."""
    told: set[int] = set()
    while fresh := [record for record in ledger.ended() if record.id not in told]:
        told.update(record.id for record in fresh)
        close_children(ledger, fresh, tx.now)
        of_steps = [record for record in fresh if record.step]
        if of_steps:
            tell(tx, ledger, of_steps)
    if ledger.has_requeued():
        tx.touched.add("queue")


def close_children(ledger: Ledger, ended: list[RunRecord], now: float) -> None:
    """Tells the parents of those children that just ended."""
    for child in ended:
        if child.parent is not None:
            ledger.load([child.parent])
            parent = ledger.get(child.parent)
            assert parent is not None
            if not parent.is_terminal:
                ledger.apply(machine.child_ended(parent, child, now))


def tell(tx: Tx, ledger: Ledger, ended: list[RunRecord]) -> None:
    """Who waits for runs of steps comes nearer to the queue, or is given up."""
    disk, bad = tx.disk, [record for record in ended if record.state is not RunState.COMPLETED]
    if bad:
        tx.touched.add("pipelines")
    why = {record.id: _why(disk.rows[record.id].name, record) for record in bad}
    _tell_runs(tx, ledger, {record.id for record in ended}, why)
    steps = count_down(disk, [record.id for record in ended])
    needs = sorted((needed, job) for needed, job in disk.graph.step_needs if needed in steps)
    for needed in sorted({needed for needed, _ in needs}):
        runs, left = steps[needed]
        waiting = [job for on, job in needs if on == needed]
        reason = next((why[run] for run in runs if run in why), None)
        is_well = reason is None and left == 0 and not has_failed(disk, needed)
        for job in waiting:
            bears_failures = disk.graph.steps[job].bears_failures
            if is_well or (bears_failures and left == 0):
                _let_step(tx, ledger, job)
            elif reason is not None and not bears_failures:
                give_up_step(tx, ledger, job, reason)


def _why(name: str, record: RunRecord) -> Why:
    if record.reason is Reason.CONDITION:
        return Why(f"{name} was skipped", Reason.CONDITION)
    return Why(f"{name} {_WORDS[record.state]}")


def _tell_runs(tx: Tx, ledger: Ledger, ended: Collection[int], why: Mapping[int, Why]) -> None:
    waiting = sorted((needed, run) for needed, run in tx.disk.graph.run_needs if needed in ended)
    ledger.load(run for _, run in waiting)
    for needed, run in waiting:
        if needed in why:
            _give_up(tx, ledger, run, why[needed])
        else:
            _let(tx, ledger, run)


def count_down(disk: Disk, ended: list[int]) -> dict[int, tuple[list[int], int]]:
    """For each step, which of these runs are its own, and how many are not over yet."""
    mine: dict[int, list[int]] = {}
    for run in sorted(ended):
        mine.setdefault(disk.rows[run].job, []).append(run)
    for job, runs in mine.items():
        disk.graph.steps[job].open -= len(runs)
    return {job: (runs, disk.graph.steps[job].open) for job, runs in mine.items()}


def has_failed(disk: Disk, job: int) -> bool:
    """As committed before this transaction."""
    mine = (record for record in disk.records.values() if record.step and disk.rows[record.id].job == job)
    return any(record.is_terminal and record.state is not RunState.COMPLETED for record in mine)


def _let_step(tx: Tx, ledger: Ledger, job: int) -> None:
    step = tx.disk.graph.steps[job]
    step.blocked -= 1
    if step.blocked:
        return
    if step.unmade:
        tx.seen.add("late step due")
        tx.touched.add("pipelines")
        return
    runs = created_runs(tx.disk, job)
    ledger.load(runs)
    for run in runs:
        _let(tx, ledger, run)


def _let(tx: Tx, ledger: Ledger, run: int) -> None:
    record = ledger.get(run)
    if record is None or record.state is not RunState.CREATED:
        return
    record = ledger.apply(machine.unblock(record))
    if record.blocked == 0:
        tx.seen.add("run let into the queue")
        ledger.apply(machine.enqueue(record, tx.now))
        tx.touched.add("queue")


def give_up_step(tx: Tx, ledger: Ledger, job: int, why: Why) -> None:
    """Its runs that wait for others are given up; where they are not made yet, one stands for them."""
    runs = created_runs(tx.disk, job)
    if give_up_late(tx.disk, job):
        tx.seen.add("late step given up")
        runs += insert_stand_in(tx, job)
    ledger.load(runs)
    for run in runs:
        _give_up(tx, ledger, run, why)


def created_runs(disk: Disk, job: int) -> list[int]:
    """Those of a step that waited for others before this transaction."""
    mine = (record for run, record in disk.records.items() if disk.rows[run].job == job)
    return [record.id for record in mine if record.state is RunState.CREATED]


def _give_up(tx: Tx, ledger: Ledger, run: int, why: Why) -> None:
    record = ledger.get(run)
    if record is not None:
        step = machine.abandon(record, why.text, tx.now, why.reason)
        if not isinstance(step, Refusal):
            tx.seen.add(f"run given up: {why.reason}")
            ledger.apply(step)
