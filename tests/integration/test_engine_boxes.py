"""A place of several machines: what is wrong with one of them is none of the others."""

from __future__ import annotations

import pytest

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from tests.integration.test_engine_sites import Town
from tests.unit.test_pool_of_boxes import Box, pool_of
from turnout.plugin.provider import Failure, Provider
from turnout.plugin.transport import Broken


class Row(Town):
    """The boxes ``a``, ``b`` and ``c`` as one place; a hub that starts knows nothing of what the last one asked."""

    def __init__(self, lab: Lab) -> None:
        self.boxes = {name: Box() for name in ("a", "b", "c")}
        super().__init__(lab)

    def provider(self) -> Provider:
        return pool_of(self.boxes)

    def hands(self) -> dict[str, str | None]:
        """The handles of the agents, by the box they are for."""
        return {agent.seat: agent.handle for agent in self.agents()}


@pytest.fixture
def row(lab: Lab) -> Row:
    return Row(lab)


def test_a_box_that_broke_off_amid_a_start_keeps_no_run_from_the_others(row: Row) -> None:
    row.boxes["a"].failure = Broken("Connection reset")
    row.lab.submit(("x",))
    row.tend(0, *range(1, 20))
    assert row.hands() == {"a": None, "b": "b/1:9"}, "it may be there, so no other is started on that box"
    row.greet(row.boxes["b"].launches[0])
    assert row.lab.states("run1") == ["starting"]


def test_for_as_long_as_it_is_down_the_others_are_started_as_ever(row: Row) -> None:
    row.boxes["a"].failure = Broken("Connection reset")
    row.lab.submit(("x",))
    row.tend(0, 1, 2, 3)
    row.greet(row.boxes["b"].launches[0])
    for second in range(4, 200):
        for session in row.sessions.all():
            row.sessions.renew(session.agent, row.start + second)
        row.tend(second)
    row.lab.submit(("y",))
    row.tend(200, 201)
    assert row.hands() == {"a": None, "b": "b/1:9", "c": "c/1:9"}


def test_it_is_asked_less_and_less_and_taken_up_when_it_is_back(row: Row) -> None:
    row.boxes["a"].failure = Broken("Connection reset")
    row.lab.submit(("x",))
    row.tend(0)
    row.lab.cancel("run1")
    before = row.boxes["a"].asked
    row.tend(*range(1, 300))
    assert 8 <= row.boxes["a"].asked - before <= 14
    row.boxes["a"].failure = None
    row.tend(400)
    assert row.hands() == {}, "it was never started"


def test_who_cannot_be_looked_for_keeps_no_other_from_it(row: Row) -> None:
    """All three were asked at once, and of none the answer came."""
    row.boxes["a"].failure = Broken("Connection reset")
    row.lab.submit(*[("x",)] * 3)
    row.tend(0)
    assert row.hands() == {"a": None, "b": None, "c": None}
    row.tend(1, 2)
    assert row.hands() == {"a": None, "b": "b/1:9", "c": "c/1:9"}


def test_nobody_waits_for_an_agent_on_a_box_that_went_away(row: Row) -> None:
    row.lab.submit(("x",))
    row.tend(0)
    assert row.hands() == {"a": "a/1:9"}
    row.boxes["a"].failure = Failure("No route to host")
    row.tend(*range(1, 20))
    assert set(row.hands()) == {"a", "b"}


def test_after_a_restart_a_dead_agent_is_replaced_while_another_box_is_down(row: Row) -> None:
    row.lab.submit(*[("x",)] * 2)
    row.tend(0)
    for name in ("a", "b"):
        row.greet(row.boxes[name].launches[0])
    row.restart()
    row.fleet.recover()
    row.boxes["a"].alive.clear()
    row.boxes["b"].failure = Failure("No route to host")
    row.tend(0, 1, 2, 3)
    assert len(row.boxes["a"].launches) == 2 and row.hands()["a"] == "a/2:9"
    assert row.lab.states("run1", "run2") == ["starting", "starting"]


def test_a_dead_agent_is_replaced_at_once_however_long_others_could_not_be_started(row: Row) -> None:
    row.lab.submit(("x",))
    row.tend(0)
    row.greet(row.boxes["a"].launches[0])
    row.target.tried(row.start + 1, "no agent could be started: b: No route to host", wait=60)
    row.boxes["a"].alive.clear()
    for session in row.sessions.all():
        session.hang_up(0)
    row.tend(2, 3, 4)
    assert row.hands() == {"a": "a/2:9"}
