"""What people and lost nodes do to runs: cancel them, give them up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnout.engine.report import close_children, touch_changed
from turnout.schedule import machine
from turnout.schedule.machine import Cause, Refusal, RunRecord
from turnout.store.ledger import Ledger
from turnout.store.queue import live_children, names_of, runs_of_agent
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel did: ``cancelled`` at once, ``requested`` from its node, or nothing because it was ``over`` already."""

    name: str
    outcome: str
    run: int
    attempt: int
    agent: int | None


def cancel(tx: Tx, runs: Iterable[int], *, by: str) -> list[Cancelled]:
    """Cancels these runs and the children of parents among them. Idempotent."""
    wanted = set(runs)
    wanted |= live_children(tx, wanted)
    ledger = Ledger(tx)
    ledger.load(wanted)
    outcomes: dict[int, str] = {}
    for run in sorted(wanted):
        record = ledger.get(run)
        if record is not None:
            outcomes[run] = _cancel(ledger, record, by, tx.now)
    close_children(ledger, tx.now)
    touch_changed(tx, ledger)
    ledger.flush()
    names = names_of(tx, outcomes)
    return [_describe(names[run], outcome, ledger.get(run)) for run, outcome in outcomes.items()]


def lose(tx: Tx, agent: int, fact: machine.Lost) -> list[int]:
    """Gives up on what an agent holds: back to the queue, or to its end. Gives the runs."""
    ids = runs_of_agent(tx, agent)
    ledger = Ledger(tx)
    ledger.load(ids)
    for run in ids:
        record = ledger.get(run)
        assert record is not None
        step = machine.advance(record, record.attempt, fact, tx.now)
        if not isinstance(step, Refusal):
            ledger.apply(step)
    close_children(ledger, tx.now)
    touch_changed(tx, ledger)
    ledger.flush()
    return ids


def _cancel(ledger: Ledger, record: RunRecord, by: str, now: float) -> str:
    step = machine.request_cancel(record, Cause.CANCELLED, by, now)
    if isinstance(step, Refusal):
        return "over" if record.is_terminal else "requested"
    return "cancelled" if ledger.apply(step).is_terminal else "requested"


def _describe(name: str, outcome: str, record: RunRecord | None) -> Cancelled:
    assert record is not None
    return Cancelled(name, outcome, record.id, record.attempt, record.agent if record.on_node else None)
