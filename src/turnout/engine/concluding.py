"""A run that somebody else executes and that does not reach us: what its provider saw and heard is what is known."""

from __future__ import annotations

from dataclasses import replace

from turnout.engine.following import settle
from turnout.engine.report import Telling, report
from turnout.model.state import Reason
from turnout.plugin.provider import Observation
from turnout.plugin.telling import News
from turnout.schedule import machine
from turnout.schedule.record import Captured, Cause, Data, Ended, Lost, NodeFact, Refusal, Running, RunRecord, Step
from turnout.store.agents import Agent
from turnout.store.ledger import Ledger
from turnout.store.queue import Entry, held_runs, waiting_runs
from turnout.store.streams import streams_of
from turnout.store.writer import Tx
from turnout.wire.messages import Chunk

_MESSAGE = "as its provider saw it; it could not reach the hub"
#: What a provider passes on is a stream beside those of the run's own processes.
_RECORDS, _OUTPUT = "track/provider", "output"
#: How streams of records begin.
_OWN = "track/"
#: Ends that a provider knows of, and nobody here asked for.
_CAUSES = {"cancelled": Cause.CANCELLED, "stopped": Cause.STOPPED}


def relay(tx: Tx, agent: Agent, seen: Observation, news: News, start: int, *, is_heard: bool) -> bool:
    """What the launch of this agent told its provider, behind the first `start` bytes, is told of its run, as far as
    that does not tell of itself. If nobody ever heard of the launch, its run is on its node from now on; whether that
    is new."""
    entry, is_new = _entry_of(tx, agent, seen, may_claim=not is_heard)
    if entry is not None:
        _tell(tx, agent, entry, News(records=news.records), start)
    return is_new


def conclude(tx: Tx, agent: Agent, seen: Observation, news: News) -> None:
    """The launch of this agent is gone, and it was never heard of: its run ends as the provider says, with what that
    passes on; where it does not say, the attempt is lost. A parent's children are not told apart there: it waits on."""
    ledger = Ledger(tx)
    for waiting in list(waiting_runs(tx, agent.queue, most=1)):
        if seen.reason in _CAUSES and not waiting.record.is_parent:
            ledger.add(waiting.record)
            cause = _CAUSES[seen.reason]
            _apply(ledger, machine.request_cancel(waiting.record, cause, "its provider", tx.now, seen.detail))
            _finish(tx, ledger)
            return
    entry, _ = _entry_of(tx, agent, seen, may_claim=True)
    if entry is None:
        return
    _tell(tx, agent, entry, news, 0)
    record = entry.record
    ledger.add(record)
    for fact in _facts(record, seen):
        record = _apply(ledger, machine.advance(record, record.attempt, fact, tx.now)) or record
    _finish(tx, ledger)


def _entry_of(tx: Tx, agent: Agent, seen: Observation, *, may_claim: bool) -> tuple[Entry | None, bool]:
    """The run of the launch; one that waits is claimed for it, and executed. And whether it was."""
    held = [entry for entry in held_runs(tx, agent.id) if not entry.record.is_parent]
    if held:
        return held[0], False
    waiting = [entry for entry in waiting_runs(tx, agent.queue, most=1) if not entry.record.is_parent]
    if not waiting or not may_claim:
        return None, False
    ledger = Ledger(tx)
    ledger.add(waiting[0].record)
    record = ledger.apply(machine.claim(waiting[0].record, node=agent.node, agent=agent.id, now=tx.now))
    begun = _apply(ledger, machine.advance(record, record.attempt, Running(_begin(seen)), tx.now))
    _finish(tx, ledger)
    return replace(waiting[0], record=begun or record), True


def _tell(tx: Tx, agent: Agent, entry: Entry, news: News, start: int) -> None:
    """Records, unless the run tells any itself; output, unless it prints where we hear it."""
    run, attempt = entry.record.id, entry.record.attempt
    told = {stream for stream, mark in streams_of(tx, run, attempt).items() if mark.size} - {_RECORDS}
    records = b"" if any(stream.startswith(_OWN) for stream in told) else news.records
    output = b"" if _OUTPUT in told else news.output
    chunks = [
        (Chunk(run, attempt, stream, offset, len(content)), memoryview(content))
        for stream, offset, content in ((_RECORDS, start, records), (_OUTPUT, 0, output))
        if content
    ]
    if chunks:
        report(tx, Telling(agent.id, (), tuple(chunks)))


def _facts(record: RunRecord, seen: Observation) -> list[NodeFact]:
    cause = _cause(record, seen)
    if cause is None:
        reason = Reason.PREEMPTED if seen.reason == "preempted" else Reason.NODE_LOST
        return [Lost(reason=reason, message=seen.detail or "it ended, and nobody knows how")]
    message = seen.detail or _MESSAGE
    data: Data = {"exit_code": seen.exit_code, "cause": cause, "message": message}
    return [
        Ended(cause=cause, exit_code=seen.exit_code, message=message, data=data),
        Captured({"files": 0, "bytes": 0}),
    ]


def _cause(record: RunRecord, seen: Observation) -> Cause | None:
    """None when nobody knows."""
    if seen.exit_code == 0:
        return Cause.EXIT
    if record.is_cancelled:
        return record.cancel
    return Cause.EXIT if seen.exit_code is not None else _CAUSES.get(seen.reason)


def _begin(seen: Observation) -> Data:
    return {"native": seen.native, "id": seen.id}


def _finish(tx: Tx, ledger: Ledger) -> None:
    settle(tx, ledger)
    ledger.flush()


def _apply(ledger: Ledger, step: Step | Refusal) -> RunRecord | None:
    return None if isinstance(step, Refusal) else ledger.apply(step)
