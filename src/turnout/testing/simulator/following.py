"""What follows from the end of a run, on the model's disk: as ``engine.following`` and ``store.waiting`` have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from turnout.engine.following import Why, skipped, why_not
from turnout.model.pipeline import Gate
from turnout.model.state import RunState
from turnout.schedule import machine, needs
from turnout.schedule.needs import End, Verdict
from turnout.schedule.record import Refusal, RunRecord
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator.memory import Disk, Ledger, Tx
from turnout.testing.simulator.unmade import give_up_late, insert_stand_in

GOES_ON = (Verdict.WAITS, Verdict.MET)


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
    disk = tx.disk
    if any(record.state is not RunState.COMPLETED for record in ended):
        tx.touched.add("pipelines")
    steps = count_down(disk, [record.id for record in ended])
    _tell_runs(tx, ledger, {record.id: End(record.state, record.reason) for record in ended})
    bad = {disk.rows[record.id].job for record in ended if End(record.state, record.reason).is_bad}
    lost: dict[int, Why] = {}
    met: dict[int, int] = {}
    for needed, (_, left) in sorted(steps.items()):
        if left and needed not in bad:
            continue
        ends = ends_of(disk, ledger, needed)
        for job in waiters(disk, needed):
            verdict = needs.of_step(ends, disk.graph.steps[job].gate, is_over=not left)
            if verdict is Verdict.MET:
                met[job] = met.get(job, 0) + 1
            elif verdict is not Verdict.WAITS:
                lost.setdefault(job, in_vain(disk, verdict, needed))
    for job, why in sorted(lost.items()):
        give_up_step(tx, ledger, job, why)
    for job, count in sorted(met.items()):
        let_step(tx, ledger, job, count)


def waiters(disk: Disk, needed: int) -> list[int]:
    """The steps whose runs wait for the end of this one, or are made after it."""
    steps = disk.graph.steps
    whole = {job for on, job in disk.graph.step_needs if on == needed}
    late = {
        job
        for on, job, over in disk.graph.late_needs
        if on == needed and steps[job].unmade and (over or not steps[needed].made)
    }
    return sorted(whole | late)


def in_vain(disk: Disk, verdict: Verdict, needed: int) -> Why:
    name = disk.graph.steps[needed].name
    return skipped(name) if verdict is Verdict.SKIPPED else Why(f"not all of {name} completed")


def _tell_runs(tx: Tx, ledger: Ledger, ends: Mapping[int, End]) -> None:
    waiting = sorted((needed, run) for needed, run in tx.disk.graph.run_needs if needed in ends)
    ledger.load(run for _, run in waiting)
    for needed, run in waiting:
        record = ledger.get(run)
        if record is None or record.state is not RunState.CREATED:
            continue
        if needs.of_run(ends[needed], Gate(record.gate)) is Verdict.MET:
            let(tx, ledger, run)
        else:
            give_up(tx, ledger, run, why_not(tx.disk.rows[needed].name, ends[needed]))


def count_down(disk: Disk, ended: list[int]) -> dict[int, tuple[list[int], int]]:
    """For each step, which of these runs are its own, and how many are not over yet."""
    mine: dict[int, list[int]] = {}
    for run in sorted(ended):
        mine.setdefault(disk.rows[run].job, []).append(run)
    for job, runs in mine.items():
        disk.graph.steps[job].open -= len(runs)
    return {job: (runs, disk.graph.steps[job].open) for job, runs in mine.items()}


def ends_of(disk: Disk, ledger: Ledger, job: int) -> set[End]:
    """How runs of that step have ended, also in this transaction."""
    mine = (ledger.get(run) or record for run, record in disk.records.items() if disk.rows[run].job == job)
    return {End(record.state, record.reason) for record in mine if record.step == OF_STEP and record.is_terminal}


def let_step(tx: Tx, ledger: Ledger, job: int, count: int) -> None:
    """So many steps that it waits for are over, or made."""
    step = tx.disk.graph.steps[job]
    step.blocked -= count
    if step.blocked:
        return
    if step.unmade:
        tx.seen.add("late step due")
        tx.touched.add("pipelines")
        return
    runs = created_runs(tx.disk, job)
    ledger.load(runs)
    for run in runs:
        let(tx, ledger, run)


def let(tx: Tx, ledger: Ledger, run: int) -> None:
    """One thing less that it waits for."""
    record = ledger.get(run)
    if record is None or record.state is not RunState.CREATED:
        return
    if ledger.apply(machine.unblock(record)).blocked == 0:
        release(tx, ledger, run)


def release(tx: Tx, ledger: Ledger, run: int) -> None:
    """It waits for nothing more."""
    record = ledger.get(run)
    if record is None or record.state is not RunState.CREATED:
        return
    if record.gate:
        tx.seen.add("run at its gate")
        tx.touched.add("pipelines")
        return
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
        give_up(tx, ledger, run, why)


def created_runs(disk: Disk, job: int) -> list[int]:
    """Those of a step that waited for others before this transaction."""
    mine = (record for run, record in disk.records.items() if disk.rows[run].job == job)
    return [record.id for record in mine if record.state is RunState.CREATED]


def give_up(tx: Tx, ledger: Ledger, run: int, why: Why) -> None:
    record = ledger.get(run)
    if record is not None:
        step = machine.abandon(record, why.text, tx.now, why.reason)
        if not isinstance(step, Refusal):
            tx.seen.add(f"run given up: {why.reason}")
            ledger.apply(step)


def settle_in(tx: Tx, ledger: Ledger, job: int, runs: Collection[int]) -> None:
    """Runs that were just made: what of that they wait for is over already? As ``engine.waiting``."""
    disk, step = tx.disk, tx.disk.graph.steps[job]
    whole = sorted(on for on, each in disk.graph.step_needs if each == job)
    over = {on: not disk.graph.steps[on].open and not disk.graph.steps[on].unmade for on in whole}
    step.blocked = sum(not each for each in over.values())
    verdicts = {on: needs.of_step(ends_of(disk, ledger, on), step.gate, is_over=over[on]) for on in whole}
    lost_to = next((on for on in whole if verdicts[on] not in GOES_ON), None)
    ledger.load(runs)
    free: list[int] = []
    lost: dict[int, Why] = {}
    for run in runs:
        mine = sorted(on for on, each in disk.graph.run_needs if each == run)
        ends = {on: _end(disk.records[on]) for on in mine}
        record = ledger.get(run)
        assert record is not None
        blocked = sum(end is None for end in ends.values()) + (step.blocked > 0)
        ledger.apply(machine.block(record, blocked))
        bad = next((on for on in mine if needs.of_run(ends[on], step.gate) not in GOES_ON), None)
        if lost_to is not None:
            lost[run] = in_vain(disk, verdicts[lost_to], lost_to)
        elif bad is not None and (end := ends[bad]) is not None:
            tx.seen.add("late run made in vain")
            lost[run] = why_not(disk.rows[bad].name, end)
        elif not blocked:
            free.append(run)
    for run, why in lost.items():
        give_up(tx, ledger, run, why)
    for run in free:
        release(tx, ledger, run)
    settle(tx, ledger)


def _end(record: RunRecord) -> End | None:
    return End(record.state, record.reason) if record.is_terminal else None
