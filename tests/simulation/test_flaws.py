"""The simulator finds what it is for: break one rule, and some seed goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnout.schedule import machine
from turnout.schedule.lease import LeaseTable
from turnout.schedule.record import RunRecord, Step
from turnout.testing.simulator import actions, simulate
from turnout.testing.simulator.agent import Agent
from turnout.testing.simulator.node import Machine

SEEDS = 400

Break = Callable[[pytest.MonkeyPatch], None]


def hear_any_attempt(patch: pytest.MonkeyPatch) -> None:
    def anyone(self: Any, ref: tuple[int, int]) -> RunRecord | None:
        record = self._ledger.get(ref[0])
        return record if record is not None and record.on_node else None

    advance = machine.advance
    patch.setattr(actions._Telling, "_current", anyone)
    patch.setattr(machine, "advance", lambda record, _attempt, fact, now: advance(record, record.attempt, fact, now))


def take_pieces_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(actions, "fresh_part", lambda have, offset, size: 0)


def forget_idempotency_keys(patch: pytest.MonkeyPatch) -> None:
    submit = actions.submit

    def forgetful(tx: Any, submission: Any) -> Any:
        tx.disk.answers.clear()
        return submit(tx, submission)

    patch.setattr(actions, "submit", forgetful)


def count_records_twice(patch: pytest.MonkeyPatch) -> None:
    """The mark of a spool does not move with what was stored."""
    keep = actions._Telling._keep_records

    def forgetful(self: Any, key: Any, mark: Any, fresh: bytes) -> Any:
        keep(self, key, mark, fresh)
        return mark

    patch.setattr(actions._Telling, "_keep_records", forgetful)


def believe_every_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(actions._Telling, "_is_complete", lambda self, fact: True)
    patch.setattr("turnout.testing.simulator.shipping.Shipping.is_all_offered", lambda self: True)


def grant_to_the_gone(patch: pytest.MonkeyPatch) -> None:
    take = actions.take

    def flawed(tx: Any, taker: Any) -> Any:
        gone = taker.agent not in tx.disk.agents
        if gone:
            tx.disk.agents[taker.agent] = None
        try:
            return take(tx, taker)
        finally:
            if gone:
                del tx.disk.agents[taker.agent]

    patch.setattr(actions, "take", flawed)


def retry_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        machine, "_retry", lambda record, now: machine._requeue(record, {"reason": "returned", "attempt": 0}, now)
    )


def make_a_child_twice(patch: pytest.MonkeyPatch) -> None:
    make = machine.make_child

    def twice(parent: RunRecord, index: int, name: str, remaining: int) -> Step:
        step = make(parent, index, name, remaining)
        again = step.record.remaining + 1 if index == 1 and parent.open_children == 0 and parent.event_seq < 4 else 0
        return Step(step.record._replace(remaining=again or step.record.remaining), step.events)

    patch.setattr(machine, "make_child", twice)


def forget_what_began(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Agent, "_adopt", lambda self: self._disk.clear())


def forget_the_boot(patch: pytest.MonkeyPatch) -> None:
    lose = Machine.lose_power

    def same_boot(self: Machine) -> None:
        lose(self)
        self.boot = 0

    patch.setattr(Machine, "lose_power", same_boot)


def cancel_only_what_runs(patch: pytest.MonkeyPatch) -> None:
    """A cancelled run that is lost goes back into the queue."""
    advance = machine.advance

    def flawed(record: RunRecord, attempt: int, fact: Any, now: float) -> Any:
        return advance(record._replace(cancel=None), attempt, fact, now)

    patch.setattr(machine, "advance", flawed)


def never_give_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaseTable, "lost", lambda self, now: [])


FLAWS = [
    hear_any_attempt, take_pieces_anywhere, forget_idempotency_keys, count_records_twice,
    believe_every_end, grant_to_the_gone, retry_for_ever, make_a_child_twice, forget_what_began,
    forget_the_boot, cancel_only_what_runs, never_give_up,
]  # fmt: skip


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_flaw_is_found(flaw: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    flaw(monkeypatch)
    assert any(simulate(seed).problem is not None for seed in range(SEEDS))
