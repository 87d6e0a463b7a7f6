"""What must hold, at every change and when all is over: measured by what people were told and commands really did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from turnout.model.state import STEPS, TERMINAL, RunState
from turnout.schedule.record import Cause, RunRecord, Stage
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay
from turnout.testing.simulator.command import Truth
from turnout.testing.simulator.memory import Disk
from turnout.testing.simulator.people import Asked, Person
from turnout.testing.simulator.world import World
from turnout.wire.messages import Attempt

_REBUILT = [name for name in RunRecord._fields if name not in NOT_IN_EVENTS]


class Broken(AssertionError):
    """An invariant does not hold."""


def check_change(world: World, old: RunRecord | None, new: RunRecord) -> None:
    """A row changed: only steps that exist, terminal states for ever, attempts one by one, events counted."""
    if old is None:
        return
    if old.state in TERMINAL and old._replace(step=new.step) == new:
        return  # another takes its place
    if old.state in TERMINAL:
        raise Broken(f"run {old.id} was {old.state} and changed to {new.state}")
    if old.state is not new.state:
        world.sometimes(f"{old.state} -> {new.state}")
        if new.state not in STEPS[old.state]:
            raise Broken(f"run {old.id} went from {old.state} to {new.state}")
    if new.attempt not in (old.attempt, old.attempt + 1) or new.event_seq < old.event_seq:
        raise Broken(f"run {old.id} went back: {old} to {new}")
    if new.losses_left < 0 or new.failures_left < 0:
        raise Broken(f"run {old.id} was tried more often than it may")
    has_more = new.open_children > old.open_children or new.remaining or new.stage == Stage.OPEN
    if old.is_parent and old.makes_no_more and has_more:
        raise Broken(f"run {old.id} was to make no more children: {old} to {new}")
    if new.is_terminal and new.stage == Stage.OPEN:
        raise Broken(f"run {old.id} is {new.state}, and may make more children")
    if new.on_node == (new.agent is None):
        raise Broken(f"run {old.id} is {new.state} with agent {new.agent}")


def check_end(disk: Disk, person: Person, truths: dict[Attempt, Truth]) -> None:
    """Faults are over and all was given time: everything must have come to its right end."""
    for run, record in disk.records.items():
        if not record.is_terminal:
            raise Broken(f"{disk.rows[run].name} never ended: {record}")
    for asked in person.asked:
        _check_submission(disk, asked)
    _check_children(disk)
    _check_cancels(disk, person)
    _check_restarts(disk, person, truths)
    for ref, truth in truths.items():
        if truth.executions > 1:
            raise Broken(f"attempt {ref} was executed {truth.executions} times")
    for run, record in disk.records.items():
        if not record.is_parent:
            _check_attempts(disk, record, truths)
        _check_bytes(disk, record, truths)
        _check_replay(disk, record, disk.events[run])


def _check_submission(disk: Disk, asked: Asked) -> None:
    """Acknowledged is there, and there once; whoever asks again is told the same."""
    jobs = [job for job, spec in disk.jobs.items() if spec is asked.spec]
    if len(jobs) > 1 or (asked.answers and not jobs):
        raise Broken(f"{asked.key} was answered {len(asked.answers)} times and is there {len(jobs)} times")
    if any(answer != asked.answers[0] for answer in asked.answers):
        raise Broken(f"{asked.key} got different answers: {asked.answers}")
    if asked.answers and asked.pipeline is None:
        names = {row.name for row in disk.rows.values() if row.job == jobs[0] and not row.child}
        told = set(_names(asked.answers[0]))
        if not told <= names or (names != told and asked.spec.search is None):  # one that goes on may need more
            raise Broken(f"{asked.key} was told {asked.answers[0]}, and there are {names}")


def _names(answer: dict[str, object]) -> list[str]:
    runs = answer["runs"]
    assert isinstance(runs, list)
    return runs


def _check_children(disk: Disk) -> None:
    for run, parent in disk.records.items():
        if not parent.is_parent:
            continue
        children = [record for record in disk.records.values() if record.parent == run]
        good = sum(child.state in (RunState.COMPLETED, RunState.STOPPED) for child in children)
        failed = len(children) - good
        counted = (parent.open_children, parent.remaining, parent.failed_children, parent.good_children)
        if counted != (0, 0, failed, good):
            raise Broken(f"{disk.rows[run].name} counts wrong: {parent}, {failed} failed")
        if parent.stage:
            continue
        _check_indices(disk, run)
        is_good = parent.state is RunState.COMPLETED
        if not parent.is_cancelled and not _was_given_up(parent) and is_good != (failed == 0 and parent.cause is None):
            raise Broken(f"{disk.rows[run].name} is {parent.state} with {failed} failed children")


def _check_indices(disk: Disk, run: int) -> None:
    """Every child that was planned was made, once; fewer only where a parent was cancelled or its script failed."""
    row = disk.rows[run]
    spec = disk.jobs[row.job]
    job = [each for each, other in disk.rows.items() if other.job == row.job and disk.records[each].is_parent]
    family = job if spec.total is not None else [run]
    made = [disk.rows[child.id].child for child in disk.records.values() if child.parent in family]
    wanted = spec.total if spec.total is not None else spec.repeat
    parents = [disk.records[each] for each in family]
    is_cut = any(each.is_cancelled or each.cause is not None or _was_given_up(each) for each in parents)
    if len(set(made)) != len(made) or not set(made) <= set(range(1, wanted + 1)):
        raise Broken(f"{row.name}: children {sorted(made)} of {wanted}")
    if len(made) != wanted and not is_cut:
        raise Broken(f"{row.name}: only {sorted(made)} of {wanted} children were made")


def _was_given_up(record: RunRecord) -> bool:
    """It waited for something that did not happen."""
    return record.state is RunState.CANCELLED and record.cancel is None


def _check_cancels(disk: Disk, person: Person) -> None:
    by_name = {row.name: disk.records[run] for run, row in disk.rows.items()}
    for name, outcome in person.cancelled.items():
        record = by_name[name]
        if outcome == "cancelled" and record.state is not RunState.CANCELLED:
            raise Broken(f"{name} was said to be cancelled and is {record.state}")
        if outcome == "requested" and not record.is_cancelled:
            raise Broken(f"{name} was to be cancelled and forgot it")


def _check_restarts(disk: Disk, person: Person, truths: dict[Attempt, Truth]) -> None:
    """An attempt that was to end for another did, unless it ended by itself before it heard, or none was left."""
    for run, attempt in person.restarted:
        record, truth = disk.records[run], truths.get((run, attempt), Truth())
        asked = [past for past in disk.events[run] if past.event == "restart_requested"]
        is_ended_so = truth.fate is not None and truth.fate["cause"] == Cause.PREEMPTED
        is_last = record.attempt == attempt and not record.is_cancelled and record.losses_left > 0
        is_last = is_last and not record.is_parent  # others may have made what its script was for
        if not asked or (is_ended_so and is_last):
            raise Broken(f"run {run} was to be restarted after attempt {attempt} and was not: {record}")


def _check_attempts(disk: Disk, record: RunRecord, truths: dict[Attempt, Truth]) -> None:
    """Executed no more often than its policy allows; and a run says of its end what really happened."""
    spec = disk.jobs[disk.rows[record.id].job]
    executed = [attempt for attempt in range(1, record.attempt + 1) if (record.id, attempt) in truths]
    if len(executed) > 1 + spec.retry.failures + spec.retry.losses:
        raise Broken(f"run {record.id} was executed {len(executed)} times under {spec.retry}")
    last = truths.get((record.id, record.attempt))
    if record.state is RunState.COMPLETED and (last is None or last.fate is None or last.fate["exit_code"] != 0):
        raise Broken(f"run {record.id} completed, but did not: {last and last.fate}")
    if record.cause in (None, Cause.INFRA) or record.state in (RunState.CANCELLED, RunState.STOPPED):
        return
    told = {"cause": record.cause, "exit_code": record.exit_code, "signal": record.signal}
    if record.cause is Cause.PREEMPTED and last is not None and last.fate is None:
        return  # its supervisor was killed when it was to end
    if last is None or last.fate != told:
        raise Broken(f"run {record.id} says {told} and its command {last and last.fate}")


def _check_bytes(disk: Disk, record: RunRecord, truths: dict[Attempt, Truth]) -> None:
    """Of each attempt a prefix of what it wrote, each record once; of the one that was committed, all."""
    for attempt in range(1, record.attempt + 1):
        ref = (record.id, attempt)
        truth = truths.get(ref, Truth())
        have = bytes(disk.output.get(ref, b""))
        if not truth.output.startswith(have):
            raise Broken(f"the output of {ref} is not what it wrote: {have!r} of {bytes(truth.output)!r}")
        points = [number for owner, number in disk.points.get(record.id, ()) if owner == attempt]
        emitted = sum(truth.records.values())
        if len(points) != len(set(points)) or any(number >= emitted for number in points):
            raise Broken(f"the metrics of {ref} are doubled or invented: {points} of {emitted}")
        if _is_committed(disk, ref) and not truth.damaged and (len(have) < len(truth.output) or len(points) < emitted):
            raise Broken(
                f"{ref} was committed without {len(truth.output) - len(have)} B, {emitted - len(points)} points"
            )


def _is_committed(disk: Disk, ref: Attempt) -> bool:
    current = 0
    for past in disk.events[ref[0]]:
        if past.event == "started":
            current = _int(past.data["attempt"])
        if past.event == "capture_after" and current == ref[1]:
            return True
    return False


def _check_replay(disk: Disk, record: RunRecord, history: Iterable[PastEvent]) -> None:
    spec = disk.jobs[disk.rows[record.id].job]
    created = RunRecord(
        id=record.id, state=RunState.CREATED, failures_left=spec.retry.failures, losses_left=spec.retry.losses,
        parent=record.parent, children_planned=record.children_planned, priority=record.priority,
        remaining=0 if record.stage else record.children_planned, stage=Stage.OPEN if record.stage else Stage.NONE,
        step=record.step,
    )  # fmt: skip
    rebuilt = replay(created, history)
    wrong = [name for name in _REBUILT if getattr(rebuilt, name) != getattr(record, name)]
    if wrong:
        names = Counter(str(past.event) for past in history)
        raise Broken(f"run {record.id} cannot be rebuilt ({wrong}) from {names}: {rebuilt} is not {record}")


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
