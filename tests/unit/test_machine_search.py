"""A parent that a sampler feeds: it waits for more while it is open, ends with its last child, and says what became."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from turnout.model.event import EventName
from turnout.model.state import Reason, RunState
from turnout.schedule import machine
from turnout.schedule.record import Captured, Cause, Ended, Lost, NodeFact, Returned, Running, RunRecord, Stage, Step
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay

PARENT = 1
CREATED = RunRecord(id=PARENT, state=RunState.CREATED, children_planned=4, stage=Stage.OPEN, losses_left=1)
ENDS = {
    "completed": Ended(cause=Cause.EXIT, exit_code=0, data={"cause": "exit", "exit_code": 0}),
    "failed": Ended(cause=Cause.EXIT, exit_code=3, data={"cause": "exit", "exit_code": 3}),
}


def parent(**more: object) -> RunRecord:
    return machine.enqueue(CREATED, 1.0).record._replace(**more)  # type: ignore[arg-type]


def child(state: RunState, reason: Reason | None = None) -> RunRecord:
    return RunRecord(id=2, state=state, reason=reason, parent=PARENT)


def stocked(record: RunRecord, ready: int = 0, *, is_open: bool = True, message: str = "") -> Step:
    return machine.stock(record, ready=ready, planned=4, is_open=is_open, now=2.0, message=message)


def test_what_is_proposed_can_be_made() -> None:
    step = stocked(parent(), 3)
    assert (step.record.remaining, step.record.stage, step.record.state) == (3, Stage.OPEN, RunState.QUEUED)
    assert step.events == ((EventName.PROPOSED, {"ready": 3, "planned": 4, "open": True}),)


def test_what_changes_nothing_is_not_written() -> None:
    record = stocked(parent(), 3).record
    assert stocked(record, 3) == Step(record, ())


def test_it_is_not_over_while_it_is_open() -> None:
    made = machine.make_child(stocked(parent(), 1).record, 1, "run1.1", 0).record
    after = machine.child_ended(made, child(RunState.COMPLETED), 2.0).record
    assert (after.state, after.open_children, after.remaining) == (RunState.RUNNING, 0, 0)
    assert stocked(after, is_open=False).record.state is RunState.COMPLETED


def test_closed_it_ends_with_its_last_child() -> None:
    made = machine.make_child(stocked(parent(), 1).record, 1, "run1.1", 0).record
    closed = stocked(made, is_open=False).record
    assert not closed.is_terminal
    assert machine.child_ended(closed, child(RunState.COMPLETED), 2.0).record.state is RunState.COMPLETED


def test_closed_without_a_child_it_is_over_at_once() -> None:
    step = stocked(parent(), is_open=False)
    assert step.record.state is RunState.COMPLETED
    assert [name for name, _ in step.events] == [EventName.PROPOSED, EventName.ENDED]


@pytest.mark.parametrize(
    ("states", "became"),
    [
        ([RunState.STOPPED], RunState.COMPLETED),
        ([RunState.FAILED, RunState.STOPPED], RunState.COMPLETED),
        ([RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED], RunState.COMPLETED),
        ([RunState.FAILED, RunState.FAILED], RunState.FAILED),
        ([RunState.CANCELLED], RunState.FAILED),
    ],
)
def test_it_fails_only_if_none_of_its_children_was_good(states: list[RunState], became: RunState) -> None:
    record = parent(open_children=len(states), stage=Stage.CLOSED, state=RunState.RUNNING)
    for state in states:
        record = machine.child_ended(record, child(state, Reason.EXIT_CODE), 2.0).record
    assert record.state is became


def test_it_fails_with_what_is_wrong_although_children_were_stopped_for_that() -> None:
    record = parent(open_children=1, state=RunState.RUNNING)
    closed = stocked(record, is_open=False, message="none of its first 2 runs completed").record
    over = machine.child_ended(closed, child(RunState.STOPPED, Reason.BUDGET), 2.0).record
    assert (over.state, over.message) == (RunState.FAILED, "none of its first 2 runs completed")


@pytest.mark.parametrize("is_open", [True, False])
def test_one_that_was_cancelled_gets_nothing_more(is_open: bool) -> None:
    record = parent(open_children=1, state=RunState.RUNNING, remaining=2)
    asked = machine.request_cancel(record, Cause.CANCELLED, "me", 2.0)
    assert isinstance(asked, Step) and (asked.record.remaining, asked.record.stage) == (0, Stage.CLOSED)
    assert stocked(asked.record, 3, is_open=is_open) == Step(asked.record, ())
    assert machine.child_ended(asked.record, child(RunState.CANCELLED), 2.0).record.state is RunState.CANCELLED


def test_one_whose_script_failed_gets_nothing_more() -> None:
    waiting = stocked(parent(open_children=1), 2).record
    claimed = machine.claim(waiting, node="n", agent=3, now=1.0)
    record, events = claimed.record, list(claimed.events)
    for fact in (Running({}), ENDS["failed"], Captured({})):
        step = machine.advance(record, 1, fact, 1.0)
        assert isinstance(step, Step)
        record, events = step.record, [*events, *step.events]
    assert (record.stage, record.remaining) == (Stage.CLOSED, 0)
    rebuilt = replay(waiting, [PastEvent(1.0, name, data) for name, data in events])
    assert (rebuilt.stage, rebuilt.remaining) == (Stage.CLOSED, 0)
    assert stocked(record, 3) == Step(record, ())


def test_one_whose_script_runs_keeps_what_is_proposed_meanwhile() -> None:
    record = machine.claim(stocked(parent(), 1).record, node="n", agent=3, now=1.0).record
    for fact in (Running({}), ENDS["completed"]):
        step = machine.advance(record, 1, fact, 1.0)
        assert isinstance(step, Step)
        record = step.record
    record = stocked(record, 2).record
    over = machine.advance(record, 1, Captured({}), 1.0)
    assert isinstance(over, Step) and (over.record.state, over.record.remaining) == (RunState.QUEUED, 2)


def on_node() -> RunRecord:
    queued = machine.enqueue(RunRecord(id=2, state=RunState.CREATED, parent=PARENT), 1.0).record
    return machine.claim(queued, node="n", agent=3, now=1.0).record


@pytest.mark.parametrize(("cause", "reason"), [(Cause.STOPPED, Reason.PRUNED), (Cause.BUDGET, Reason.BUDGET)])
def test_a_run_that_is_asked_to_end_is_stopped_with_the_reason(cause: Cause, reason: Reason) -> None:
    asked = machine.request_cancel(on_node(), cause, "search", 2.0, "it is bad")
    assert isinstance(asked, Step) and not asked.record.is_terminal and cause.order == "stopped"
    record = asked.record
    ended = Ended(cause=Cause.STOPPED, signal=15, message="SIGTERM", data={"cause": "stopped", "signal": 15})
    for fact in (Running({}), ended, Captured({})):
        step = machine.advance(record, 1, fact, 2.0)
        assert isinstance(step, Step)
        record = step.record
    assert (record.state, record.reason, record.message) == (RunState.STOPPED, reason, "it is bad")


def test_a_run_that_completes_before_it_hears_of_it_has_completed() -> None:
    asked = machine.request_cancel(on_node(), Cause.STOPPED, "search", 2.0, "it is bad")
    assert isinstance(asked, Step)
    record = asked.record
    for fact in (Running({}), ENDS["completed"], Captured({})):
        step = machine.advance(record, 1, fact, 2.0)
        assert isinstance(step, Step)
        record = step.record
    assert record.state is RunState.COMPLETED


class Fed(RuleBasedStateMachine):
    """One parent of several that a search has: others make some of what is proposed."""

    @initialize()
    def submit(self) -> None:
        self.history: list[PastEvent] = []
        self.runs: dict[int, RunRecord] = {PARENT: CREATED}
        self.asked = self.made = self.ends = 0
        self.is_cut = False
        self.apply(machine.enqueue(CREATED, 1.0))

    @property
    def parent(self) -> RunRecord:
        return self.runs[PARENT]

    def children(self) -> list[RunRecord]:
        return [run for run in self.runs.values() if run.id != PARENT]

    def apply(self, step: Step) -> None:
        """Writes a step as the engine does: a child that ended is told to its parent in the same transaction."""
        old, new = self.runs[step.record.id], step.record
        assert not old.is_terminal or new == old, "a terminal state is written once"
        self.runs[new.id] = new
        if new.id == PARENT:
            self.history += [PastEvent(1.0, name, data) for name, data in step.events]
            self.runs[PARENT] = new._replace(event_seq=len(self.history))
            self.ends += new.is_terminal and not old.is_terminal
        elif new.is_terminal and not self.parent.is_terminal:
            self.apply(machine.child_ended(self.parent, new, 1.0))

    def stock(self, ready: int, *, is_open: bool) -> None:
        planned = max(1, self.asked)
        self.apply(machine.stock(self.parent, ready=ready, planned=planned, is_open=is_open, now=1.0))

    @precondition(lambda self: not self.parent.is_terminal)
    @rule(count=st.integers(1, 3), is_open=st.sampled_from([True, True, True, False]))
    def propose(self, count: int, is_open: bool) -> None:
        """Open again, too: it was extended."""
        self.asked += count
        self.stock(self.asked - self.made, is_open=is_open)

    @precondition(lambda self: self.parent.remaining > 0)
    @rule()
    def pause(self) -> None:
        self.stock(0, is_open=True)

    @precondition(lambda self: self.parent.remaining > 0 and not self.parent.on_node)
    @rule(times=st.integers(1, 3))
    def take(self, times: int) -> None:
        for _ in range(min(times, self.parent.remaining)):
            self.made += 1
            self.apply(machine.make_child(self.parent, self.made, f"run1.{self.made}", self.asked - self.made))
            born = RunRecord(id=PARENT + self.made, state=RunState.CREATED, parent=PARENT, losses_left=1)
            self.runs[born.id] = born
            self.apply(machine.enqueue(born, 1.0))
            self.apply(machine.claim(self.runs[born.id], node="n", agent=1, now=1.0))

    @precondition(lambda self: self.parent.remaining > 0)
    @rule()
    def another_parent_takes_the_rest(self) -> None:
        self.made = self.asked
        self.stock(0, is_open=self.parent.stage == Stage.OPEN)

    @precondition(lambda self: self.parent.remaining > 0 and not self.parent.on_node)
    @rule()
    def run_the_script(self) -> None:
        self.apply(machine.claim(self.parent, node="n", agent=3, now=1.0))

    @precondition(lambda self: self.parent.on_node)
    @rule(how=st.sampled_from(["completed", "completed", "failed", "lost", "returned"]))
    def the_script_ends(self, how: str) -> None:
        away: dict[str, tuple[NodeFact, ...]] = {"lost": (Lost(message="gone"),), "returned": (Returned(),)}
        for fact in away[how] if how in away else (Running({}), ENDS[how], Captured({})):
            self.tell(self.parent, fact)
        self.is_cut = self.is_cut or self.parent.makes_no_more

    def some(self, data: st.DataObject, *, queued: bool) -> RunRecord:
        return data.draw(st.sampled_from(self.those(queued=queued)))

    def those(self, *, queued: bool) -> list[RunRecord]:
        return [run for run in self.children() if (run.state is RunState.QUEUED if queued else run.on_node)]

    @precondition(lambda self: self.those(queued=True))
    @rule(data=st.data())
    def take_again(self, data: st.DataObject) -> None:
        self.apply(machine.claim(self.some(data, queued=True), node="n", agent=2, now=1.0))

    @precondition(lambda self: self.those(queued=False))
    @rule(data=st.data(), how=st.sampled_from([*sorted(ENDS), "lost"]))
    def end(self, data: st.DataObject, how: str) -> None:
        run = self.some(data, queued=False)
        for fact in (Lost(),) if how == "lost" else (Running({}), ENDS[how], Captured({})):
            self.tell(run, fact)

    @precondition(lambda self: self.children())
    @rule(data=st.data(), cause=st.sampled_from([Cause.STOPPED, Cause.BUDGET, Cause.CANCELLED]))
    def ask_to_end(self, data: st.DataObject, cause: Cause) -> None:
        run = data.draw(st.sampled_from(self.children()))
        self.request(run, cause)
        if self.runs[run.id].on_node:
            said = self.runs[run.id].cancel
            assert said is not None
            order = Cause(said.order)
            for fact in (Ended(cause=order, signal=15, data={"cause": order, "signal": 15}), Captured({})):
                self.tell(self.runs[run.id], fact)

    @rule(is_meant=st.sampled_from([False, False, False, True]))
    def cancel_all(self, is_meant: bool) -> None:
        if not is_meant:
            return
        self.is_cut = self.is_cut or not self.parent.is_terminal
        for run in list(self.runs.values()):
            self.request(run, Cause.CANCELLED)

    def request(self, run: RunRecord, cause: Cause) -> None:
        step = machine.request_cancel(self.runs[run.id], cause, "me", 1.0, "because")
        if isinstance(step, Step):
            self.apply(step)

    def tell(self, run: RunRecord, fact: NodeFact) -> None:
        step = machine.advance(self.runs[run.id], run.attempt, fact, 1.0)
        if isinstance(step, Step):
            self.apply(step)

    @invariant()
    def it_counts_right(self) -> None:
        if not hasattr(self, "asked"):
            return
        over = [run for run in self.children() if run.is_terminal]
        good = sum(run.state in (RunState.COMPLETED, RunState.STOPPED) for run in over)
        counted = (self.parent.open_children, self.parent.good_children, self.parent.failed_children)
        assert counted == (len(self.children()) - len(over), good, len(over) - good)
        assert 0 <= self.parent.remaining <= self.asked - self.made
        assert self.ends == self.parent.is_terminal

    @invariant()
    def it_is_over_when_there_is_nothing_to_wait_for(self) -> None:
        if not hasattr(self, "asked"):
            return
        record = self.parent
        waits = record.open_children or record.remaining or record.on_node or record.stage == Stage.OPEN
        assert record.is_terminal == (not waits)
        assert not self.is_cut or (record.remaining, record.stage == Stage.OPEN) == (0, False), "it makes no more"

    @invariant()
    def it_says_what_became_of_its_children(self) -> None:
        if not hasattr(self, "asked") or not self.parent.is_terminal or self.parent.is_cancelled:
            return
        record = self.parent
        is_failed = record.cause is not None or (record.failed_children > 0 and not record.good_children)
        assert record.state is (RunState.FAILED if is_failed else RunState.COMPLETED)

    @invariant()
    def it_is_what_its_events_say(self) -> None:
        if not hasattr(self, "asked"):
            return
        rebuilt = replay(CREATED, self.history)
        apart = {*NOT_IN_EVENTS, *(() if self.parent.is_terminal else ("reason", "exit_code", "signal", "message"))}
        for name in RunRecord._fields:
            if name not in apart:
                assert getattr(rebuilt, name) == getattr(self.parent, name), name


TestFed = Fed.TestCase
TestFed.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
