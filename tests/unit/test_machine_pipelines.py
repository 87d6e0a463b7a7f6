"""Runs that wait for others: let go one by one, given up once, and failed if they leave nothing."""

from __future__ import annotations

from typing import Any

import pytest

from turnout.model.event import EventName as E
from turnout.model.state import STEPS, Reason, RunState
from turnout.schedule import machine
from turnout.schedule.record import (
    DUPLICATE,
    FENCED,
    Captured,
    Cause,
    Data,
    Ended,
    Refusal,
    Running,
    RunRecord,
    Staged,
    Step,
)
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay

NOW = 100.0
MISSING: Data = {"missing": ["result.txt"]}


def created(**more: Any) -> RunRecord:
    return RunRecord(id=1, state=RunState.CREATED, step=1, **more)


class Life:
    """A run, with the events of the steps it took."""

    def __init__(self, record: RunRecord) -> None:
        self.born = self.record = record
        self.history: list[PastEvent] = []

    def take(self, step: Step | Refusal, now: float = NOW) -> Life:
        assert isinstance(step, Step), step
        self.history += [PastEvent(now, name, data) for name, data in step.events]
        self.record = step.record._replace(event_seq=self.record.event_seq + len(step.events))
        return self

    def end(self, captured: Data, *, cause: Cause = Cause.EXIT, code: int | None = 0) -> Life:
        """Its next attempt, from the claim to what was captured of it."""
        self.take(machine.claim(self.record, node="n1", agent=7, now=NOW))
        body: Data = {"cause": cause, "exit_code": code, "signal": None, "message": ""}
        for fact in (Staged({}), Running({}), Ended(cause=cause, exit_code=code, data=body), Captured(captured)):
            self.take(machine.advance(self.record, self.record.attempt, fact, NOW))
        return self

    def check_replay(self) -> None:
        rebuilt = replay(self.born, self.history)
        assert _seen(rebuilt) == _seen(self.record)


def _seen(record: RunRecord) -> dict[str, object]:
    return {name: value for name, value in record._asdict().items() if name not in NOT_IN_EVENTS}


def waiting(blocked: int = 0, **more: Any) -> Life:
    return Life(created(blocked=blocked, **more))


def queued(**more: Any) -> Life:
    life = waiting(**more)
    return life.take(machine.enqueue(life.record, NOW))


# --- let go -----------------------------------------------------------------------------------------------------------


def test_each_that_is_over_well_brings_a_run_nearer_to_the_queue() -> None:
    life = waiting(3)
    for left in (2, 1, 0):
        life.take(machine.unblock(life.record))
        assert (life.record.state, life.record.blocked) == (RunState.CREATED, left)
    life.take(machine.enqueue(life.record, NOW + 1), NOW + 1)
    assert (life.record.state, life.record.queued) == (RunState.QUEUED, NOW + 1)
    assert [past.event for past in life.history] == [E.QUEUED]
    life.check_replay()


def test_several_can_be_over_at_once() -> None:
    assert machine.unblock(created(blocked=3), 2).record.blocked == 1


@pytest.mark.parametrize(
    "record",
    [created(blocked=0), created(blocked=1)._replace(state=RunState.QUEUED)],
    ids=["it waits for nothing", "it is in the queue"],
)
def test_nobody_is_let_go_twice(record: RunRecord) -> None:
    with pytest.raises(AssertionError):
        machine.unblock(record)


# --- given up ---------------------------------------------------------------------------------------------------------


def test_what_waits_for_what_will_not_happen_ends_without_having_begun() -> None:
    life = waiting(2)
    life.take(machine.abandon(life.record, "run3 failed", NOW + 2), NOW + 2)
    record = life.record
    assert (record.state, record.reason) == (RunState.CANCELLED, Reason.DEPENDENCY)
    assert (record.message, record.ended) == ("run3 failed", NOW + 2)
    assert (record.attempt, record.started, record.queued, record.cancel) == (0, None, None, None)
    assert RunState.CANCELLED in STEPS[RunState.CREATED]
    (past,) = life.history
    assert (past.event, past.data) == (
        E.ENDED,
        {"state": "cancelled", "reason": "dependency", "message": "run3 failed"},
    )
    life.check_replay()


@pytest.mark.parametrize("state", sorted(set(RunState) - {RunState.CREATED}))
def test_nothing_but_what_waits_is_given_up(state: RunState) -> None:
    assert machine.abandon(created()._replace(state=state), "run3 failed", NOW) is DUPLICATE


def test_what_stands_for_runs_that_could_not_be_made_has_failed() -> None:
    life = waiting(1)
    life.take(machine.abandon(life.record, "no file matches", NOW + 2, Reason.UNMADE), NOW + 2)
    record = life.record
    assert (record.state, record.reason, record.message) == (RunState.FAILED, Reason.UNMADE, "no file matches")
    assert RunState.FAILED in STEPS[RunState.CREATED]
    life.check_replay()


def test_it_is_given_up_once() -> None:
    life = waiting(2)
    life.take(machine.abandon(life.record, "run3 failed", NOW))
    assert machine.abandon(life.record, "run4 failed", NOW) is DUPLICATE
    assert machine.request_cancel(life.record, Cause.CANCELLED, "me", NOW) is DUPLICATE
    assert life.record.message == "run3 failed"


def test_a_node_has_nothing_to_say_of_one_that_was_given_up() -> None:
    life = waiting(1)
    life.take(machine.abandon(life.record, "run3 failed", NOW))
    assert machine.advance(life.record, 0, Captured({}), NOW) is FENCED


def test_a_person_may_cancel_what_waits_for_others() -> None:
    life = waiting(2)
    life.take(machine.request_cancel(life.record, Cause.CANCELLED, "me", NOW))
    assert (life.record.state, life.record.reason) == (RunState.CANCELLED, Reason.USER)
    assert machine.abandon(life.record, "run3 failed", NOW) is DUPLICATE
    life.check_replay()


# --- what has to be left ----------------------------------------------------------------------------------------------


def test_a_run_that_leaves_all_it_has_to_is_well() -> None:
    life = queued().end({"missing": []})
    assert (life.record.state, life.record.reason, life.record.message) == (RunState.COMPLETED, None, "")
    life.check_replay()


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (["a.txt"], "it left no a.txt"),
        (["a.txt", "b/*.csv", "c"], "it left no a.txt and 2 more"),
        (["in/a"], "it left no in/a, but a link out of the run's directory"),
    ],
)
def test_a_run_without_its_outputs_has_failed(missing: list[str], message: str) -> None:
    problems = ["'in': neither a file nor a directory", "'in/a': a link out of the run's directory"]
    life = queued().end({"missing": missing, "problems": problems})
    record = life.record
    assert (record.state, record.reason, record.message) == (RunState.FAILED, Reason.NO_OUTPUT, message)
    assert (record.exit_code, record.cause, record.ended) == (0, Cause.EXIT, NOW)
    life.check_replay()


def test_it_is_tried_again_as_after_any_failure_of_its_own() -> None:
    life = queued(failures_left=1).end(MISSING)
    assert (life.record.state, life.record.failures_left, life.record.losses_left) == (RunState.QUEUED, 0, 3)
    assert (life.history[-1].event, life.history[-1].data["reason"]) == (E.REQUEUED, Reason.NO_OUTPUT)
    life.check_replay()
    life.end({"missing": []})
    assert (life.record.state, life.record.reason, life.record.message) == (RunState.COMPLETED, None, "")
    assert life.record.attempt == 2
    life.check_replay()


def test_with_no_attempt_left_it_has_failed() -> None:
    life = queued(failures_left=1).end(MISSING).end(MISSING)
    assert (life.record.state, life.record.reason, life.record.attempt) == (RunState.FAILED, Reason.NO_OUTPUT, 2)
    life.check_replay()


def test_a_command_that_failed_says_so_and_not_what_it_did_not_leave() -> None:
    life = queued().end(MISSING, code=3)
    assert (life.record.state, life.record.reason, life.record.message) == (RunState.FAILED, Reason.EXIT_CODE, "")
    life.check_replay()


def test_one_that_was_cancelled_is_not_tried_again_for_what_it_did_not_leave() -> None:
    life = queued(failures_left=2)
    life.take(machine.claim(life.record, node="n1", agent=7, now=NOW))
    life.take(machine.request_cancel(life.record, Cause.CANCELLED, "me", NOW))
    body: Data = {"cause": Cause.EXIT, "exit_code": 0, "signal": None, "message": ""}
    life.take(machine.advance(life.record, 1, Ended(cause=Cause.EXIT, exit_code=0, data=body), NOW))
    life.take(machine.advance(life.record, 1, Captured(MISSING), NOW))
    assert (life.record.state, life.record.reason) == (RunState.FAILED, Reason.NO_OUTPUT)
    life.check_replay()
