"""The life of a run against a model of it in fifty lines: all facts in any order, from any attempt, cancels, losses."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from turnout.model.state import STEPS, TERMINAL, RunState
from turnout.schedule import machine
from turnout.schedule.record import (
    DUPLICATE,
    Captured,
    Cause,
    Ended,
    Lost,
    NodeFact,
    Refusal,
    Returned,
    Running,
    RunRecord,
    Staged,
    Step,
)
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay

ORDER = ["claimed", "staged", "running", "ended"]


@dataclass
class Model:
    """What a person would say becomes of a run. Words, no records."""

    failures: int
    losses: int
    state: str = "queued"
    attempt: int = 0
    seen: str = "claimed"
    end: tuple[str, int | None] = ("", None)
    cancelled: bool = False

    def tell(self, attempt: int, fact: str, end: tuple[str, int | None] = ("", None)) -> str:
        """``fenced``, ``duplicate`` or ``taken``."""
        if attempt != self.attempt or self.state not in ("starting", "running", "finishing"):
            return "fenced"
        if fact == "lost":
            self._over("cancelled" if self.cancelled else "failed", charge="losses")
        elif fact == "returned":
            if self.seen in ("running", "ended"):
                return "duplicate"
            self.state = "cancelled" if self.cancelled else "queued"
        elif fact == "captured":
            if self.seen != "ended":
                return "duplicate"
            self._captured(*self.end)
        elif ORDER.index(fact) <= ORDER.index(self.seen):
            return "duplicate"
        else:
            self.seen, self.end = fact, end
            self.state = {"staged": self.state, "running": "running", "ended": "finishing"}[fact]
        return "taken"

    def _captured(self, cause: str, code: int | None) -> None:
        if cause == "exit" and code == 0:
            self.state = "completed"
        elif cause in ("cancelled", "stopped") or (cause in ("infra", "preempted") and self.cancelled):
            self.state = "stopped" if cause == "stopped" else "cancelled"
        else:
            self._over("failed", charge="losses" if cause in ("infra", "preempted") else "failures")

    def _over(self, state: str, *, charge: str) -> None:
        """Ended so, unless nobody wants it ended and it may be tried again."""
        left = getattr(self, charge)
        if not self.cancelled and left > 0:
            setattr(self, charge, left - 1)
            state = "queued"
        self.state = state


ENDS = st.sampled_from(
    [("exit", 0), ("exit", 3), ("signal", None), ("timeout", None), ("oom", None), ("spawn_failed", None),
     ("infra", None), ("cancelled", None), ("stopped", None), ("preempted", None)]
)  # fmt: skip
FACTS: dict[str, NodeFact] = {
    "staged": Staged({}), "running": Running({}), "captured": Captured({}), "returned": Returned(), "lost": Lost(),
}  # fmt: skip


class Life(RuleBasedStateMachine):
    @initialize(failures=st.integers(0, 2), losses=st.integers(0, 2))
    def submit(self, failures: int, losses: int) -> None:
        self.now = 1.0
        self.history: list[PastEvent] = []
        self.created = RunRecord(id=1, state=RunState.CREATED, failures_left=failures, losses_left=losses)
        self.record = self.created
        self.model = Model(failures, losses)
        self.apply(machine.enqueue(self.record, self.now))

    def apply(self, step: Step) -> None:
        old, new = self.record, step.record
        assert old.state not in TERMINAL, "a terminal state is written once"
        assert new.state is old.state or new.state in STEPS[old.state], f"{old.state} to {new.state} is no step"
        self.history += [PastEvent(self.now, name, data) for name, data in step.events]
        self.record = new._replace(event_seq=len(self.history))
        self.now += 1.0

    def tell(self, back: int, name: str, fact: NodeFact, end: tuple[str, int | None] = ("", None)) -> None:
        attempt = self.record.attempt - back
        answer = machine.advance(self.record, attempt, fact, self.now)
        expected = self.model.tell(attempt, name, end)
        if isinstance(answer, Refusal):
            assert answer.value == expected
        else:
            assert expected == "taken"
            self.apply(answer)

    @precondition(lambda self: self.record.state is RunState.QUEUED)
    @rule(agent=st.integers(1, 3))
    def claim(self, agent: int) -> None:
        self.apply(machine.claim(self.record, node="n", agent=agent, now=self.now))
        self.model.state, self.model.seen = "starting", "claimed"
        self.model.attempt += 1

    @rule(name=st.sampled_from(sorted(FACTS)), back=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def fact(self, name: str, back: int) -> None:
        self.tell(back, name, FACTS[name])

    @rule(end=ENDS, back=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def ended(self, end: tuple[str, int | None], back: int) -> None:
        cause, code = end
        self.tell(
            back, "ended", Ended(cause=Cause(cause), exit_code=code, data={"cause": cause, "exit_code": code}), end
        )

    @rule(end=ENDS)
    def ended_and_captured(self, end: tuple[str, int | None]) -> None:
        self.ended(end, 0)
        self.fact("captured", 0)

    @rule()
    def cancel(self) -> None:
        answer = machine.request_cancel(self.record, Cause.CANCELLED, "me", self.now)
        if self.model.cancelled or self.record.is_terminal:
            assert answer is DUPLICATE
            return
        assert isinstance(answer, Step)
        self.apply(answer)
        self.model.cancelled = True
        if self.model.state == "queued":
            self.model.state = "cancelled"

    @rule()
    def preempt(self) -> None:
        """Its attempt is to end for another: that alone changes nothing, whatever becomes of the attempt."""
        answer = machine.request_preempt(self.record, "me")
        if self.record.on_node and self.record.cancel is None:
            assert isinstance(answer, Step)
            self.apply(answer)
        else:
            assert answer is DUPLICATE

    @invariant()
    def is_what_the_model_says(self) -> None:
        if hasattr(self, "model"):
            record, model = self.record, self.model
            assert (record.state, record.attempt) == (model.state, model.attempt)
            assert (record.failures_left, record.losses_left) == (model.failures, model.losses)
            assert record.is_cancelled == model.cancelled
            assert record.cancel is not Cause.PREEMPTED or record.on_node or record.is_terminal
            assert (record.node is None and record.agent is None) or record.on_node or record.is_terminal
            assert (record.ended is not None) == record.is_terminal
            assert (record.reason is not None) or record.state is not RunState.FAILED, "a failure has a reason"

    @invariant()
    def is_what_its_events_say(self) -> None:
        if hasattr(self, "model"):
            rebuilt = replay(self.created, self.history)
            for name in RunRecord._fields:
                if name not in NOT_IN_EVENTS:
                    assert getattr(rebuilt, name) == getattr(self.record, name), name


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
