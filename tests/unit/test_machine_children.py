"""A parent and its children: each index once, and the parent ends once, with its last child, as its children did."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from turnout.model.event import EventName
from turnout.model.state import RunState
from turnout.schedule import machine
from turnout.schedule.record import Captured, Cause, Ended, Lost, NodeFact, Returned, Running, RunRecord, Step
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay

PARENT = 1
ENDS = {
    "completed": Ended(cause=Cause.EXIT, exit_code=0, data={"cause": "exit", "exit_code": 0}),
    "failed": Ended(cause=Cause.EXIT, exit_code=3, data={"cause": "exit", "exit_code": 3}),
    "killed": Ended(cause=Cause.SIGNAL, signal=9, data={"cause": "signal", "signal": 9}),
}


class Family(RuleBasedStateMachine):
    @initialize(planned=st.integers(2, 5), losses=st.integers(0, 1))
    def submit(self, planned: int, losses: int) -> None:
        self.planned, self.losses = planned, losses
        self.history: list[PastEvent] = []
        self.created = RunRecord(
            id=PARENT, state=RunState.CREATED, children_planned=planned, remaining=planned, losses_left=losses
        )
        self.runs: dict[int, RunRecord] = {PARENT: self.created}
        self.made: list[int] = []
        self.ends = 0
        self.cancelled = False
        self.drained = False
        self.apply(machine.enqueue(self.created, 1.0))

    @property
    def parent(self) -> RunRecord:
        return self.runs[PARENT]

    def apply(self, step: Step) -> None:
        """Writes a step as the engine does: a child that ended is told to its parent in the same transaction."""
        old, new = self.runs[step.record.id], step.record
        assert not old.is_terminal, "a terminal state is written once"
        self.runs[new.id] = new
        if new.id == PARENT:
            self.history += [PastEvent(1.0, name, data) for name, data in step.events]
            self.runs[PARENT] = new._replace(event_seq=len(self.history))
            self.ends += new.is_terminal
        elif new.is_terminal and not self.parent.is_terminal:
            self.apply(machine.child_ended(self.parent, new, 1.0))

    def some(self, data: st.DataObject, *, queued: bool = False) -> RunRecord:
        fits = [run for run in self.children() if (run.state is RunState.QUEUED if queued else run.on_node)]
        return data.draw(st.sampled_from(fits))

    def children(self) -> list[RunRecord]:
        return [run for run in self.runs.values() if run.id != PARENT]

    def has(self, *, queued: bool) -> bool:
        return any(run.state is RunState.QUEUED if queued else run.on_node for run in self.children())

    @precondition(lambda self: self.parent.remaining > 0 and not self.parent.on_node)
    @rule()
    def run_the_script(self) -> None:
        """A node has to run it before its first child."""
        self.apply(machine.claim(self.parent, node="n", agent=3, now=1.0))

    @precondition(lambda self: self.parent.on_node)
    @rule(how=st.sampled_from([*sorted(ENDS), "lost", "returned"]))
    def the_script_ends(self, how: str) -> None:
        away: dict[str, tuple[NodeFact, ...]] = {"lost": (Lost(message="gone"),), "returned": (Returned(),)}
        for fact in away[how] if how in away else (Running({}), ENDS[how], Captured({})):
            self.tell(self.parent, fact)

    @precondition(lambda self: self.parent.remaining > 0)
    @rule()
    def others_make_the_rest(self) -> None:
        self.drained = True
        self.apply(machine.drain(self.parent, 1.0))

    @precondition(lambda self: self.parent.remaining > 0 and not self.parent.on_node)
    @rule(times=st.integers(1, 3))
    def take(self, times: int) -> None:
        """A node takes the next children: each is made and claimed in one go."""
        for _ in range(min(times, self.parent.remaining)):
            index = self.parent.children_planned - self.parent.remaining + 1
            self.made.append(index)
            step = machine.make_child(self.parent, index, f"run1.{index}", self.parent.remaining - 1)
            names = [name for name, _ in step.events]
            requeued = [EventName.REQUEUED] if step.record.remaining else []
            assert names == [EventName.CHILD_CREATED, *requeued]
            self.apply(step)
            child = RunRecord(id=PARENT + index, state=RunState.CREATED, parent=PARENT, losses_left=self.losses)
            self.runs[child.id] = child
            self.apply(machine.enqueue(child, 1.0))
            self.apply(machine.claim(self.runs[child.id], node="n", agent=1, now=1.0))

    @precondition(lambda self: self.has(queued=True))
    @rule(data=st.data())
    def take_again(self, data: st.DataObject) -> None:
        self.apply(machine.claim(self.some(data, queued=True), node="n", agent=2, now=1.0))

    @precondition(lambda self: self.has(queued=False))
    @rule(data=st.data(), how=st.sampled_from(sorted(ENDS)))
    def end(self, data: st.DataObject, how: str) -> None:
        child = self.some(data)
        for fact in (Running({}), ENDS[how], Captured({})):
            self.tell(child, fact)

    @precondition(lambda self: self.has(queued=False))
    @rule(data=st.data(), fact=st.sampled_from([Lost(), Returned()]))
    def give_back(self, data: st.DataObject, fact: NodeFact) -> None:
        self.tell(self.some(data), fact)

    def tell(self, child: RunRecord, fact: NodeFact) -> None:
        step = machine.advance(self.runs[child.id], child.attempt, fact, 1.0)
        if isinstance(step, Step):
            self.apply(step)

    @precondition(lambda self: self.children())
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        self.cancel(data.draw(st.sampled_from(self.children())))

    @rule()
    def cancel_all(self) -> None:
        """As the engine does it: the parent and its children in one transaction, the parent first."""
        self.cancelled = self.cancelled or not self.parent.is_terminal
        for run in list(self.runs.values()):
            self.cancel(run)

    def cancel(self, run: RunRecord) -> None:
        step = machine.request_cancel(self.runs[run.id], Cause.CANCELLED, "me", 1.0)
        if isinstance(step, Step):
            self.apply(step)

    @invariant()
    def indices_are_given_out_once(self) -> None:
        if hasattr(self, "made"):
            assert self.made == list(range(1, len(self.made) + 1))
            assert len(self.made) <= self.planned

    @invariant()
    def the_parent_counts_right(self) -> None:
        if not hasattr(self, "made"):
            return
        parent, children = self.parent, self.children()
        assert parent.open_children == sum(not child.is_terminal for child in children)
        assert parent.failed_children == sum(
            child.is_terminal and child.state is not RunState.COMPLETED for child in children
        )
        is_cut = self.cancelled or self.drained or parent.cause is not None
        assert parent.remaining in ((0, self.planned - len(self.made)) if is_cut else (self.planned - len(self.made),))
        assert self.ends == parent.is_terminal

    @invariant()
    def the_parent_ends_with_its_last_child(self) -> None:
        if not hasattr(self, "made"):
            return
        parent, children = self.parent, self.children()
        all_over = all(child.is_terminal for child in children)
        assert parent.is_terminal == (all_over and parent.remaining == 0 and not parent.on_node)
        if not parent.is_terminal or self.cancelled:
            assert not parent.is_terminal or parent.state is RunState.CANCELLED
        elif parent.cause is not None:
            assert parent.state is RunState.FAILED and parent.message.startswith("its parent script failed")
        elif all(child.state is RunState.COMPLETED for child in children):
            assert (parent.state, parent.exit_code, parent.reason) == (RunState.COMPLETED, 0, None)
        else:
            assert parent.state is RunState.FAILED and parent.reason is not None and "children" in parent.message

    @invariant()
    def the_parent_is_what_its_events_say(self) -> None:
        if not hasattr(self, "made"):
            return
        rebuilt = replay(self.created, self.history)
        apart = {*NOT_IN_EVENTS, *(() if self.parent.is_terminal else ("reason", "exit_code", "signal", "message"))}
        for name in RunRecord._fields:
            if name not in apart:
                assert getattr(rebuilt, name) == getattr(self.parent, name), name


TestFamily = Family.TestCase
TestFamily.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
