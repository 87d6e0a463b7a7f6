"""What people and lost nodes do to runs: cancel them, give them up."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from turnout.engine.changing import begin
from turnout.engine.following import Why, give_up_steps, settle
from turnout.model.state import RunState
from turnout.schedule import machine
from turnout.schedule.record import Cause, Lost, Refusal, Returned, RunRecord
from turnout.store.late import late_steps
from turnout.store.ledger import Ledger
from turnout.store.queue import live_children, live_runs, names_of, runs_of_agent
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel did: ``cancelled`` at once, ``requested`` from its node, or nothing: it was ``over`` already.

    `before` and `state` are the run's states before and after.
    """

    name: str
    outcome: str
    before: RunState
    state: RunState
    run: int
    attempt: int
    agent: int | None


def cancel(
    tx: Tx, runs: Iterable[int], *, by: str, stopped: str | None = None, job: int | None = None,
    everything: bool = False,
) -> list[Cancelled]:  # fmt: skip
    """Cancels these runs and the children of parents among them; all of a `job`, and of its steps, also those that are
    not made yet; or of all jobs. Idempotent. `stopped`: why they are stopped early, which is how they end then."""
    cause = Cause.CANCELLED if stopped is None else Cause.STOPPED
    wanted = set(runs)
    ledger = Ledger(tx)
    if job is not None or everything:
        unmade = late_steps(tx, job)
        give_up_steps(tx, ledger, dict.fromkeys(unmade, Why(f"it was cancelled by {by}")))
        wanted.update(live_runs(tx.connection, job=job))  # also those that were made meanwhile
    ledger.load(wanted)
    wanted |= live_children(tx, wanted)  # now that their parents are locked, no more are made
    ledger.load(wanted)
    given_up = {record.id for record in ledger.ended()}  # just now: they waited
    before = {
        run: record._replace(state=RunState.CREATED) if run in given_up else record
        for run in sorted(wanted)
        if (record := ledger.get(run)) is not None
    }
    for run in sorted(before.keys() - given_up):
        step = machine.request_cancel(before[run], cause, by, tx.now, stopped or "")
        if not isinstance(step, Refusal):
            ledger.apply(step)
    settle(tx, ledger)
    ledger.flush()
    names = names_of(tx, before)
    return [_describe(names[run], record, ledger.get(run)) for run, record in before.items()]


def preempt(tx: Tx, runs: Iterable[int], *, by: str) -> list[RunRecord]:
    """Asks for an end of the current attempts of these runs; gives those that are on a node and will end so.
    Idempotent."""
    ledger = Ledger(tx)
    ledger.load(runs)
    asked = []
    for run in sorted(set(runs)):
        record = ledger.get(run)
        if record is None:
            continue
        step = machine.request_preempt(record, by)
        if not isinstance(step, Refusal):
            record = ledger.apply(step)
        if record.on_node and record.cancel is Cause.PREEMPTED:
            asked.append(record)
    ledger.flush()
    return asked


def release(tx: Tx, runs: Iterable[int]) -> list[int]:
    """Lets those of these runs into the queue that were held; gives them. Idempotent."""
    ledger = Ledger(tx)
    ledger.load(runs)
    held = [run for run in set(runs) if (record := ledger.get(run)) is not None and _is_held(record)]
    begin(tx, held)
    for run in held:
        record = ledger.get(run)
        assert record is not None
        ledger.apply(machine.enqueue(record, tx.now))
    ledger.flush()
    if held:
        tx.touch("queue", "runs")
    return sorted(held)


def _is_held(record: RunRecord) -> bool:
    """Whether it is a person that it waits for."""
    return record.state is RunState.CREATED and not record.blocked and not record.gate


def lose(
    tx: Tx,
    agent: int,
    fact: Lost | Returned,
    *,
    keep: Collection[Attempt] = (),
    only: Collection[Attempt] | None = None,
) -> list[int]:
    """Gives up on what an agent holds, but for `keep`, or on `only` these: back to the queue, or to its end. Gives the
    runs."""
    ids = runs_of_agent(tx, agent)
    ledger = Ledger(tx)
    ledger.load(ids)
    lost = []
    for run in ids:
        record = ledger.get(run)
        if record is None or record.agent != agent or (run, record.attempt) in keep:
            continue  # kept, or another hub let it go between our finding and locking it
        if only is not None and (run, record.attempt) not in only:
            continue
        step = machine.advance(record, record.attempt, fact, tx.now)
        if isinstance(step, Refusal):  # it had begun, so it cannot be given back
            step = machine.advance(record, record.attempt, Lost(message="its agent left"), tx.now)
        if not isinstance(step, Refusal):
            ledger.apply(step)
            lost.append(run)
    settle(tx, ledger)
    ledger.flush()
    return lost


def _describe(name: str, before: RunRecord, record: RunRecord | None) -> Cancelled:
    assert record is not None
    outcome = "over" if before.is_terminal else "cancelled" if record.is_terminal else "requested"
    agent = record.agent if record.on_node else None
    return Cancelled(name, outcome, before.state, record.state, record.id, record.attempt, agent)
