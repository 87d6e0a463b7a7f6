"""What agents left that are gone: when somebody is sent to clear it away, and when not."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from turnout.engine.leftovers import Leftovers
from turnout.plugin.provider import Handle


class Place:
    """A machine with agents' directories; `processes` are there, each one sent to clear away is named ``clear-N``."""

    def __init__(self, nodes: Path) -> None:
        self.nodes = nodes
        self.processes: set[Handle] = set()
        self.sent: list[str] = []
        self.is_blind = False
        self.left = Leftovers(nodes, self.look, self.clear)

    def look(self, handles: list[Handle]) -> Collection[Handle] | None:
        return None if self.is_blind else self.processes & set(handles)

    def clear(self, directory: Path) -> Handle | None:
        self.sent.append(directory.name)
        handle = f"clear-{len(self.sent)}"
        self.processes.add(handle)
        return handle

    def agent(self, number: int, *runs: str) -> None:
        for name in ("runs", *(f"runs/{run}" for run in runs)):
            (self.nodes / str(number) / name).mkdir(parents=True)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_a_dead_agent_left_is_cleared_away_once(place: Place) -> None:
    place.agent(3, "7.1")
    place.left.add(3, "agent")
    place.left.tend(0.0)
    place.left.tend(1.0)
    assert place.sent == ["3"], "one is at work on it"
    shutil.rmtree(place.nodes / "3")
    place.processes.clear()
    for second in range(2, 10):
        place.left.tend(float(second))
    assert place.sent == ["3"]


def test_an_agent_that_is_still_there_will_see_to_it_itself(place: Place) -> None:
    place.agent(3, "7.1")
    place.processes.add("agent")
    place.left.add(3, "agent")
    place.left.tend(0.0)
    assert place.sent == []
    place.processes.clear()
    place.left.tend(1.0)
    assert place.sent == ["3"]


def test_an_agent_that_left_nothing_needs_nobody(place: Place) -> None:
    place.agent(3)
    place.left.add(3, "agent")
    place.left.add(4, "never had a directory")
    place.left.tend(0.0)
    assert place.sent == []


def test_who_could_not_clear_it_away_is_followed_by_another_later_and_later(place: Place) -> None:
    place.agent(3, "7.1")
    place.left.add(3, None)
    seconds = []
    for second in range(40):
        place.left.tend(float(second))
        if place.processes:
            seconds.append(second)
        place.processes.clear()
    assert seconds == [0, 1, 3, 7, 15, 31]


def test_when_nobody_can_look_nobody_is_sent(place: Place) -> None:
    place.agent(3, "7.1")
    place.left.add(3, "agent")
    place.is_blind = True
    place.left.tend(0.0)
    assert place.sent == []


def test_a_hub_that_begins_finds_what_was_left_before(place: Place) -> None:
    place.agent(1)
    place.agent(2, "5.1")
    place.agent(3, "7.1")
    (place.nodes / "notes").mkdir()
    place.left.recover(live=[3])
    place.left.tend(0.0)
    assert place.sent == ["2"], "1 left nothing, 3 is not gone"


def test_without_any_directory_there_is_nothing_to_find(tmp_path: Path) -> None:
    place = Place(tmp_path / "none")
    place.left.recover(live=[])
    place.left.tend(0.0)
    assert place.sent == []
