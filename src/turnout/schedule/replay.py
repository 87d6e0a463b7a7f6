"""A run rebuilt from its history: the proof that what is in its row was written down, step by step, in its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnout.model.event import EventName
from turnout.model.state import Reason, RunState
from turnout.schedule.machine import outcome, said
from turnout.schedule.record import Cause, Data, Progress, RunRecord, Stage

#: Fields that are not in a run's own events: whose agent has it, what its children count, how many others it waits for.
NOT_IN_EVENTS = frozenset({"agent", "open_children", "failed_children", "good_children", "blocked", "gate"})
_LOSSES = frozenset({Reason.NODE_LOST, Reason.INFRA, Reason.PREEMPTED})


@dataclass(frozen=True, slots=True)
class PastEvent:
    time: float
    event: EventName
    data: Data


def replay(created: RunRecord, history: Iterable[PastEvent]) -> RunRecord:
    """What the events make of a run as it was created. Equal to its row, but for `NOT_IN_EVENTS`.

    A parent's cause (`reason`, `exit_code`, `signal`, `message`) is in its events only once it ended.
    """
    record = created
    for past in history:
        record = _fold(record, past)._replace(event_seq=record.event_seq + 1)
    return record


def _fold(record: RunRecord, past: PastEvent) -> RunRecord:
    data, time = past.data, past.time
    match past.event:
        case EventName.QUEUED:
            return record._replace(state=RunState.QUEUED, queued=time)
        case EventName.STARTED:
            return record._replace(
                state=RunState.STARTING, attempt=_int(data["attempt"]), node=str(data["node"]),
                progress=Progress.CLAIMED, started=time if record.started is None else record.started,
                reason=None, cause=None, exit_code=None, signal=None, message="",
            )  # fmt: skip
        case EventName.DOWNLOAD_BEFORE:
            return record._replace(progress=Progress.STAGED)
        case EventName.SETUP:
            return record._replace(progress=Progress.SET_UP)
        case EventName.RUNNING:
            return record._replace(progress=Progress.RUNNING, state=RunState.RUNNING)
        case EventName.ENDED:
            return _closed(record, data, time) if "state" in data else _ended(record, data)
        case EventName.CAPTURE_AFTER:
            assert record.cause is not None
            state, reason, message = outcome(record, data)
            return record._replace(progress=Progress.CAPTURED, state=state, reason=reason, message=message, ended=time)
        case EventName.NODE_LOST:
            return record._replace(
                reason=Reason(str(data["reason"])), cause=Cause.INFRA, exit_code=None, signal=None,
                message=str(data["message"]),
            )  # fmt: skip
        case EventName.REQUEUED:
            return record if "remaining" in data else _requeued(record, data, time)
        case EventName.CHILD_CREATED:
            return record._replace(state=RunState.RUNNING, remaining=_int(data["remaining"]))
        case EventName.DRAINED:
            return record._replace(remaining=0)
        case EventName.PROPOSED:
            return record._replace(
                remaining=_int(data["ready"]), children_planned=_int(data["planned"]),
                stage=Stage.OPEN if data["open"] else Stage.CLOSED, message=str(data.get("message", record.message)),
            )  # fmt: skip
        case EventName.PARENT_SCRIPT:
            return _script_over(record, ok=bool(data["ok"]))
        case EventName.CANCEL_REQUESTED:
            return record._replace(cancel=Cause.CANCELLED, remaining=0, stage=_no_more(record))
        case EventName.STOP_REQUESTED:
            return record._replace(
                cancel=Cause(str(data["cause"])), remaining=0, stage=_no_more(record), message=str(data["why"])
            )
        case EventName.RESTART_REQUESTED:
            return record._replace(cancel=Cause.PREEMPTED)
        case _:
            return record


def _ended(record: RunRecord, data: Data) -> RunRecord:
    """Its command is over, as its node told it."""
    return record._replace(
        progress=Progress.ENDED, state=RunState.FINISHING, cause=Cause(str(data.get("cause", Cause.INFRA))),
        exit_code=_maybe_int(data.get("exit_code")), signal=_maybe_int(data.get("signal")),
        message=said(record, str(data.get("message", ""))),
    )  # fmt: skip


def _no_more(record: RunRecord) -> int:
    return Stage.CLOSED if record.stage else record.stage


def _closed(record: RunRecord, data: Data, time: float) -> RunRecord:
    """It ended without a word from a node: lost for good, cancelled while it waited, or with its last child."""
    reason = data.get("reason")
    record = record._replace(
        state=RunState(str(data["state"])), reason=Reason(str(reason)) if reason else None, ended=time,
        remaining=0, stage=_no_more(record),
    )  # fmt: skip
    if "planned" not in data:
        return record._replace(message=str(data.get("message", record.message)))
    return record._replace(
        exit_code=_maybe_int(data["exit_code"]), signal=_maybe_int(data["signal"]), message=str(data["message"])
    )


def _script_over(record: RunRecord, *, ok: bool) -> RunRecord:
    remaining = record.remaining if ok else 0
    state = RunState.QUEUED if remaining else RunState.RUNNING
    after = _let_go(record)._replace(state=state, remaining=remaining)
    if not ok:
        return after._replace(stage=_no_more(record))
    return after._replace(reason=None, cause=None, exit_code=None, signal=None, message="")


def _requeued(record: RunRecord, data: Data, time: float) -> RunRecord:
    queued = _let_go(record)._replace(state=RunState.QUEUED, queued=time)
    if record.is_parent:
        queued = queued._replace(reason=None, cause=None, exit_code=None, signal=None, message="")
    if data["reason"] == "returned":
        return queued
    if data["reason"] in _LOSSES:
        return queued._replace(losses_left=record.losses_left - 1)
    return queued._replace(failures_left=record.failures_left - 1)


def _let_go(record: RunRecord) -> RunRecord:
    cancel = record.cancel if record.is_cancelled else None
    return record._replace(progress=Progress.CLAIMED, node=None, ended=None, cancel=cancel)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _maybe_int(value: object) -> int | None:
    return None if value is None else _int(value)
