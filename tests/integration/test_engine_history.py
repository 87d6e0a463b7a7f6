"""Whatever happens to runs, in whatever order: their rows can be rebuilt from their events, and the books agree."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.integration.storing import (
    Agent,
    Lab,
    captured,
    ended,
    framed,
    logged,
    output,
    returned,
    running,
    spool,
    staged,
)
from tests.integration.storing import lab as lab
from turnout.engine import steer
from turnout.model.event import EventName
from turnout.model.spec import Retry
from turnout.model.state import TERMINAL, RunState
from turnout.schedule.record import RunRecord
from turnout.schedule.replay import NOT_IN_EVENTS, PastEvent, replay
from turnout.store import schema
from turnout.store.ledger import RECORD_COLUMNS, is_waiting, to_record
from turnout.wire.messages import Fact, Grant

#: How a command may end.
ENDS: list[dict[str, Any]] = [
    {"exit_code": 0},
    {"exit_code": 3},
    {"exit_code": None, "cause": "signal", "signal": 9},
    {"exit_code": None, "cause": "cancelled", "signal": 15},
    {"exit_code": None, "cause": "infra", "message": "its supervisor died"},
]
KINDS = ["staged", "running", "ended", "captured", "returned", "log"]


class Life(RuleBasedStateMachine):
    """People submit and cancel, agents take, tell, repeat themselves, are lost and come back with what is stale."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        lab.clear()
        self.lab = lab
        self.agents = [lab.agent(), lab.agent()]
        self.granted: list[tuple[Agent, Grant]] = []
        self.created: dict[int, RunRecord] = {}
        self.states: dict[int, RunState] = {}

    @rule(
        failures=st.integers(0, 1), losses=st.integers(0, 2), repeat=st.sampled_from([1, 1, 3]),
        priority=st.integers(-1, 1),
    )  # fmt: skip
    def submit(self, failures: int, losses: int, repeat: int, priority: int) -> None:
        retry = Retry(failures=failures, losses=losses)
        self.lab.submit(repeat=repeat, priority=priority, retry=retry)

    @rule(who=st.integers(0, 1), slots=st.integers(1, 3))
    def take(self, who: int, slots: int) -> None:
        self.granted += [(self.agents[who], grant) for grant in self.agents[who].take(slots)]

    @precondition(lambda self: self.granted)
    @rule(
        which=st.integers(0, 99),
        kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4),
        end=st.sampled_from(ENDS),
    )
    def tell(self, which: int, kinds: list[str], end: dict[str, Any]) -> None:
        """Of a late grant more likely than of an early one, which is probably stale."""
        agent, grant = self.granted[-1 - which % len(self.granted)]
        facts: dict[str, Fact] = {
            "staged": staged(grant), "running": running(grant), "ended": ended(grant, **end),
            "captured": captured(grant, b"" if "log" not in kinds else b"out"), "returned": returned(grant),
        }  # fmt: skip
        pieces = [output(grant, b"out"), spool(grant, framed(logged(0, loss=1.0), {"p": {"a": 1}}, {"g": {"b": "c"}}))]
        agent.tell(*(facts[kind] for kind in kinds if kind != "log"), *(pieces if "log" in kinds else []))

    @precondition(lambda self: self.granted)
    @rule(which=st.integers(0, 99), end=st.sampled_from(ENDS))
    def finish(self, which: int, end: dict[str, Any]) -> None:
        agent, grant = self.granted[-1 - which % len(self.granted)]
        agent.tell(running(grant), output(grant, b"out"), ended(grant, **end), captured(grant, b"out"))

    @precondition(lambda self: self.states)
    @rule(which=st.integers(0, 99))
    def cancel(self, which: int) -> None:
        run = sorted(self.states)[which % len(self.states)]
        self.lab.store.write(lambda tx: steer.cancel(tx, [run], by="me"))

    @rule(who=st.integers(0, 1))
    def lose(self, who: int) -> None:
        self.lab.lose(self.agents[who])

    @invariant()
    def the_books_agree(self) -> None:
        runs = schema.runs
        with self.lab.store.read() as connection:
            rows = connection.execute(sa.select(*RECORD_COLUMNS, runs.c.waiting)).all()
            events = connection.execute(sa.select(schema.events).order_by(schema.events.c.seq)).all()
            attempts = connection.execute(sa.select(schema.attempts).order_by(schema.attempts.c.attempt)).all()
        records = {row[0]: to_record(row[:-1]) for row in rows}
        for row in rows:
            record = records[row[0]]
            self.check_row(record, waiting=row.waiting)
            self.check_history(record, [event for event in events if event.run_id == record.id])
            self.check_attempts(record, [attempt for attempt in attempts if attempt.run_id == record.id])
        self.check_children(records)

    def check_row(self, record: RunRecord, waiting: int | None) -> None:
        assert waiting == (-record.priority if is_waiting(record) else None)
        assert record.on_node == (record.agent is not None)
        assert (record.ended is not None) == record.is_terminal
        before = self.states.get(record.id, RunState.CREATED)
        assert before not in TERMINAL or record.state is before
        self.states[record.id] = record.state

    def check_history(self, record: RunRecord, events: list[Any]) -> None:
        """The row is what its events say."""
        assert [event.seq for event in events] == list(range(1, record.event_seq + 1))
        past = [PastEvent(event.time, EventName(event.event), json.loads(event.data)) for event in events]
        if record.id not in self.created:
            self.created[record.id] = as_created(record, past)
        rebuilt = replay(self.created[record.id], past)
        open_parent = (
            {"reason", "exit_code", "signal", "message"} if record.is_parent and not record.is_terminal else {}
        )
        for name in RunRecord._fields:
            if name not in NOT_IN_EVENTS and name not in open_parent:
                assert getattr(rebuilt, name) == getattr(record, name), (name, [event.event for event in events])

    def check_attempts(self, record: RunRecord, attempts: list[Any]) -> None:
        assert [row.attempt for row in attempts] == list(range(1, record.attempt + 1))
        assert [row.closed is None for row in attempts[:-1]] == [False] * (len(attempts) - 1 if attempts else 0)
        if attempts:
            assert (attempts[-1].closed is None) == record.on_node
            assert attempts[-1].agent == record.agent or not record.on_node

    def check_children(self, records: dict[int, RunRecord]) -> None:
        made = Counter(record.parent for record in records.values() if record.parent is not None)
        live = Counter(
            record.parent for record in records.values() if record.parent is not None and not record.is_terminal
        )
        for record in records.values():
            if record.is_parent:
                assert live[record.id] == record.open_children
                assert made[record.id] + record.remaining == record.children_planned or record.cancel is not None
                assert record.is_terminal == (record.remaining == 0 and not live[record.id])


def as_created(record: RunRecord, past: list[PastEvent]) -> RunRecord:
    """The run as it was before its first event; what is left of further attempts is counted back."""
    retried = [event.data["reason"] for event in past if event.event is EventName.REQUEUED and "reason" in event.data]
    lost = sum(reason in ("node_lost", "infra") for reason in retried)
    failed = sum(reason not in ("node_lost", "infra", "returned") for reason in retried)
    return RunRecord(
        id=record.id, state=RunState.CREATED, priority=record.priority, parent=record.parent,
        children_planned=record.children_planned, remaining=record.children_planned,
        failures_left=record.failures_left + failed, losses_left=record.losses_left + lost,
    )  # fmt: skip


def test_rows_can_be_rebuilt_from_their_events(lab: Lab) -> None:
    quick = settings(
        max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip

    class LifeHere(Life):
        def __init__(self) -> None:
            super().__init__(lab)

    run_state_machine_as_test(LifeHere, settings=quick)
