"""A place of several machines: what is wrong with one of them is none of the others."""

from __future__ import annotations

import pytest

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from tests.integration.test_engine_sites import Town
from tests.unit.test_pool_of_boxes import Box, pool_of
from turnout.model.spec import Resources
from turnout.plugin.provider import Failure, Provider
from turnout.plugin.transport import Broken
from turnout.store import schema


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

    def leave(self, seat: str) -> None:
        """The agent on that box had nothing to do for long, and ended."""
        for session in self.sessions.all():
            if session.node.startswith(seat):
                session.departing = True
                session.hang_up(0)
        self.boxes[seat].alive.clear()

    def started(self) -> dict[str, int]:
        """How many agents were ever started on each box."""
        return {name: len(box.launches) for name, box in self.boxes.items()}


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


@pytest.mark.parametrize(
    ("need", "small", "large"),
    [
        (Resources(gpus=1), {"gpus": 0}, {"gpus": 1}),
        (Resources(gpus=1, gpu_memory=40), {"gpus": 1, "gpu_memory": 24}, {"gpus": 1, "gpu_memory": 80}),
        (Resources(memory=64), {"memory": 16}, {"memory": 256}),
        (Resources(cpus=8), {"cpus": 4}, {"cpus": 16}),
    ],
    ids=["gpus", "gpu-memory", "memory", "cpus"],
)
def test_a_run_goes_on_to_the_box_that_has_what_it_needs(
    row: Row, need: Resources, small: dict[str, int], large: dict[str, int]
) -> None:
    row.lab.submit(("x",), resources=need)
    row.tend(0)
    row.greet(row.boxes["a"].launches[0], **{"cpus": 4, **small})
    row.tend(1)
    row.greet(row.boxes["b"].launches[0], **{"cpus": 4, **large})
    assert row.lab.states("run1") == ["starting"]
    assert row.started() == {"a": 1, "b": 1, "c": 0}


def test_a_box_that_is_known_to_be_too_small_is_not_started_again_for_it(row: Row) -> None:
    row.lab.submit(("x",), resources=Resources(gpus=1))
    row.tend(0)
    row.greet(row.boxes["a"].launches[0], cpus=4)
    row.tend(1)
    row.leave("a")
    row.tend(2, 3)
    row.restart()
    row.fleet.recover()
    row.boxes["b"].failure = Failure("No route to host")
    row.tend(4, 5, 6, 7)
    assert row.started() == {"a": 1, "b": 1, "c": 1}


def test_a_run_that_no_box_can_take_starts_each_once(row: Row) -> None:
    row.lab.submit(("x",), resources=Resources(gpus=1))
    for second, seat in enumerate("abc"):
        row.tend(3 * second)
        row.greet(row.boxes[seat].launches[0], cpus=4)
        row.leave(seat)
    row.tend(*range(10, 60))
    assert row.started() == {"a": 1, "b": 1, "c": 1} and row.agents() == []
    row.lab.submit(("y",))
    row.tend(60)
    assert row.started() == {"a": 2, "b": 1, "c": 1}, "for others it is as good as ever"


def test_after_a_while_it_is_tried_again_for_somebody_may_have_mended_it(row: Row) -> None:
    row.lab.submit(("x",), resources=Resources(gpus=1))
    for second, seat in enumerate("abc"):
        row.tend(3 * second)
        row.greet(row.boxes[seat].launches[0], cpus=4)
        row.leave(seat)
    row.tend(10)
    long_ago = schema.agents.update().where(schema.agents.c.seat == "b").values(ended=schema.agents.c.ended - 3600)
    row.lab.store.write(lambda tx: tx.connection.execute(long_ago))
    row.tend(11)
    assert row.started() == {"a": 1, "b": 2, "c": 1}
    row.greet(row.boxes["b"].launches[1], cpus=4, gpus=1)
    assert row.lab.states("run1") == ["starting"]


def test_nodes_of_a_jobs_own_go_where_there_is_room_for_them(row: Row) -> None:
    row.lab.submit(("x",))
    row.tend(0)
    row.lab.cancel("run1")
    row.greet(row.boxes["a"].launches[0], cpus=4)
    row.leave("a")
    row.tend(1, 2)
    row.lab.submit(("y",), resources=Resources(gpus=1), nodes=1)
    row.tend(3)
    assert row.started() == {"a": 1, "b": 1, "c": 0}
