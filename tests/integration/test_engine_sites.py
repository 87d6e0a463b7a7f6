"""Places that give nodes when asked: a queue of their own, limits, walls of time; by a provider that does as told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.integration.storing import PLENTY, Lab
from tests.integration.storing import Agent as Hand
from tests.integration.storing import lab as lab
from turnout.engine.dispatch import Dispatch
from turnout.engine.fleet import Fleet
from turnout.engine.sessions import Sessions
from turnout.engine.target import Target, Terms
from turnout.model.spec import Resources
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.schedule.lease import LeaseTable
from turnout.store.agents import Agent, Observed, find_by_token, live_agents
from turnout.wire.gpus import GpuFacts, GpuRoom
from turnout.wire.messages import Hello, NodeFacts, Poll
from turnout.wire.protocol import PROTOCOL

LEASE = 10.0
PENDING = Observation(Phase.PENDING, detail="Priority", native="PD")
ACTIVE = Observation(Phase.ACTIVE, native="R", host="n1")


class Cluster(Provider):
    """`calls` are what was submitted in one go; `seen` is how each is, `looks` how often anyone asked."""

    name = "cluster"
    capabilities = Capabilities(elastic=True, wall_time=True)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self.calls: list[list[Launch]] = []
        self.seen: dict[Handle, Observation] = {}
        self.cancelled: list[Handle] = []
        self.refusals: list[Failure] = []
        self.loses_reply = False
        self.forgets_one = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.looks = 0

    @property
    def launches(self) -> list[Launch]:
        return [launch for call in self.calls for launch in call]

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        if self.refusals:
            return [self.refusals[0] for _ in launches]
        self.calls.append(list(launches))
        handles = [launch.token for launch in launches]
        self.seen |= dict.fromkeys(handles, PENDING)
        self.meanwhile()
        if self.loses_reply:
            raise Failure("no answer")
        return [*handles[1:]] if self.forgets_one else [*handles]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        self.looks += 1
        return {handle: self.seen[handle] for handle in handles if handle in self.seen}

    def cancel(self, handles: Sequence[Handle]) -> None:
        self.cancelled += handles

    def find(self, token: str) -> Handle | None:
        return token if token in self.seen else None

    def check(self) -> list[Finding]:
        return []


class Machine(Cluster):
    """One that stays."""

    capabilities = Capabilities()


class Town:
    """A hub's engine with one such place, and a clock that the test turns."""

    def __init__(self, lab: Lab, kind: type[Cluster] = Cluster, **terms: object) -> None:
        self.lab = lab
        self.cluster = kind({})
        self.program: Callable[[], Path] = lambda: Path("agent.pyz")
        self.terms = Terms(**{"interval": 1.0, **terms})  # type: ignore[arg-type]
        self.start = time.monotonic()
        self.restart()

    def restart(self) -> None:
        self.sessions = Sessions(LeaseTable(LEASE, 5.0))
        self.target = Target("local", self.provider(), self.terms)
        self.dispatch = Dispatch(
            self.lab.store, self.sessions, max_runs=lambda agent, cpus: self.target.max_runs(agent.seat, cpus),
            idle=lambda agent: 1.0,
        )  # fmt: skip
        self.fleet = Fleet(
            self.lab.store, self.sessions, self.dispatch, {"local": self.target}, Path("/nodes"), "/agent.sock", "here",
            lambda agent: None, program=lambda: self.program(),
        )  # fmt: skip

    def provider(self) -> Provider:
        """What a hub that starts makes of the settings."""
        return self.cluster

    def tend(self, *seconds: float) -> None:
        for second in seconds:
            self.fleet.tend(self.start + second)
            self.fleet.wait()

    def greet(
        self, launch: Launch, *, cpus: int = 1, memory: int = PLENTY, gpus: int = 0, gpu_memory: int = 0,
        seconds: float | None = None,
    ) -> Hand:  # fmt: skip
        """The agent of this launch says hello, and takes what fits."""
        token = str(json.loads(launch.stdin)["token"])
        agent = self.lab.read(lambda connection: find_by_token(connection, token))
        assert agent is not None
        devices = [GpuFacts(str(each), memory=gpu_memory) for each in range(gpus)]
        facts = NodeFacts("host", cpus, memory, [each.id for each in devices], "boot", 1, "3.11", "/", devices)
        self.dispatch.welcome(agent, Hello(PROTOCOL, "1", facts, [])).result(30)
        session = self.sessions.get(agent.id)
        assert session is not None
        rooms = [GpuRoom(memory=each.memory or None) for each in devices]
        self.dispatch.hear(session, Poll(cpus, memory, gpus, [], [], 0.0, gpu_rooms=rooms, seconds=seconds))
        taking = self.dispatch.take(session)
        if taking is not None:
            taking.result(30)
        return Hand(self.lab, agent.id)

    def agents(self) -> list[Agent]:
        return self.lab.read(live_agents)


@pytest.fixture
def town(lab: Lab) -> Town:
    return Town(lab, most=3, need=Resources(cpus=2))


def test_many_runs_get_several_nodes_in_one_go(town: Town) -> None:
    town.lab.submit(*[("x",)] * 9)
    town.tend(0)
    (call,) = town.cluster.calls
    assert [launch.node for launch in call] == ["local.1", "local.2", "local.3"]
    assert {launch.need.cpus for launch in call} == {2}
    assert json.loads(call[0].stdin)["given"]["cpus"] == 2


def test_in_goes_no_larger_than_the_site_takes(lab: Lab) -> None:
    town = Town(lab, most=5, bulk=2)
    lab.submit(*[("x",)] * 9)
    town.tend(0)
    assert [len(call) for call in town.cluster.calls] == [2, 2, 1]


def test_in_a_minute_not_more_than_the_site_takes(lab: Lab) -> None:
    town = Town(lab, most=50, rate=6)
    lab.submit(*[("x",)] * 20)
    town.tend(0, 1, 2, 5)
    assert len(town.cluster.launches) == 6 and "submit-rate" in town.target.restraint
    town.tend(30)
    assert len(town.cluster.launches) == 9


def test_who_waits_in_the_sites_queue_needs_no_lease(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(*range(0, 4000, 50))
    assert len(town.cluster.launches) == 1 and len(town.agents()) == 1
    assert town.agents()[0].observed == Observed(phase="pending", detail="Priority", native="PD")
    town.greet(town.cluster.launches[0])
    assert town.lab.states("run1") == ["starting"]


def test_also_after_a_restart_of_the_hub(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0, 1)
    town.restart()
    town.fleet.recover()
    town.tend(*range(0, 400, 5))
    assert len(town.cluster.launches) == 1 and len(town.agents()) == 1


def test_who_began_and_says_nothing_is_given_up(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0)
    (launch,) = town.cluster.launches
    town.cluster.seen[launch.token] = ACTIVE
    town.tend(*range(1, 60, 2))
    assert town.cluster.cancelled == [launch.token]
    assert len(town.cluster.launches) == 2
    assert town.lab.states("run1") == ["queued"]


def test_what_nobody_waits_for_any_more_is_taken_back(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0, 1)
    town.lab.cancel("run1")
    town.tend(2)
    assert town.cluster.cancelled == [town.cluster.launches[0].token] and town.agents() == []


def test_a_lost_reply_is_resolved_by_looking_for_the_token(town: Town) -> None:
    town.cluster.loses_reply = True
    town.lab.submit(*[("x",)] * 9)
    town.tend(0, 1, 2, 3)
    assert len(town.cluster.launches) == 3
    assert {agent.handle for agent in town.agents()} == {launch.token for launch in town.cluster.launches}


def test_a_provider_that_answers_for_fewer_than_it_was_given_is_not_believed(town: Town) -> None:
    town.cluster.forgets_one = True
    town.lab.submit(*[("x",)] * 9)
    town.tend(0, 1, 2, 3)
    assert len(town.cluster.launches) == 3
    assert {agent.handle for agent in town.agents()} == {launch.token for launch in town.cluster.launches}


def test_what_cannot_be_put_together_is_tried_again_later_and_leaves_nothing(town: Town) -> None:
    def full() -> Path:
        tries.append(1)
        raise OSError(28, "No space left on device")

    tries: list[int] = []
    town.program = full
    town.lab.submit(("x",))
    town.tend(0, 0.01, 0.02, 0.03)
    assert len(tries) == 1 and town.agents() == [] and town.sessions.all() == []
    assert "No space left on device" in town.target.trouble
    town.program = lambda: Path("agent.pyz")
    town.tend(5)
    assert len(town.cluster.launches) == 1


def test_who_is_given_up_while_another_takes_its_place_stays_given_up(lab: Lab) -> None:
    town = Town(lab, Machine)

    def time_goes_by() -> None:
        for second in (8, 12, 16):
            town.fleet.tend(town.start + second)

    lab.submit(("x",))
    town.tend(0)
    town.greet(town.cluster.launches[0])
    town.cluster.seen.clear()  # it died with a run in hand
    for session in town.sessions.all():
        session.hang_up(0)
    town.cluster.meanwhile = time_goes_by
    town.tend(4)
    assert len(town.cluster.launches) == 2
    assert town.agents() == [] and town.fleet.agents() == [] and lab.states("run1") == ["queued"]


def test_a_node_that_was_taken_away_costs_no_failure(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0)
    (launch,) = town.cluster.launches
    town.greet(launch)
    town.cluster.seen[launch.token] = Observation(Phase.GONE, reason="preempted", detail="PREEMPTED by job 7")
    town.tend(20)
    lost = town.lab.event("run1", "node_lost")
    assert (lost["reason"], lost["message"]) == ("preempted", "its allocation ended: PREEMPTED by job 7")
    assert town.lab.states("run1") == ["queued"] and len(town.cluster.launches) == 2


def test_who_speaks_is_rarely_looked_at(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0)
    (launch,) = town.cluster.launches
    town.cluster.seen[launch.token] = ACTIVE
    town.greet(launch)
    before = town.cluster.looks
    for second in range(1, 61):
        (session,) = town.sessions.all()
        town.sessions.renew(session.agent, town.start + second)
        town.tend(second)
    assert town.cluster.looks - before < 12


def test_who_hangs_up_is_looked_at_soon(lab: Lab) -> None:
    town = Town(lab, Machine)
    lab.submit(("x",))
    town.tend(0)
    town.cluster.seen = dict.fromkeys(town.cluster.seen, ACTIVE)
    town.greet(town.cluster.launches[0])
    (session,) = town.sessions.all()
    session.waits_at = 7
    town.tend(2, 5)
    session.hang_up(6)  # it waits with another by now
    before = town.cluster.looks
    town.tend(6)
    assert town.cluster.looks == before
    session.hang_up(7)
    town.tend(7)
    assert town.cluster.looks == before + 1


def test_what_a_box_lets_go_of_without_a_word_is_noticed_soon(lab: Lab) -> None:
    town = Town(lab, Machine)
    lab.submit(("x",))
    town.tend(0)
    town.cluster.seen = dict.fromkeys(town.cluster.seen, ACTIVE)
    town.greet(town.cluster.launches[0])
    (session,) = town.sessions.all()
    (attempt,) = session.held
    for number, held in enumerate(([attempt], []), start=1):
        town.dispatch.hear(session, Poll(0.0, PLENTY, 0, held, [], 0.0, number=number))
        town.tend(2.0 + number)
    assert lab.event("run1", "node_lost")["message"] == "its agent let go of it without a word"


def test_what_a_site_gave_waits_for_a_hub_that_is_away(town: Town) -> None:
    town.lab.submit(("x",))
    town.tend(0)
    (launch,) = town.cluster.launches
    assert json.loads(launch.stdin)["patience"] == 300.0


def test_who_is_about_to_leave_is_given_nothing_and_another_comes_at_once(lab: Lab) -> None:
    town = Town(lab, most=2)
    lab.submit(("x",))
    town.tend(0)
    (launch,) = town.cluster.launches
    town.cluster.seen[launch.token] = ACTIVE
    lab.cancel("run1")
    town.greet(launch)
    (session,) = town.sessions.all()
    lab.submit(("y",))
    town.tend(3)
    assert len(town.cluster.launches) == 1  # for that one there is room
    town.dispatch.hear(session, Poll(1.0, PLENTY, 0, [], [], 0.0, number=2, leaving=True))
    town.tend(4)
    assert len(town.cluster.launches) == 2
    looks = town.cluster.looks
    town.tend(6)
    assert town.cluster.looks > looks  # it is looked at soon: its place is free in a moment


def test_near_its_end_a_node_gets_only_what_will_be_over_by_then(lab: Lab) -> None:
    town = Town(lab, most=1, need=Resources(cpus=4, seconds=3600.0))
    lab.submit(("long",), resources=Resources(seconds=600.0))
    lab.submit(("short",), resources=Resources(seconds=60.0))
    town.tend(0)
    (launch,) = town.cluster.launches
    assert launch.need.seconds == 3600.0 and json.loads(launch.stdin)["seconds"] == 3600.0 - 300.0
    town.greet(launch, cpus=4, seconds=100.0)
    assert lab.states("run1") == ["queued"] and lab.states("run2") == ["starting"]


def test_a_run_that_wants_a_gpu_does_not_wait_for_a_busy_node_without(lab: Lab) -> None:
    town = Town(lab, most=5, need=Resources(cpus=4))
    lab.submit(("long",))
    town.tend(0)
    town.greet(town.cluster.launches[0], cpus=4)
    lab.submit(("x",), resources=Resources(gpus=1))
    town.tend(3)
    assert [launch.need.gpus for launch in town.cluster.launches] == [None, 1]
    town.greet(town.cluster.launches[1], cpus=4, gpus=1)
    assert lab.states("run2") == ["starting"]


def test_nor_for_one_whose_memory_is_taken(lab: Lab) -> None:
    town = Town(lab, most=5, need=Resources(cpus=4, memory=16))
    lab.submit(("long",), resources=Resources(memory=12))
    town.tend(0)
    town.greet(town.cluster.launches[0], cpus=4, memory=16)
    lab.submit(("small",), resources=Resources(memory=4))
    town.tend(3)
    assert len(town.cluster.launches) == 1
    lab.submit(("large",), resources=Resources(memory=8))
    town.tend(4)
    assert len(town.cluster.launches) == 2


@pytest.mark.parametrize("need", [Resources(cpus=8, gpus=1), Resources(cpus=8, memory=16)], ids=["gpus", "memory"])
def test_runs_that_need_all_of_a_node_get_one_each(lab: Lab, need: Resources) -> None:
    town = Town(lab, most=20, need=need)
    lab.submit(*[("x",)] * 8, resources=Resources(memory=need.memory, gpus=need.gpus))
    town.tend(0)
    assert len(town.cluster.launches) == 8
    town.greet(town.cluster.launches[0], cpus=8, memory=need.memory or PLENTY, gpus=need.gpus or 0)
    town.tend(3, 4)
    assert len(town.cluster.launches) == 8, "for each that waits there is one on its way"


@pytest.mark.parametrize("given", [{"gpus": 0}, {"gpus": 1, "gpu_memory": 24}], ids=["none", "small"])
def test_a_site_that_has_no_such_gpus_is_not_asked_for_more_and_more(lab: Lab, given: dict[str, int]) -> None:
    town = Town(lab, most=10, need=Resources(cpus=4))
    lab.submit(("x",), resources=Resources(gpus=1, gpu_memory=40))
    town.tend(0)
    town.greet(town.cluster.launches[0], cpus=4, **given)
    town.tend(3, 4, 5)
    assert len(town.cluster.launches) == 1 and lab.states("run1") == ["queued"]


@pytest.mark.parametrize(
    ("failure", "seconds"),
    [
        (Failure("slow down", kind="throttled", retry_after=30.0), 30),
        (Failure("no such partition", kind="rejected"), 600),
        (Failure("log in", kind="login"), 60),
    ],
    ids=["throttled", "rejected", "login"],
)
def test_a_site_that_refuses_is_left_alone_for_a_while(town: Town, failure: Failure, seconds: int) -> None:
    town.lab.submit(("x",))
    town.cluster.refusals = [failure]
    town.tend(0)
    town.cluster.refusals = []
    town.tend(1, seconds - 1)
    assert town.cluster.launches == [] and town.target.trouble == f"no agent could be started: {failure.message}"
    town.tend(seconds + 1)
    assert len(town.cluster.launches) == 1
