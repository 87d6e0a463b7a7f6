"""A run that somebody else executed and nobody told us of: what its provider saw is what is known."""

from __future__ import annotations

from turnout.engine.report import close_children, touch_changed
from turnout.model.state import Reason
from turnout.plugin.provider import Observation
from turnout.schedule import machine
from turnout.schedule.record import Captured, Cause, Data, Ended, Lost, NodeFact, Refusal, Running, RunRecord, Step
from turnout.store.agents import Agent
from turnout.store.ledger import Ledger
from turnout.store.queue import waiting_runs
from turnout.store.writer import Tx

_MESSAGE = "as its provider saw it; it could not reach the hub"


def conclude(tx: Tx, agent: Agent, seen: Observation) -> None:
    """The launch of this agent is gone, and it was never heard of: its run, if that still waits, ends as the provider
    says; where that does not say, the attempt is lost. A parent's children are not told apart there: it waits on."""
    ledger = Ledger(tx)
    for entry in list(waiting_runs(tx, agent.queue, most=1)):
        if entry.record.is_parent:
            continue
        record = entry.record
        ledger.add(record)
        if seen.reason == "cancelled":
            _apply(ledger, machine.request_cancel(record, Cause.CANCELLED, "its provider", tx.now))
            continue
        record = ledger.apply(machine.claim(record, node=agent.node, agent=agent.id, now=tx.now))
        for fact in _facts(seen):
            step = machine.advance(record, record.attempt, fact, tx.now)
            record = _apply(ledger, step) or record
    close_children(ledger, tx.now)
    touch_changed(tx, ledger)
    ledger.flush()


def _facts(seen: Observation) -> list[NodeFact]:
    if seen.exit_code is None:
        reason = Reason.PREEMPTED if seen.reason == "preempted" else Reason.NODE_LOST
        return [Lost(reason=reason, message=seen.detail or "it ended, and nobody knows how")]
    message = seen.detail or _MESSAGE
    data: Data = {"exit_code": seen.exit_code, "cause": Cause.EXIT, "message": message}
    return [
        Running({"native": seen.native, "id": seen.id}),
        Ended(cause=Cause.EXIT, exit_code=seen.exit_code, message=message, data=data),
        Captured({"files": 0, "bytes": 0}),
    ]


def _apply(ledger: Ledger, step: Step | Refusal) -> RunRecord | None:
    return None if isinstance(step, Refusal) else ledger.apply(step)
