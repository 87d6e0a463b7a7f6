"""The simulator finds what it is for: break one rule, and some seed goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnout.model.state import RunState
from turnout.schedule import machine
from turnout.schedule.lease import LeaseTable
from turnout.schedule.record import RunRecord, Step
from turnout.testing.simulator import actions, family, seeking, simulate
from turnout.testing.simulator.agent import Agent
from turnout.testing.simulator.desk import Desk
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


# --- of searches ------------------------------------------------------------------------------------------------------


def make_a_proposal_twice(patch: pytest.MonkeyPatch) -> None:
    """The first one is given out again."""
    count = family.count_child

    def flawed(tx: Any, job: int) -> tuple[int, int]:
        index, left = count(tx, job)
        return (1, left) if index == 2 else (index, left)

    patch.setattr(family, "count_child", flawed)


def count_no_proposal_that_was_taken(patch: pytest.MonkeyPatch) -> None:
    standing = family.count_child

    def flawed(tx: Any, job: int) -> tuple[int, int]:
        before = tx.disk.searches[job]
        index, left = standing(tx, job)
        tx.disk.searches[job] = before
        return index, left

    patch.setattr(family, "count_child", flawed)


def decide_twice_without_a_guard(patch: pytest.MonkeyPatch) -> None:
    """As two desks would that look at the same search and do not lock it."""
    make = seeking.make

    def flawed(tx: Any, move: Any) -> Any:
        make(tx, move)
        return make(tx, move)

    patch.setattr(seeking, "is_as_it_was", lambda tx, seen: True)
    patch.setattr(seeking, "make", flawed)


def leave_the_other_parent_its_stock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(family, "drain", lambda tx, ledger, jobs: None)


def close_a_parent_that_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "_goes_on", lambda parent: bool(parent.open_children or parent.remaining or parent.on_node))


def go_on_with_a_cancelled_parent(patch: pytest.MonkeyPatch) -> None:
    stock = machine.stock

    def flawed(parent: RunRecord, **given: Any) -> Step:
        step = stock(parent._replace(cancel=None), **given)
        return Step(step.record._replace(cancel=parent.cancel), step.events)

    patch.setattr(machine, "stock", flawed)


def bind_parameters_anew(patch: pytest.MonkeyPatch) -> None:
    """Those of a run that is restarted are what its sampler would say now."""
    grant = actions._grant

    def flawed(disk: Any, record: RunRecord, slots: float) -> Any:
        made = grant(disk, record, slots)
        if record.attempt > 1 and "heard" in made.params:
            made.params["heard"] = -1
        return made

    patch.setattr(actions, "_grant", flawed)


def tell_again(patch: pytest.MonkeyPatch) -> None:
    inform = Desk._inform

    def flawed(self: Any, job: int, search: Any) -> Any:
        if job in self._minds:
            self._minds[job].told.discard(1)
        return inform(self, job, search)

    patch.setattr(Desk, "_inform", flawed)


def begin_with_nothing(patch: pytest.MonkeyPatch) -> None:
    """The next hub does not tell its sampler what the last one knew."""
    inform = Desk._inform

    def flawed(self: Any, job: int, search: Any) -> Any:
        disk, known = self._disk, job in self._minds
        mind = inform(self, job, search)
        if not known and disk.searches[job].made:
            mind.sampler.life.told.clear()
        return mind

    patch.setattr(Desk, "_inform", flawed)


def call_a_stopped_run_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "_GOOD", frozenset({RunState.COMPLETED}))


def run_as_many_as_fit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(family, "most", lambda disk, record, here: None)


def propose_without_an_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("turnout.search.budget._needed", lambda budget: 3)


#: Each with what the simulator says of it.
SEARCH_FLAWS = [
    (make_a_proposal_twice, "made runs twice"),
    (count_no_proposal_that_was_taken, "made 1 runs"),
    (decide_twice_without_a_guard, "was to"),
    (leave_the_other_parent_its_stock, "never ended"),
    (close_a_parent_that_is_open, "may make more children"),
    (go_on_with_a_cancelled_parent, "was to make no more children"),
    (bind_parameters_anew, "was to have"),
    (tell_again, "told"),
    (begin_with_nothing, "the last sampler of"),
    (call_a_stopped_run_a_failure, "counts wrong"),
    (run_as_many_as_fit, "runs at once"),
    (propose_without_an_end, "was to make"),
]


@pytest.mark.parametrize(("flaw", "verdict"), SEARCH_FLAWS, ids=[flaw.__name__ for flaw, _ in SEARCH_FLAWS])
def test_a_flaw_of_searches_is_found(flaw: Break, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flaw(monkeypatch)
    assert any(verdict in str(simulate(seed, searches=True).problem) for seed in range(SEEDS))
