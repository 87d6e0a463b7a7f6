"""The life of a run: what each fact makes of it.

``advance(record, attempt, fact)`` answers with a Step (the new record and the events to append), DUPLICATE (seen
before, nothing to do) or FENCED (it comes from an attempt that is not the current one). The engine stores a Step in one
transaction, guarded by the old state and attempt. The same functions run in the simulator.
"""

from __future__ import annotations

from typing import Any

from turnout.model.event import EventName
from turnout.model.state import Reason, RunState
from turnout.schedule.record import (
    DUPLICATE,
    FENCED,
    Captured,
    Cause,
    Data,
    Ended,
    Lost,
    NodeFact,
    Progress,
    Refusal,
    Returned,
    Running,
    RunRecord,
    SetUp,
    Stage,
    Staged,
    Step,
)

_NO_CAUSE: dict[str, Any] = {"reason": None, "cause": None, "exit_code": None, "signal": None, "message": ""}

#: How a command's end is recorded: (state, reason). EXIT with code 0 is COMPLETED; everything here is not.
_VERDICT: dict[Cause, tuple[RunState, Reason]] = {
    Cause.EXIT: (RunState.FAILED, Reason.EXIT_CODE),
    Cause.SPAWN_FAILED: (RunState.FAILED, Reason.EXIT_CODE),
    Cause.SIGNAL: (RunState.FAILED, Reason.SIGNAL),
    Cause.TIMEOUT: (RunState.FAILED, Reason.TIMEOUT),
    Cause.OOM: (RunState.FAILED, Reason.OOM),
    Cause.INFRA: (RunState.FAILED, Reason.INFRA),
    Cause.CANCELLED: (RunState.CANCELLED, Reason.USER),
    Cause.STOPPED: (RunState.STOPPED, Reason.PRUNED),
    Cause.BUDGET: (RunState.STOPPED, Reason.BUDGET),
    Cause.PREEMPTED: (RunState.FAILED, Reason.PREEMPTED),
}
#: What a child may come to without having failed: a search has those it ended early on purpose.
_GOOD = frozenset({RunState.COMPLETED, RunState.STOPPED})
#: How an attempt ends that its own command did not end: what was asked for meanwhile says why.
_NOT_ITS_OWN = frozenset({Cause.INFRA, Cause.PREEMPTED})


def enqueue(record: RunRecord, now: float) -> Step:
    """A created run enters the queue."""
    return Step(record._replace(state=RunState.QUEUED, queued=now), ((EventName.QUEUED, {}),))


def unblock(record: RunRecord, count: int = 1) -> Step:
    """So many of the things that a created run waits for have happened; after the last of them it may be enqueued."""
    assert record.state is RunState.CREATED and record.blocked >= count
    return Step(record._replace(blocked=record.blocked - count), ())


def block(record: RunRecord, count: int) -> Step:
    """A created run waits for so many others."""
    assert record.state is RunState.CREATED
    return Step(record._replace(blocked=count), ())


def let_in(record: RunRecord) -> Step:
    """Somebody looked at a created run at its gate; it may be enqueued."""
    assert record.state is RunState.CREATED and not record.blocked
    return Step(record._replace(gate=0), ())


def abandon(record: RunRecord, why: str, now: float, reason: Reason = Reason.DEPENDENCY) -> Step | Refusal:
    """Something that the run waits for will not happen, or (CONDITION) it is not to be done, or (UNMADE) it stands for
    runs that could not be made, and has failed: it ends without having begun. Idempotent."""
    if record.state is not RunState.CREATED:
        return DUPLICATE
    ended = _closed_stage(record._replace(remaining=0))
    state = RunState.FAILED if reason is Reason.UNMADE else RunState.CANCELLED
    ended = ended._replace(state=state, reason=reason, message=why, ended=now)
    data: Data = {"state": ended.state, "reason": ended.reason, "message": why}
    return Step(ended, ((EventName.ENDED, data),))


def carry(record: RunRecord, earlier: str, now: float) -> Step | Refusal:
    """A run that may begin has the result of an earlier one, and is not executed. Idempotent."""
    if record.state not in (RunState.CREATED, RunState.QUEUED):
        return DUPLICATE
    message = f"taken over from {earlier}"
    ended = record._replace(state=RunState.COMPLETED, message=message, ended=now)
    data: Data = {"state": ended.state, "reason": None, "message": message}
    return Step(ended, ((EventName.ENDED, data),))


def claim(record: RunRecord, *, node: str, agent: int, now: float) -> Step:
    """A queued run goes to a node as its next attempt; a parent, for its script. The caller made sure that it waits."""
    assert not record.on_node and (record.state is RunState.QUEUED or record.is_parent)
    attempt = record.attempt + 1
    taken = record._replace(
        state=RunState.STARTING, attempt=attempt, progress=Progress.CLAIMED, node=node, agent=agent,
        started=now if record.started is None else record.started,
        **_NO_CAUSE,
    )  # fmt: skip
    events: list[tuple[EventName, Data]] = [(EventName.STARTED, {"node": node, "attempt": attempt})]
    if attempt > 1:
        events.append((EventName.RESTARTED, {"attempt": attempt}))
    return Step(taken, tuple(events))


def advance(record: RunRecord, attempt: int, fact: NodeFact, now: float) -> Step | Refusal:
    """What `fact`, told by `attempt`, makes of the run."""
    if attempt != record.attempt or not record.on_node:
        return FENCED
    match fact:
        case Staged(data):
            return _move(record, Progress.STAGED, EventName.DOWNLOAD_BEFORE, data)
        case SetUp(data):
            return _move(record, Progress.SET_UP, EventName.SETUP, data)
        case Running(data):
            return _move(record, Progress.RUNNING, EventName.RUNNING, data, state=RunState.RUNNING)
        case Ended():
            return _end(record, fact)
        case Captured(data):
            return _capture(record, data, now)
        case Returned():
            return _return(record, now)
        case Lost():
            return _lose(record, fact, now)


def request_cancel(record: RunRecord, cause: Cause, by: str, now: float, why: str = "") -> Step | Refusal:
    """A person (CANCELLED), a stopper (STOPPED) or a limit of its search (BUDGET) wants the run ended. Idempotent.

    A waiting run ends at once; one on a node is marked, and ends when its node says so; a parent makes no more children
    and ends with its last open one (the caller cancels those).
    """
    if record.is_terminal or record.is_cancelled:
        return DUPLICATE
    name = EventName.CANCEL_REQUESTED if cause is Cause.CANCELLED else EventName.STOP_REQUESTED
    asked = _closed_stage(record._replace(cancel=cause, remaining=0))
    data: Data = {"by": by}
    if cause is not Cause.CANCELLED:
        data = {"by": by, "why": why, "cause": cause}
        asked = asked._replace(message=why)
    events: tuple[tuple[EventName, Data], ...] = ((name, data),)
    if record.on_node or record.open_children:
        return Step(asked, events)
    closed = _close_parent(asked, now) if record.is_parent else _close(asked, cause, now)
    return Step(closed.record, (*events, *closed.events))


def request_preempt(record: RunRecord, by: str) -> Step | Refusal:
    """Someone wants the current attempt ended, as if its node had been taken away: another follows. Idempotent."""
    if not record.on_node or record.cancel is not None:
        return DUPLICATE
    return Step(record._replace(cancel=Cause.PREEMPTED), ((EventName.RESTART_REQUESTED, {"by": by}),))


def make_child(parent: RunRecord, index: int, child_name: str, remaining: int) -> Step:
    """A queued parent makes child number `index`, after which `remaining` are left; it is requeued while any are."""
    events: list[tuple[EventName, Data]] = [
        (EventName.CHILD_CREATED, {"child": child_name, "index": index, "remaining": remaining})
    ]
    if remaining and not parent.stage:
        events.append((EventName.REQUEUED, {"remaining": remaining}))
    return Step(
        parent._replace(state=RunState.RUNNING, remaining=remaining, open_children=parent.open_children + 1),
        tuple(events),
    )


def child_ended(parent: RunRecord, child: RunRecord, now: float) -> Step:
    """A child reached its terminal state; the last one ends the parent."""
    good = child.state in _GOOD
    record = parent._replace(
        open_children=parent.open_children - 1, failed_children=parent.failed_children + (not good),
        good_children=parent.good_children + good,
    )  # fmt: skip
    if child.state is RunState.FAILED and record.reason is None:  # the first failure stands for all
        record = record._replace(reason=child.reason, exit_code=child.exit_code, signal=child.signal)
    return Step(record, ()) if _goes_on(record) else _close_parent(record, now)


def stock(parent: RunRecord, *, ready: int, planned: int, is_open: bool, now: float, message: str = "") -> Step:
    """A search has `ready` proposals for children, and `planned` in all as far as that is known; when it is not open
    any more there will be no others, and `message` says why if something is wrong. It ends with the last child.
    Nothing happens to one that makes no more."""
    if parent.makes_no_more:
        return Step(parent, ())
    stage = Stage.OPEN if is_open else Stage.CLOSED
    stocked = parent._replace(remaining=ready, children_planned=planned, stage=stage, message=message or parent.message)
    if stocked == parent:
        return Step(parent, ())
    data: Data = {"ready": ready, "planned": planned, "open": is_open, **({"message": message} if message else {})}
    events: tuple[tuple[EventName, Data], ...] = ((EventName.PROPOSED, data),)
    if _goes_on(stocked):
        return Step(stocked, events)
    closed = _close_parent(stocked, now)
    return Step(closed.record, (*events, *closed.events))


def drain(parent: RunRecord, now: float) -> Step:
    """Other parents of its job made the last children that were left: it ends with those it has."""
    drained = parent._replace(remaining=0)
    events: tuple[tuple[EventName, Data], ...] = ((EventName.DRAINED, {}),)
    if parent.open_children or parent.on_node:
        return Step(drained, events)
    closed = _close_parent(drained, now)
    return Step(closed.record, (*events, *closed.events))


def verdict(record: RunRecord) -> tuple[RunState, Reason | None]:
    """What a command that ended with `record.cause` makes of its run, further attempts aside."""
    assert record.cause is not None
    if record.cause is Cause.EXIT and record.exit_code == 0:
        return RunState.COMPLETED, None
    if record.cancel is not None and record.cause in _NOT_ITS_OWN:
        return _VERDICT[record.cancel]
    if record.cancel is Cause.BUDGET and record.cause is Cause.STOPPED:  # nodes know one word for both
        return _VERDICT[Cause.BUDGET]
    return _VERDICT[record.cause]


def outcome(record: RunRecord, captured: Data) -> tuple[RunState, Reason | None, str]:
    """The verdict on a run of which this was captured, and what there is to say of it."""
    state, reason = verdict(record)
    missing = captured.get("missing")
    if state is RunState.COMPLETED and isinstance(missing, list) and missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return RunState.FAILED, Reason.NO_OUTPUT, f"it left no {missing[0]}{more}{_but(missing[0], captured)}"
    return state, reason, record.message


def _but(missing: object, captured: Data) -> str:
    """What is there in its place, and could not be taken."""
    problems, begin = captured.get("problems"), f"{missing!r}: "
    found = [line for line in problems if isinstance(line, str)] if isinstance(problems, list) else []
    return next((f", but {line[len(begin) :]}" for line in found if line.startswith(begin)), "")


def said(record: RunRecord, message: str) -> str:
    """What there is to say of an end with this message: why it was asked for, if a search did."""
    return record.message if record.cancel in (Cause.STOPPED, Cause.BUDGET) else message


def _move(
    record: RunRecord, progress: Progress, event: EventName, data: Data, *, state: RunState | None = None
) -> Step | Refusal:
    if record.progress >= progress:
        return DUPLICATE
    return Step(record._replace(progress=progress, state=state or record.state), ((event, data),))


def _end(record: RunRecord, fact: Ended) -> Step | Refusal:
    if record.progress >= Progress.ENDED:
        return DUPLICATE
    ended = record._replace(
        progress=Progress.ENDED, state=RunState.FINISHING, cause=fact.cause, exit_code=fact.exit_code,
        signal=fact.signal, message=said(record, fact.message),
    )  # fmt: skip
    return Step(ended, ((EventName.ENDED, fact.data),))


def _capture(record: RunRecord, data: Data, now: float) -> Step | Refusal:
    if record.progress < Progress.ENDED:
        return DUPLICATE
    captured: tuple[EventName, Data] = (EventName.CAPTURE_AFTER, data)
    state, reason, message = outcome(record, data)
    record = record._replace(progress=Progress.CAPTURED, reason=reason, message=message)
    if state is RunState.FAILED and not record.is_cancelled:
        retried = _retry(record, now)
        if retried is not None:
            return Step(retried.record, (captured, *retried.events))
    if record.is_parent:
        over = _script_over(record, now, ok=state is RunState.COMPLETED)
        return Step(over.record, (captured, *over.events))
    return Step(record._replace(state=state, ended=now), (captured,))


def _return(record: RunRecord, now: float) -> Step | Refusal:
    if record.progress >= Progress.RUNNING:
        return DUPLICATE
    if record.cancel is not None and record.is_cancelled:
        return _close(record, record.cancel, now)
    return _requeue(record, {"reason": "returned", "attempt": record.attempt}, now)


def _lose(record: RunRecord, fact: Lost, now: float) -> Step:
    lost: tuple[EventName, Data] = (
        EventName.NODE_LOST,
        {"node": record.node, "attempt": record.attempt, "reason": fact.reason, "message": fact.message},
    )
    record = record._replace(reason=fact.reason, cause=Cause.INFRA, exit_code=None, signal=None, message=fact.message)
    if record.cancel is not None and record.is_cancelled:
        closed = _close(record, record.cancel, now)
        return Step(closed.record, (lost, *closed.events))
    retried = _retry(record, now)
    if retried is not None:
        return Step(retried.record, (lost, *retried.events))
    if record.is_parent:
        over = _script_over(record, now, ok=False)
        return Step(over.record, (lost, *over.events))
    failed = record._replace(state=RunState.FAILED, ended=now)
    return Step(failed, (lost, (EventName.ENDED, {"state": RunState.FAILED, "reason": fact.reason})))


def _retry(record: RunRecord, now: float) -> Step | None:
    """The run back in the queue if what happened leaves it a further attempt, else None."""
    data: Data = {"reason": record.reason, "attempt": record.attempt}
    if record.reason in (Reason.NODE_LOST, Reason.INFRA, Reason.PREEMPTED):
        if record.losses_left > 0:
            return _requeue(record._replace(losses_left=record.losses_left - 1), data, now)
    elif record.failures_left > 0:
        return _requeue(record._replace(failures_left=record.failures_left - 1), data, now)
    return None


def _requeue(record: RunRecord, data: Data, now: float) -> Step:
    queued = _let_go(record)._replace(state=RunState.QUEUED, queued=now)
    events: tuple[tuple[EventName, Data], ...] = ((EventName.REQUEUED, data),)
    if record.is_parent:
        queued = queued._replace(**_NO_CAUSE)  # what became of its script on one node is not its own end
        if not _goes_on(queued):  # others made the last child meanwhile
            closed = _close_parent(queued, now)
            return Step(closed.record, (*events, *closed.events))
    return Step(queued, events)


def _let_go(record: RunRecord) -> RunRecord:
    """It is on no node any more: what was asked of its attempt is done with."""
    cancel = record.cancel if record.is_cancelled else None
    return record._replace(progress=Progress.CLAIMED, node=None, agent=None, cancel=cancel)


def _goes_on(parent: RunRecord) -> bool:
    """Whether there is something that it waits for."""
    return bool(parent.open_children or parent.remaining or parent.on_node or parent.stage == Stage.OPEN)


def _closed_stage(record: RunRecord) -> RunRecord:
    return record._replace(stage=Stage.CLOSED) if record.stage else record


def _close(record: RunRecord, cause: Cause, now: float) -> Step:
    """It ends as its cancel says; a parent that lets go of its script, with its last child."""
    if record.is_parent:
        return _script_over(record, now, ok=False)
    state, reason = _VERDICT[cause]
    closed = record._replace(state=state, reason=reason, ended=now)
    return Step(closed, ((EventName.ENDED, {"state": state, "reason": reason}),))


def _script_over(record: RunRecord, now: float, *, ok: bool) -> Step:
    """A parent's script ended on its node, or will not be tried again. If all is well the parent may make children
    there. If not it makes no more anywhere, and ends with those it has."""
    data: Data = {"node": record.node, "attempt": record.attempt, "exit_code": record.exit_code, "ok": ok}
    events: tuple[tuple[EventName, Data], ...] = ((EventName.PARENT_SCRIPT, data),)
    parent = _let_go(record)
    if ok:
        parent = parent._replace(state=RunState.QUEUED, **_NO_CAUSE)
    else:
        failed = f"its parent script failed on {record.node}: {record.message}"
        message = record.message if record.is_cancelled else failed
        parent = _closed_stage(parent._replace(state=RunState.RUNNING, remaining=0, message=message))
    if parent.remaining:
        return Step(parent, (*events, (EventName.REQUEUED, {"remaining": parent.remaining})))
    if _goes_on(parent):
        return Step(parent._replace(state=RunState.RUNNING), events)
    closed = _close_parent(parent, now)
    return Step(closed.record, (*events, *closed.events))


def _close_parent(record: RunRecord, now: float) -> Step:
    """The last child ended: the parent does too, with what became of its children as its cause."""
    failed = record.failed_children
    if record.cancel is not None and record.is_cancelled:
        state, reason = _VERDICT[record.cancel]
        closed = record._replace(state=state, reason=reason, ended=now)
    elif record.cause is not None:  # its script failed
        closed = record._replace(state=RunState.FAILED, ended=now)
    elif (record.stage and record.message) or (failed and not (record.stage and record.good_children)):
        message = record.message or f"{failed} of its {record.children_planned} children did not complete"
        reason = record.reason or Reason.DEPENDENCY
        closed = record._replace(state=RunState.FAILED, reason=reason, message=message, ended=now)
    else:
        closed = record._replace(state=RunState.COMPLETED, exit_code=0, ended=now)
    data: Data = {
        "state": closed.state, "reason": closed.reason, "exit_code": closed.exit_code, "signal": closed.signal,
        "message": closed.message, "planned": closed.children_planned, "failed": failed,
    }  # fmt: skip
    return Step(closed, ((EventName.ENDED, data),))
