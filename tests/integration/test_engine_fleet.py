"""Agents on targets: started where runs wait, watched, started again, given up; by a provider that does as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.harness import wait_until
from tests.integration.storing import PLENTY, Lab, output, running
from tests.integration.storing import Agent as Hand
from tests.integration.storing import lab as lab
from turnout.engine.dispatch import Dispatch
from turnout.engine.fleet import Fleet
from turnout.engine.loop import Loop
from turnout.engine.sessions import Session, Sessions
from turnout.engine.target import Target, Terms, unserved
from turnout.errors import NotFound
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.schedule.lease import LeaseTable
from turnout.store.agents import Agent, find_by_token, live_agents
from turnout.wire.messages import Hello, NodeFacts, Poll, Stop
from turnout.wire.protocol import PROTOCOL

LEASE = 10.0


class Yard(Provider):
    """A provider in memory: `launches` is what it started, `phases` how that is, `refusal` what it answers instead."""

    name = "yard"
    capabilities = Capabilities(same_host=True)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self.launches: list[Launch] = []
        self.phases: dict[Handle, Phase] = {}
        self.refusal: Exception | None = None
        self.raises = False
        self.lost_mind: Exception | None = None
        """what `find` raises"""
        self.searches = 0

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        if self.refusal is not None and (self.raises or not isinstance(self.refusal, Failure)):
            raise self.refusal
        if isinstance(self.refusal, Failure):
            return [self.refusal for _ in launches]
        self.launches += launches
        handles = [f"process-{len(self.launches) + index}" for index in range(len(launches))]
        self.phases.update(dict.fromkeys(handles, Phase.ACTIVE))
        return [*handles]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        if self.refusal is not None:
            raise self.refusal
        return {handle: Observation(self.phases[handle]) for handle in handles if handle in self.phases}

    def cancel(self, handles: Sequence[Handle]) -> None:
        raise AssertionError("nobody asked for that")

    def find(self, token: str) -> Handle | None:
        self.searches += 1
        if self.lost_mind is not None:
            raise self.lost_mind
        return f"found-{token}" if f"found-{token}" in self.phases else None

    def check(self) -> list[Finding]:
        return []


class World:
    """A hub's engine with two targets, ``local`` and the rarely used ``other``, and a clock that the test turns."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.yard, self.other = Yard({}), Yard({})
        self.start = time.monotonic()
        self.nodes = Path("/nodes")
        self.restart()

    def restart(self) -> None:
        self.forgotten: list[int] = []
        self.sessions = Sessions(LeaseTable(LEASE, 5.0))
        self.dispatch = Dispatch(self.lab.store, self.sessions, max_runs=lambda agent, cpus: 2, idle=lambda agent: 1.0)
        self.target = Target("local", self.yard)
        self.fleet = Fleet(
            self.lab.store, self.sessions, self.dispatch, {"local": self.target, "other": Target("other", self.other)},
            self.nodes, "/agent.sock", "here", self.forgotten.append,
        )  # fmt: skip

    def tend(self, *seconds: float) -> None:
        """One round at each of these times."""
        for second in seconds:
            self.fleet.tend(self.start + second)

    @property
    def session(self) -> Session:
        """What is known of the only agent."""
        (found,) = self.sessions.all()
        return found

    def token(self) -> str:
        """What the process that was launched last was given to make itself known by."""
        return str(json.loads(self.yard.launches[-1].stdin)["token"])

    def known_by(self, token: str) -> Agent | None:
        return self.lab.read(lambda connection: find_by_token(connection, token))

    def greet(self) -> Hand:
        """The process that was launched last says hello and that it has room for one run."""
        agent = self.known_by(self.token())
        assert agent is not None
        facts = NodeFacts("host", 2, PLENTY, [], "boot", 1, "3.11", "/")
        self.dispatch.welcome(agent, Hello(PROTOCOL, "1", facts, [])).result(30)
        self.dispatch.hear(self.session, Poll(1, PLENTY, 0, [], [], 0.0))
        taking = self.dispatch.take(self.session)
        assert taking is not None
        taking.result(30)
        return Hand(self.lab, agent.id)


@pytest.fixture
def world(lab: Lab) -> World:
    return World(lab)


def test_where_no_run_waits_no_agent_is_started(world: World) -> None:
    world.tend(0, 1)
    assert world.yard.launches == [] and world.fleet.is_idle()


def test_where_runs_wait_one_agent_is_started(world: World) -> None:
    world.lab.submit(*[("x",)] * 5)
    world.tend(0, 1, 2)
    (launch,) = world.yard.launches
    assert (launch.node, launch.directory) == ("here", "/nodes/1")
    (agent,) = world.fleet.agents()
    assert (agent.target, agent.handle, agent.launch_token) == ("local", "process-1", launch.token)
    assert not world.fleet.is_idle()


def test_runs_for_a_target_that_is_not_here_start_nothing(world: World) -> None:
    world.lab.submit(target="elsewhere")
    world.tend(0)
    assert world.yard.launches == []


def test_the_token_travels_on_standard_input_alone(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    (launch,) = world.yard.launches
    token = world.token()
    assert world.known_by(token) is not None
    assert token not in " ".join([*launch.argv, *launch.env.values(), *launch.env, launch.token, launch.directory])
    assert token not in repr(world.lab.everything())


def test_an_agent_that_is_heard_gets_runs(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    assert world.lab.states("run1") == ["starting"] and world.lab.show("run1")["node"] == "here"


@pytest.mark.parametrize(
    ("refusal", "raises"),
    [(Failure("no licence"), False), (Failure("no licence"), True), (OSError("no licence"), True)],
    ids=["answered", "raised", "OSError"],
)
def test_a_launch_that_fails_is_tried_again_later_and_later(world: World, refusal: Exception, raises: bool) -> None:
    world.lab.submit()
    world.yard.refusal, world.yard.raises = refusal, raises
    tries = []
    for tenth in range(80):
        before = world.target.starts
        world.tend(tenth / 10)
        if world.target.starts > before:
            tries.append(tenth / 10)
    assert tries == [0.0, 0.3, 0.8, 1.8, 3.8, 7.8]
    assert world.target.trouble == "no agent could be started: no licence"
    assert world.fleet.is_idle() and world.lab.read(live_agents) == []
    world.yard.refusal = None
    world.tend(16)
    assert len(world.yard.launches) == 1 and world.target.trouble == ""


def test_an_agent_that_is_heard_ends_the_waiting(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    assert world.target.starts == 1
    world.greet()
    world.tend(1)
    assert world.target.starts == 0


def test_agents_that_end_before_they_are_heard_are_told_of_until_one_is_heard(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.yard.phases["process-1"] = Phase.GONE
    world.tend(1)
    first = "an agent ended before it was heard of; /nodes/1/agent.log has what it printed"
    assert world.target.complaint == first and len(world.yard.launches) == 2, "the next is started, and it stays said"
    world.greet()
    world.tend(2)
    assert world.target.complaint == ""


def test_an_agent_that_left_without_runs_is_history(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    hand = world.greet()
    token = world.token()
    hand.run(*world.session.unconfirmed.values())
    world.session.release(list(world.session.held))
    world.yard.phases["process-1"] = Phase.GONE
    world.tend(1)
    assert world.fleet.is_idle() and world.known_by(token) is None
    assert world.sessions.all() == [] and world.forgotten[-1] == hand.id
    assert len(world.yard.launches) == 1


def test_an_agent_that_died_with_runs_is_started_again_in_its_place(world: World) -> None:
    """The runs are under supervisors of their own: they go on, and the next process takes them up."""
    world.lab.submit()
    world.tend(0)
    hand = world.greet()
    old = world.token()
    del world.yard.phases["process-1"]
    world.tend(1, 2)
    first, second = world.yard.launches
    assert (second.directory, second.token) == (first.directory, first.token)
    assert world.known_by(old) is None
    again = world.known_by(world.token())
    assert again is not None and again.id == hand.id and world.forgotten[-1] == hand.id
    assert world.lab.states("run1") == ["starting"] and world.lab.show("run1")["attempts"] == 1


def test_an_agent_that_keeps_dying_is_started_less_and_less(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    for tenth in range(100):
        world.yard.phases.clear()
        world.tend(tenth / 10)
    assert len(world.yard.launches) == 6


def test_a_silent_agent_is_given_up(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    hand = world.greet()
    token = world.token()
    greeted = time.monotonic() - world.start
    world.tend(*(greeted + second for second in (4, 8, 12)))
    assert world.lab.states("run1") == ["starting"]
    world.tend(greeted + 16)
    assert world.known_by(token) is None
    assert world.lab.states("run1") == ["queued"]
    assert world.lab.event("run1", "node_lost")["message"] == "no sign of life for 10 s"
    assert hand.take() == []
    assert len(world.yard.launches) == 2


def test_after_a_sleep_of_the_machine_nobody_is_given_up(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    world.tend(1000, 1004, 1008)
    assert world.lab.states("run1") == ["starting"]


def test_when_the_provider_cannot_look_nothing_changes(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    before = world.lab.everything()
    for refusal in (Failure("busy"), OSError("no route")):
        world.yard.refusal = refusal
        world.tend(1, 2)
    assert world.lab.everything() == before and len(world.fleet.agents()) == 1


def test_what_was_granted_at_the_last_moment_is_not_lost(world: World) -> None:
    """An agent without runs is gone; before that is written down, a request of its that still waited takes one."""
    world.lab.submit()
    world.tend(0)
    (agent,) = world.fleet.agents()
    Hand(world.lab, agent.id).take()
    assert world.lab.states("run1") == ["starting"]
    world.yard.phases.clear()
    world.tend(1)
    assert world.lab.states("run1") == ["queued"]


# After a restart of the hub


def test_agents_are_taken_up_again(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    hand = world.greet()
    token = world.token()
    world.restart()
    world.fleet.recover()
    assert [agent.handle for agent in world.fleet.agents()] == ["process-1"]
    assert set(world.session.held) == {(world.lab.id("run1"), 1)}
    grant = next(iter(world.session.unconfirmed.values()))
    hand.tell(running(grant), output(grant, b"still here"))
    world.tend(1, 2)
    assert len(world.yard.launches) == 1
    assert world.known_by(token) is not None and world.lab.states("run1") == ["running"]


def test_a_launch_whose_answer_was_lost_is_found_by_its_token(world: World) -> None:
    world.lab.submit()
    hand = world.lab.agent()
    (row,) = world.lab.read(live_agents)
    assert row.handle is None
    world.yard.phases[f"found-{row.launch_token}"] = Phase.ACTIVE
    world.fleet.recover()
    (agent,) = world.fleet.agents()
    assert (agent.id, agent.handle) == (hand.id, f"found-{row.launch_token}")
    assert world.lab.read(live_agents)[0].handle == agent.handle
    world.tend(0)
    assert world.yard.launches == []


def test_what_was_never_launched_is_forgotten(world: World) -> None:
    world.lab.agent()
    world.fleet.recover()
    assert world.fleet.is_idle() and world.lab.read(live_agents) == []


def test_the_runs_of_a_target_that_is_no_more_go_back(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    world.restart()
    world.fleet.targets = {}
    world.fleet.recover()
    assert world.lab.states("run1") == ["queued"] and world.lab.read(live_agents) == []


BROKEN = [Failure("no route"), OSError("no route"), TypeError("no route")]


@pytest.mark.parametrize("error", BROKEN, ids=["Failure", "OSError", "a bug"])
def test_a_provider_that_cannot_look_for_its_agent_stops_nobody(world: World, error: Exception) -> None:
    """Of one launch the answer was lost, and now its target does not answer. All others are taken up."""
    world.lab.submit(target="other")
    world.lab.submit()
    world.tend(0)
    hand = world.lab.agent()  # on target local, without a handle
    other = next(agent for agent in world.lab.read(live_agents) if agent.target == "other")
    world.restart()
    world.yard.lost_mind = error
    world.fleet.recover()
    assert {hand.id, other.id} <= {agent.id for agent in world.fleet.agents()}
    assert world.target.trouble == "it cannot be asked for an agent that may be there: no route"
    assert {session.agent for session in world.sessions.all()} >= {hand.id, other.id}, "whoever is there may speak"


def test_an_agent_that_could_not_be_looked_for_is_looked_for_again_later_and_later(world: World) -> None:
    hand = world.lab.agent()
    (row,) = world.lab.read(live_agents)
    world.lab.submit()
    world.yard.lost_mind = Failure("no route")
    world.fleet.recover()
    for tenth in range(80):
        world.tend(tenth / 10)
    assert world.yard.searches == 7 and world.yard.launches == [], "it may be there: no other is started"
    world.yard.lost_mind = None
    world.yard.phases[f"found-{row.launch_token}"] = Phase.ACTIVE
    world.tend(16)
    (agent,) = world.fleet.agents()
    assert (agent.id, agent.handle) == (hand.id, f"found-{row.launch_token}")
    assert world.lab.read(live_agents)[0].handle == agent.handle


def test_an_agent_that_was_never_there_is_forgotten_as_soon_as_that_is_known(world: World) -> None:
    world.lab.agent()
    world.yard.lost_mind = Failure("no route")
    world.fleet.recover()
    world.tend(0)
    world.yard.lost_mind = None
    world.tend(1)
    assert world.fleet.is_idle() and world.lab.read(live_agents) == []


def test_an_agent_that_cannot_be_looked_for_and_says_nothing_is_given_up(world: World) -> None:
    world.lab.submit()
    hand = world.lab.agent()
    hand.take()
    world.yard.lost_mind = Failure("no route")
    world.fleet.recover()
    world.tend(*range(0, 24, 4))
    assert world.lab.event("run1", "node_lost")["message"] == "no sign of life for 10 s"


@pytest.mark.parametrize("error", BROKEN, ids=["Failure", "OSError", "a bug"])
def test_a_target_that_breaks_harms_no_other(world: World, error: Exception) -> None:
    """Its provider raises whatever it is asked."""
    world.lab.submit()
    world.tend(0)
    world.greet()
    world.yard.refusal = world.yard.lost_mind = error
    world.yard.raises = True
    world.lab.submit(target="other")
    world.tend(1, 2)
    assert len(world.other.launches) == 1 and len(world.fleet.agents()) == 2
    assert world.target.trouble == "its agents cannot be looked at: no route"
    world.yard.refusal = None
    world.tend(3)
    assert world.target.trouble == ""


@pytest.mark.parametrize("error", BROKEN, ids=["Failure", "OSError", "a bug"])
def test_a_dead_agent_that_cannot_be_looked_for_harms_no_other(world: World, error: Exception) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    world.yard.phases.clear()
    world.yard.lost_mind = error
    world.lab.submit(target="other")
    world.tend(1, 2)
    assert len(world.other.launches) == 1 and len(world.yard.launches) == 1
    world.yard.lost_mind = None
    world.tend(3)
    assert len(world.yard.launches) == 2


# A target whose provider cannot be made when the hub starts


class Unserved(World):
    """After `restart`, the provider of ``local`` cannot be made until `is_mended`."""

    is_mended = False
    tries = 0

    def make(self) -> Provider:
        self.tries += 1
        if not self.is_mended:
            raise NotFound("no secret 'KEY'", hint="`turnout secret set KEY` asks for it")
        return self.yard

    def lose_provider(self) -> None:
        self.restart()
        self.target = unserved("local", "yard", Terms(), self.make)
        assert not self.target.try_to_serve()
        self.fleet.targets = {"local": self.target}
        self.fleet.recover()

    def tend(self, *seconds: float, heard: bool = False) -> None:
        for second in seconds:
            if heard:
                self.sessions.renew(self.session.agent, self.start + second)
            super().tend(second)
            self.fleet.wait()


@pytest.fixture
def unserved_world(lab: Lab) -> Unserved:
    world = Unserved(lab)
    lab.submit()
    world.tend(0)
    world.greet()
    return world


def test_agents_of_a_target_that_cannot_be_served_go_on(unserved_world: Unserved) -> None:
    world = unserved_world
    world.lose_provider()
    world.tend(*range(0, 200, 4), heard=True)
    assert world.lab.states("run1") == ["starting"] and len(world.fleet.agents()) == 1
    assert world.target.trouble.endswith("no secret 'KEY'; `turnout secret set KEY` asks for it")
    assert 2 <= world.tries <= 5, "it is tried again every minute"


def test_they_are_given_up_when_they_fall_silent(unserved_world: Unserved) -> None:
    world = unserved_world
    world.lose_provider()
    world.tend(*range(0, 24, 4))
    assert world.lab.event("run1", "node_lost")["message"] == "no sign of life for 10 s"
    assert world.fleet.agents() == [] and len(world.yard.launches) == 1


def test_they_are_looked_after_as_soon_as_it_is_served(unserved_world: Unserved) -> None:
    world = unserved_world
    world.lose_provider()
    world.tend(0, 4, heard=True)
    world.is_mended = True
    world.yard.phases.clear()
    world.tend(*range(8, 68, 4), heard=True)
    assert world.target.is_served and world.target.provider is world.yard
    assert len(world.yard.launches) == 2 and world.lab.states("run1") == ["starting"], "it died with a run in hand"


def test_runs_that_wait_for_it_start_then(unserved_world: Unserved) -> None:
    world = unserved_world
    world.lose_provider()
    world.tend(*range(0, 24, 4))
    world.is_mended = True
    world.tend(61)
    assert len(world.yard.launches) == 2 and world.target.trouble == ""


def test_a_launch_of_which_nothing_is_known_is_looked_for_then(lab: Lab) -> None:
    never = Unserved(lab)
    lab.agent()
    never.lose_provider()
    never.tend(0, 1)
    assert len(never.fleet.agents()) == 1
    never.is_mended = True
    never.tend(61)
    assert never.fleet.is_idle() and lab.read(live_agents) == []


# What an agent lets go of without a word


def test_a_run_that_its_agent_has_no_more_is_lost_there_and_tried_again(world: World) -> None:
    world.lab.submit(("x",), ("y",))
    world.tend(0)
    hand = world.greet()
    (grant,) = world.session.unconfirmed.values()
    hand.tell(running(grant))
    attempt = (grant.run, grant.attempt)
    world.dispatch.hear(world.session, Poll(0, PLENTY, 0, [attempt], [], 0.0, 2))
    world.tend(1)
    assert world.lab.states("run1", "run2") == ["running", "queued"]
    world.dispatch.hear(world.session, Poll(1, PLENTY, 0, [], [], 0.0, 3))
    world.tend(2)
    assert world.lab.states("run1") == ["queued"] and world.session.held == {}
    lost = world.lab.event("run1", "node_lost")
    assert (lost["reason"], lost["message"]) == ("infra", "its agent let go of it without a word")
    assert world.dispatch.hear(world.session, Poll(1, PLENTY, 0, [attempt], [], 0.0, 4)) == [attempt], (
        "and it is fenced"
    )
    before = world.lab.everything()
    world.tend(3)
    assert world.lab.everything() == before


def test_what_its_agent_has_stays_when_another_run_is_let_go_of(world: World) -> None:
    world.lab.submit(("x",), ("y",))
    world.tend(0)
    hand = world.greet()
    (first,) = world.session.unconfirmed.values()
    world.dispatch.hear(world.session, Poll(1, PLENTY, 0, [(first.run, 1)], [], 0.0, 2))
    taking = world.dispatch.take(world.session)
    assert taking is not None
    (second,) = taking.result(30)
    hand.tell(running(first), running(second))
    world.dispatch.hear(world.session, Poll(0, PLENTY, 0, [(second.run, 1)], [], 0.0, 3))
    world.tend(1)
    assert world.lab.states("run1", "run2") == ["queued", "running"]
    assert set(world.session.held) == {(second.run, 1)}


# The loop


def test_the_loop_looks_when_it_is_woken(world: World) -> None:
    loop = Loop(world.fleet, interval=3600.0)
    loop.start()
    try:
        world.lab.submit()
        loop.wake()
        wait_until(lambda: world.yard.launches, 20.0)
    finally:
        loop.stop()
    world.lab.submit()
    loop.wake()
    assert len(world.yard.launches) == 1


def test_a_round_that_fails_is_followed_by_the_next(world: World) -> None:
    rounds = 0
    enough = threading.Event()

    def fail() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            enough.set()
        raise RuntimeError("a fault")

    loop = Loop(world.fleet, interval=0.001, on_round=fail)
    loop.start()
    assert enough.wait(20)
    loop.stop()


def test_the_loop_begins_with_those_that_are_there(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    world.greet()
    world.restart()
    loop = Loop(world.fleet, interval=3600.0)
    loop.start()
    loop.stop()
    assert len(world.fleet.agents()) == 1 and len(world.yard.launches) == 1


def test_a_hub_that_comes_after_asks_for_the_restart_that_one_before_acknowledged(world: World) -> None:
    world.lab.submit()
    world.tend(0)
    hand = world.greet()
    (asked,) = world.dispatch.restart([1], by="user").result(30)
    assert (asked.id, asked.attempt, asked.agent) == (1, 1, hand.id)
    world.restart()
    world.fleet.recover()
    assert world.session.stops == {(1, 1): Stop(1, 1, "preempted")}
