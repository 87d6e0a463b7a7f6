"""The pool of boxes: what it tells of all, when some of them do not answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turnout.plugin.provider import Failure, Handle, Launch, Observation, Phase
from turnout.plugin.transport import Broken
from turnout.providers.pool import PoolProvider


class Box:
    """In the place of a machine; `failure` is what is wrong with it, `launches` are those it started."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.alive: set[Handle] = set()
        self.asked = 0
        self.launches: list[Launch] = []
        self.tokens: dict[str, Handle] = {}

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        self._answer()
        for launch in launches:
            self.launches.append(launch)
            self.tokens[launch.token] = f"{len(self.launches)}:9"
            self.alive.add(self.tokens[launch.token])
        return [self.tokens[launch.token] for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        self._answer()
        return {each: Observation(Phase.ACTIVE) for each in handles if each in self.alive}

    def cancel(self, handles: Sequence[Handle]) -> None:
        self._answer()
        self.alive -= set(handles)

    def find(self, token: str) -> Handle | None:
        self._answer()
        handle = self.tokens.get(token)
        return handle if handle in self.alive else None

    def rest(self) -> None:
        pass

    def _answer(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def boxes() -> dict[str, Box]:
    return {name: Box() for name in ("a", "b", "c")}


@pytest.fixture
def pool(boxes: dict[str, Box]) -> PoolProvider:
    return pool_of(boxes)


def pool_of(boxes: dict[str, Box]) -> PoolProvider:
    made = PoolProvider({"boxes": {"a": {"address": "a", "max-runs": 4}, "b": {"address": "b"}, "c": {"address": "c"}}})
    for name, box in boxes.items():
        made._boxes[name].provider = box  # type: ignore[assignment]
    return made


def launch(token: str, seat: str) -> Launch:
    return Launch(token=token, node=seat, directory="nodes/1", argv=(), stdin=b"", seat=seat)


def test_each_box_is_a_seat(pool: PoolProvider) -> None:
    assert list(pool.seats()) == ["a", "b", "c"]
    assert [pool.seat_max_runs(seat) for seat in pool.seats()] == [4, None, None]
    assert pool.submit([launch("t1", "a"), launch("t2", "c")]) == ["a/1:9", "c/1:9"]
    assert pool.find("t2") == "c/1:9" and pool.find("t3") is None


def test_what_cannot_be_looked_at_is_unknown_and_the_rest_is_told(pool: PoolProvider, boxes: dict[str, Box]) -> None:
    pool.submit([launch("t1", "a"), launch("t2", "b"), launch("t3", "c")])
    boxes["b"].failure = Failure("Connection timed out")
    boxes["c"].alive.clear()
    seen = pool.observe(["a/1:9", "b/1:9", "c/1:9"])
    assert {handle: each.phase for handle, each in seen.items()} == {"a/1:9": Phase.ACTIVE, "b/1:9": Phase.UNKNOWN}
    assert seen["b/1:9"].detail == "b: Connection timed out"


def test_one_that_does_not_answer_gets_nothing_new_for_a_while(pool: PoolProvider, boxes: dict[str, Box]) -> None:
    boxes["a"].failure = Failure("no Python there", kind="rejected")
    (answer,) = pool.submit([launch("t1", "a")])
    assert isinstance(answer, Failure) and answer.message == "a: no Python there"
    assert answer.kind == "transient", "what is wrong with one box is no reason to put off the others"
    assert list(pool.seats()) == ["b", "c"]
    asked = boxes["a"].asked
    assert pool.observe(["a/1:9"])["a/1:9"].phase is Phase.UNKNOWN
    assert boxes["a"].asked == asked, "it is left in peace"


def test_when_none_answers_all_are_tried_so_that_the_trouble_is_told(pool: PoolProvider, boxes: dict[str, Box]) -> None:
    for name, box in boxes.items():
        box.failure = Failure("gone")
        pool.submit([launch(name, name)])
    assert list(pool.seats()) == ["a", "b", "c"]


def test_a_lost_answer_of_one_is_no_answer_at_all(pool: PoolProvider, boxes: dict[str, Box]) -> None:
    """The core asks `find` then, which knows of those that were started."""
    boxes["b"].failure = Broken("Connection reset")
    with pytest.raises(Broken):
        pool.submit([launch("t1", "a"), launch("t2", "b")])
    assert pool.find("t1") == "a/1:9"
    with pytest.raises(Failure, match="b: Connection reset"):
        pool.find("t2")


def test_after_a_restart_too_only_the_box_of_a_launch_is_asked_for_it(boxes: dict[str, Box]) -> None:
    pool_of(boxes).submit([launch("t1", "a"), launch("t2", "b")])
    boxes["a"].alive.clear()
    boxes["b"].failure = Failure("Connection timed out")
    fresh = pool_of(boxes)
    assert fresh.find_at("a", "t1") is None and fresh.find_at("c", "t3") is None
    with pytest.raises(Failure, match="b: Connection timed out"):
        fresh.find_at("b", "t2")


def test_cancel_asks_all_and_then_complains(pool: PoolProvider, boxes: dict[str, Box]) -> None:
    pool.submit([launch("t1", "a"), launch("t2", "b")])
    boxes["a"].failure = Failure("gone")
    with pytest.raises(Failure, match="a: gone"):
        pool.cancel(["a/1:9", "b/1:9", "z/1:9"])
    assert not boxes["b"].alive


def test_a_pool_without_boxes_is_told() -> None:
    (finding,) = PoolProvider({}).check()
    assert finding.level == "problem" and "no boxes" in finding.what
