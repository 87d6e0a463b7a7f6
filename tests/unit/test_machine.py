"""The life of a run, step by step: what each fact makes of it, what is refused, and how often it is tried."""

from __future__ import annotations

from typing import Any

import pytest

from turnout.model.event import EventName as E
from turnout.model.state import STEPS, TERMINAL, Reason, RunState
from turnout.schedule import machine
from turnout.schedule.record import (  # fmt: skip
    DUPLICATE,
    FENCED,
    Captured,
    Cause,
    Ended,
    Lost,
    NodeFact,
    Progress,
    Refusal,
    Returned,
    Running,
    RunRecord,
    Staged,
    Step,
)

NOW = 100.0


def queued(**more: Any) -> RunRecord:
    return RunRecord(id=1, state=RunState.QUEUED, **more)


def claimed(**more: Any) -> RunRecord:
    return machine.claim(queued(**more), node="n1", agent=7, now=NOW).record


def told(record: RunRecord, *facts: NodeFact, now: float = NOW) -> RunRecord:
    """The run after its node told these facts, each of which it takes."""
    for fact in facts:
        step = machine.advance(record, record.attempt, fact, now)
        assert isinstance(step, Step), f"{fact} was refused: {step}"
        record = step.record
    return record


def refusal(record: RunRecord, fact: NodeFact, *, attempt: int | None = None) -> Refusal:
    answer = machine.advance(record, record.attempt if attempt is None else attempt, fact, NOW)
    assert isinstance(answer, Refusal), answer
    return answer


def names(step: Step | Refusal) -> list[str]:
    assert isinstance(step, Step)
    return [str(name) for name, _ in step.events]


def ended(cause: Cause = Cause.EXIT, code: int | None = None, signal: int | None = None, message: str = "") -> Ended:
    return Ended(cause=cause, exit_code=code, signal=signal, message=message, data={"cause": cause})


# --- the plain way ----------------------------------------------------------------------------------------------------


def test_a_plain_run_goes_through_its_states_and_logs_its_events_in_order() -> None:
    record = RunRecord(id=1, state=RunState.CREATED)
    step = machine.enqueue(record, NOW)
    states, events = [record.state, step.record.state], names(step)
    step = machine.claim(step.record, node="n1", agent=7, now=NOW)
    states, events = [*states, step.record.state], [*events, *names(step)]
    record = step.record
    for fact in (Staged({"files": 2}), Running({"pid": 5}), ended(code=0), Captured({"files": 1})):
        answer = machine.advance(record, 1, fact, NOW + 1)
        assert isinstance(answer, Step)
        record = answer.record
        states, events = [*states, record.state], [*events, *names(answer)]
    assert states == ["created", "queued", "starting", "starting", "running", "finishing", "completed"]
    assert events == ["queued", "started", "download_before", "running", "ended", "capture_after"]
    assert (record.exit_code, record.reason, record.ended) == (0, None, NOW + 1)


def test_events_carry_what_the_node_told() -> None:
    step = machine.advance(claimed(), 1, Staged({"files": 2}), NOW)
    assert isinstance(step, Step) and step.events == ((E.DOWNLOAD_BEFORE, {"files": 2}),)
    step = machine.advance(told(claimed(), Running({})), 1, ended(code=3), NOW)
    assert isinstance(step, Step) and step.events == ((E.ENDED, {"cause": Cause.EXIT}),)


def test_a_claim_opens_the_next_attempt_on_a_node_and_forgets_the_last() -> None:
    before = queued(
        attempt=1, progress=3, reason=Reason.SIGNAL, cause=Cause.SIGNAL, signal=9, exit_code=1, message="killed"
    )
    step = machine.claim(before, node="n1", agent=7, now=NOW)
    record = step.record
    assert (record.state, record.attempt, record.node, record.agent) == (RunState.STARTING, 2, "n1", 7)
    assert (record.reason, record.cause, record.signal, record.exit_code, record.message) == (
        None,
        None,
        None,
        None,
        "",
    )
    assert record.progress == 0
    assert names(step) == ["started", "restarted"], "that it was tried before can be seen"
    assert names(machine.claim(queued(), node="n1", agent=7, now=NOW)) == ["started"]


def test_only_what_waits_can_be_claimed() -> None:
    on_node = machine.claim(parent(), node="n1", agent=7, now=NOW).record
    for record in (RunRecord(id=1, state=RunState.CREATED), claimed(), on_node):
        with pytest.raises(AssertionError):
            machine.claim(record, node="n1", agent=7, now=NOW)


def test_when_it_entered_the_queue_is_known() -> None:
    assert machine.enqueue(RunRecord(id=1, state=RunState.CREATED), NOW).record.queued == NOW


def test_when_it_started_is_when_it_was_first_claimed() -> None:
    again = told(claimed(losses_left=1), Lost())
    assert machine.claim(again, node="n2", agent=8, now=NOW + 50).record.started == NOW


def test_a_command_may_end_before_it_was_seen_running() -> None:
    record = told(claimed(), ended(Cause.SPAWN_FAILED, message="no such file"), Captured({}))
    assert (record.state, record.reason, record.message) == (RunState.FAILED, Reason.EXIT_CODE, "no such file")


@pytest.mark.parametrize(
    ("end", "state", "reason"),
    [
        (ended(code=0), RunState.COMPLETED, None),
        (ended(code=3), RunState.FAILED, Reason.EXIT_CODE),
        (ended(Cause.SPAWN_FAILED), RunState.FAILED, Reason.EXIT_CODE),
        (ended(Cause.SIGNAL, signal=11), RunState.FAILED, Reason.SIGNAL),
        (ended(Cause.TIMEOUT, code=0), RunState.FAILED, Reason.TIMEOUT),
        (ended(Cause.OOM, signal=9), RunState.FAILED, Reason.OOM),
        (ended(Cause.INFRA), RunState.FAILED, Reason.INFRA),
        (ended(Cause.CANCELLED, signal=15), RunState.CANCELLED, Reason.USER),
        (ended(Cause.STOPPED, signal=15), RunState.STOPPED, Reason.PRUNED),
    ],
)
def test_every_end_is_recorded_with_its_true_cause(end: Ended, state: RunState, reason: Reason | None) -> None:
    record = told(claimed(losses_left=0), Running({}), end, Captured({}))
    assert record.progress == Progress.CAPTURED
    assert (record.state, record.reason, record.cause) == (state, reason, end.cause)
    assert (record.exit_code, record.signal, record.ended) == (end.exit_code, end.signal, NOW)


# --- everything may come twice, late, or from the wrong one -----------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "fact"),
    [
        ([Staged({})], Staged({})),
        ([Staged({}), Running({})], Staged({})),
        ([Running({})], Running({})),
        ([Running({}), ended(code=0)], ended(code=0)),
        ([Running({}), ended(code=0)], ended(code=1)),
        ([Running({}), ended(code=0)], Running({})),
    ],
)
def test_a_fact_that_was_seen_changes_nothing(before: list[NodeFact], fact: NodeFact) -> None:
    assert refusal(told(claimed(), *before), fact) is DUPLICATE


def test_nothing_is_captured_of_what_has_not_ended() -> None:
    for facts in ([], [Staged({})], [Staged({}), Running({})]):
        assert refusal(told(claimed(), *facts), Captured({})) is DUPLICATE


def test_a_grant_is_given_back_only_if_it_was_not_started() -> None:
    unstarted: list[list[NodeFact]] = [[], [Staged({})]]
    for facts in unstarted:
        back = told(claimed(losses_left=0, failures_left=0), *facts, Returned())
        assert (back.state, back.node, back.agent, back.progress) == (RunState.QUEUED, None, None, 0)
        assert (back.losses_left, back.failures_left) == (0, 0), "nothing happened to it: that costs no attempt"
    started: list[list[NodeFact]] = [[Running({})], [Running({}), ended(code=0)]]
    for facts in started:
        assert refusal(told(claimed(), *facts), Returned()) is DUPLICATE


ALL_FACTS: list[NodeFact] = [Staged({}), Running({}), ended(code=0), Captured({}), Returned(), Lost()]


@pytest.mark.parametrize("fact", ALL_FACTS, ids=lambda fact: type(fact).__name__)
def test_only_the_current_attempt_is_heard(fact: NodeFact) -> None:
    second = machine.claim(told(claimed(), Lost()), node="n2", agent=8, now=NOW).record
    assert second.attempt == 2
    assert refusal(second, fact, attempt=1) is FENCED
    assert refusal(second, fact, attempt=3) is FENCED


@pytest.mark.parametrize("fact", ALL_FACTS, ids=lambda fact: type(fact).__name__)
def test_a_run_that_waits_or_is_over_hears_nobody(fact: NodeFact) -> None:
    done = told(claimed(), ended(code=0), Captured({}))
    for record in (queued(), queued(attempt=1), done):
        assert refusal(record, fact) is FENCED


def test_no_step_leads_out_of_a_terminal_state() -> None:
    assert all(STEPS[state] == frozenset() for state in TERMINAL)


# --- how often --------------------------------------------------------------------------------------------------------


def test_a_lost_attempt_is_tried_again_as_long_as_losses_are_left() -> None:
    record = queued(losses_left=2)
    for left in (1, 0):
        record = machine.claim(record, node="n", agent=1, now=NOW).record
        step = machine.advance(record, record.attempt, Lost(message="silent"), NOW + 9)
        assert isinstance(step, Step) and names(step) == ["node_lost", "requeued"]
        record = step.record
        assert (record.state, record.losses_left, record.queued, record.agent) == (RunState.QUEUED, left, NOW + 9, None)
    record = machine.claim(record, node="n", agent=1, now=NOW).record
    step = machine.advance(record, record.attempt, Lost(message="silent"), NOW)
    assert isinstance(step, Step) and names(step) == ["node_lost", "ended"]
    assert (step.record.state, step.record.reason, step.record.message) == (RunState.FAILED, Reason.NODE_LOST, "silent")
    assert step.record.ended == NOW


def test_a_loss_forgets_what_the_attempt_said_of_its_end() -> None:
    """It exited with 0, but what it left behind never arrived."""
    lost = told(claimed(losses_left=0), Running({}), ended(code=0, signal=9), Lost())
    assert (lost.state, lost.cause, lost.exit_code, lost.signal) == (RunState.FAILED, Cause.INFRA, None, None)


def test_a_failure_that_is_tried_again_is_captured_first() -> None:
    step = machine.advance(told(claimed(failures_left=1), ended(code=3)), 1, Captured({"files": 1}), NOW)
    assert isinstance(step, Step)
    assert step.events == (
        (E.CAPTURE_AFTER, {"files": 1}), (E.REQUEUED, {"reason": Reason.EXIT_CODE, "attempt": 1}),
    )  # fmt: skip


def test_a_failure_is_tried_again_as_long_as_failures_are_left() -> None:
    record = told(claimed(failures_left=1, losses_left=5), ended(code=3), Captured({}))
    assert (record.state, record.failures_left, record.losses_left) == (RunState.QUEUED, 0, 5)
    assert record.reason is Reason.EXIT_CODE, "while it waits, why it does can be seen"
    record = machine.claim(record, node="n", agent=1, now=NOW).record
    assert told(record, ended(code=3), Captured({})).state is RunState.FAILED


@pytest.mark.parametrize("cause", [Cause.EXIT, Cause.SIGNAL, Cause.TIMEOUT, Cause.OOM, Cause.SPAWN_FAILED])
def test_its_own_failure_is_not_charged_to_the_losses(cause: Cause) -> None:
    assert told(claimed(failures_left=0, losses_left=3), ended(cause, code=3), Captured({})).state is RunState.FAILED


def test_a_fault_of_ours_is_charged_to_the_losses_alone() -> None:
    record = told(claimed(failures_left=0, losses_left=1), ended(Cause.INFRA), Captured({}))
    assert (record.state, record.losses_left) == (RunState.QUEUED, 0)
    assert told(claimed(failures_left=9, losses_left=0), ended(Cause.INFRA), Captured({})).state is RunState.FAILED
    assert told(claimed(failures_left=9, losses_left=0), Lost()).state is RunState.FAILED
    preempted = told(claimed(losses_left=0), Lost(reason=Reason.PREEMPTED))
    assert (preempted.state, preempted.reason) == (RunState.FAILED, Reason.PREEMPTED)


def test_retry_never_means_at_most_once() -> None:
    never = {"failures_left": 0, "losses_left": 0}
    for facts in ([Lost()], [Running({}), Lost()], [ended(code=1), Captured({})], [ended(Cause.INFRA), Captured({})]):
        assert told(claimed(**never), *facts).state is RunState.FAILED


def test_success_is_not_tried_again() -> None:
    assert told(claimed(failures_left=3, losses_left=3), ended(code=0), Captured({})).state is RunState.COMPLETED


# --- cancel -----------------------------------------------------------------------------------------------------------


def cancel(record: RunRecord, cause: Cause = Cause.CANCELLED) -> Step:
    step = machine.request_cancel(record, cause, "ada", NOW)
    assert isinstance(step, Step)
    return step


@pytest.mark.parametrize("record", [queued(), RunRecord(id=1, state=RunState.CREATED), queued(attempt=3)])
def test_a_run_that_waits_is_cancelled_at_once(record: RunRecord) -> None:
    step = cancel(record)
    assert (step.record.state, step.record.reason, step.record.ended) == (RunState.CANCELLED, Reason.USER, NOW)
    assert names(step) == ["cancel_requested", "ended"]
    assert step.events[0][1] == {"by": "ada"}


@pytest.mark.parametrize("facts", [[], [Staged({})], [Running({})], [Running({}), ended(code=0)]])
def test_a_run_on_a_node_is_marked_and_ends_when_its_node_says_so(facts: list[NodeFact]) -> None:
    record = told(claimed(), *facts)
    step = cancel(record)
    assert (step.record.state, step.record.cancel) == (record.state, Cause.CANCELLED)
    assert names(step) == ["cancel_requested"]


def test_a_stopper_stops_where_a_person_cancels() -> None:
    step = cancel(queued(), Cause.STOPPED)
    assert (step.record.state, step.record.reason) == (RunState.STOPPED, Reason.PRUNED)
    assert names(step) == ["stop_requested", "ended"]


def test_cancel_is_idempotent_and_the_first_word_counts() -> None:
    asked = cancel(claimed()).record
    assert machine.request_cancel(asked, Cause.STOPPED, "grid", NOW) is DUPLICATE
    assert machine.request_cancel(cancel(queued()).record, Cause.CANCELLED, "ada", NOW) is DUPLICATE
    done = told(claimed(), ended(code=0), Captured({}))
    assert machine.request_cancel(done, Cause.CANCELLED, "ada", NOW) is DUPLICATE


def test_what_is_to_be_cancelled_is_never_tried_again() -> None:
    asked = cancel(claimed(failures_left=3, losses_left=3)).record
    assert names(machine.advance(asked, 1, Lost(), NOW)) == ["node_lost", "ended"]
    assert told(asked, Lost()).state is RunState.CANCELLED
    assert told(asked, Returned()).state is RunState.CANCELLED
    assert told(asked, ended(Cause.INFRA), Captured({})).state is RunState.CANCELLED
    failed = told(asked, ended(code=3), Captured({}))
    assert (failed.state, failed.reason) == (RunState.FAILED, Reason.EXIT_CODE), "it failed first, by itself"


def test_a_run_that_finished_first_is_not_cancelled() -> None:
    asked = cancel(told(claimed(), Running({}))).record
    assert told(asked, ended(code=0), Captured({})).state is RunState.COMPLETED


# --- parents ----------------------------------------------------------------------------------------------------------


def parent(**more: Any) -> RunRecord:
    planned = more.pop("planned", 2)
    return queued(children_planned=planned, remaining=more.pop("remaining", planned), **more)


def child(state: RunState, **more: Any) -> RunRecord:
    return RunRecord(id=2, state=state, parent=1, **more)


def test_a_parent_makes_children_one_by_one_and_is_never_on_a_node() -> None:
    first = machine.make_child(parent(), 1, "run1.1", 1)
    assert (first.record.state, first.record.remaining, first.record.open_children) == (RunState.RUNNING, 1, 1)
    assert not first.record.on_node
    assert first.events == (
        (E.CHILD_CREATED, {"child": "run1.1", "index": 1, "remaining": 1}),
        (E.REQUEUED, {"remaining": 1}),
    )
    second = machine.make_child(first.record, 2, "run1.2", 0)
    assert (second.record.remaining, second.record.open_children) == (0, 2)
    assert names(second) == ["child_created"], "there are no more: it does not go back into the queue"


def test_a_parent_hears_no_facts() -> None:
    running = machine.make_child(parent(), 1, "run1.1", 1).record
    for fact in ALL_FACTS:
        assert refusal(running, fact) is FENCED


def test_a_parent_ends_with_its_last_child() -> None:
    both = parent(remaining=0, open_children=2)
    one = machine.child_ended(both, child(RunState.COMPLETED, exit_code=0), NOW)
    assert (one.record.open_children, one.events, one.record.is_terminal) == (1, (), False)
    last = machine.child_ended(one.record, child(RunState.COMPLETED, exit_code=0), NOW)
    assert (last.record.state, last.record.exit_code, last.record.ended) == (RunState.COMPLETED, 0, NOW)
    assert last.events[0][0] is E.ENDED and last.events[0][1]["planned"] == 2


def test_a_parent_with_children_to_make_does_not_end() -> None:
    step = machine.child_ended(parent(remaining=1, open_children=1), child(RunState.FAILED), NOW)
    assert not step.record.is_terminal


def test_a_parent_fails_as_its_first_failed_child_did() -> None:
    record = parent(planned=3, remaining=0, open_children=3)
    record = machine.child_ended(record, child(RunState.FAILED, reason=Reason.SIGNAL, signal=9), NOW).record
    record = machine.child_ended(record, child(RunState.FAILED, reason=Reason.EXIT_CODE, exit_code=3), NOW).record
    record = machine.child_ended(record, child(RunState.COMPLETED, exit_code=0), NOW).record
    assert (record.state, record.reason, record.signal, record.exit_code) == (RunState.FAILED, Reason.SIGNAL, 9, None)
    assert (record.failed_children, record.message) == (2, "2 of its 3 children did not complete")


def test_a_parent_has_the_exit_code_of_its_first_failed_child() -> None:
    failed = child(RunState.FAILED, reason=Reason.EXIT_CODE, exit_code=3)
    record = machine.child_ended(parent(remaining=0, open_children=1), failed, NOW).record
    assert (record.exit_code, record.reason, record.ended) == (3, Reason.EXIT_CODE, NOW)


def test_a_job_of_one_child_is_a_parent_too() -> None:
    assert parent(planned=1).is_parent and not queued().is_parent


def test_a_child_that_was_cancelled_alone_leaves_the_parent_incomplete() -> None:
    cancelled = child(RunState.CANCELLED, reason=Reason.USER)
    record = machine.child_ended(parent(remaining=0, open_children=1), cancelled, NOW).record
    assert (record.state, record.reason) == (RunState.FAILED, Reason.DEPENDENCY)


def test_a_cancelled_parent_makes_no_more_children_and_waits_for_the_open_ones() -> None:
    asked = cancel(parent(remaining=1, open_children=1)).record
    assert (asked.remaining, asked.is_terminal) == (0, False)
    ended_child = machine.child_ended(asked, child(RunState.CANCELLED), NOW)
    over = ended_child.record
    assert (over.state, over.reason, over.ended) == (RunState.CANCELLED, Reason.USER, NOW)
    none_open = cancel(parent(remaining=1))
    assert none_open.record.state is RunState.CANCELLED
    assert names(none_open) == ["cancel_requested", "ended"]
