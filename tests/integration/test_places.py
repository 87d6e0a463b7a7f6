"""What `why` is told of a target: its nodes as their agents found them, what is free, and who has fallen silent."""

from __future__ import annotations

import json
import time

import pytest

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout.engine.sessions import Session, Sessions
from turnout.engine.target import Target
from turnout.hub.places import Places
from turnout.providers.local import LocalProvider
from turnout.schedule.lease import LeaseTable
from turnout.store.agents import set_gone, set_up
from turnout.wire.messages import Poll

LEASE, MARGIN = 30.0, 15.0
GB = 1 << 30
FACTS = {"cpus": 4, "memory": 24 * GB, "gpus": ["0", "1"]}


class Town:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.sessions = Sessions(LeaseTable(LEASE, MARGIN))
        targets = {"local": Target("local", LocalProvider({"nodes_directory": "/nonexistent"}))}
        self.places = Places(targets, lab.store, self.sessions)

    def node(self, *, heard: float = 0.0, **facts: object) -> int:
        """An agent that was last heard so many seconds ago."""
        agent = self.lab.agent().id
        self.lab.store.write(lambda tx: set_up(tx, agent, json.dumps({**FACTS, **facts})))
        session = self.sessions.open(Session(agent, "local", "node1", 4), time.monotonic() - heard)
        session.hear(Poll(slots=3.0, memory=20 * GB, gpus=1, held=[(1, 1)], jobs=[], wait=0.0))
        session.held[1, 1] = 7
        return agent


@pytest.fixture
def town(lab: Lab) -> Town:
    return Town(lab)


def test_a_node_that_is_up(town: Town) -> None:
    town.node()
    place = town.places.look_at("local", 7)
    assert place is not None
    (node,) = place.nodes
    assert (node.name, node.max_runs, node.memory, node.gpus) == ("node1", 4, 24 * GB, 2)
    assert (node.free_slots, node.free_memory, len(node.gpu_rooms), node.siblings) == (3.0, 20 * GB, 1, 1)
    assert node.is_up and not node.is_silent
    other = town.places.look_at("local", 8)
    assert other is not None and other.nodes[0].siblings == 0


def test_a_node_that_fell_silent(town: Town) -> None:
    town.node(heard=LEASE + 1)
    place = town.places.look_at("local", 7)
    assert place is not None and place.nodes[0].is_silent


def test_a_node_that_is_gone_tells_how_large_the_next_will_be(town: Town) -> None:
    agent = town.node(memory=8 * GB)
    town.sessions.drop(agent)
    town.lab.store.write(lambda tx: set_gone(tx, agent))
    place = town.places.look_at("local", 7)
    assert place is not None
    (node,) = place.nodes
    assert (node.max_runs, node.memory, node.is_up) == (4, 8 * GB, False) and place.up == []


def test_nobody_was_ever_there(town: Town) -> None:
    place = town.places.look_at("local", 7)
    assert place is not None and list(place.nodes) == []
    assert town.places.look_at("elsewhere", 7) is None
