"""The hub talks with its agents: what is granted, repeated, fenced, stopped, and taken up again after a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.integration.storing import PLENTY, Lab, Piece, captured, ended, output, running
from tests.integration.storing import lab as lab
from tests.integration.test_store_pipelines import step, submitted
from turnout.engine.dispatch import Dispatch
from turnout.engine.report import Telling
from turnout.engine.sessions import Session, Sessions
from turnout.errors import Denied
from turnout.model.spec import Resources
from turnout.schedule.lease import LeaseTable
from turnout.store.agents import Agent, live_agents, set_gone
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt, Fact, Grant, Hello, NodeFacts, Orders, Poll, Welcome
from turnout.wire.protocol import PROTOCOL


@dataclass
class Hub:
    """A hub without its HTTP layer; `restart` forgets all that is in memory."""

    lab: Lab

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.sessions = Sessions(LeaseTable(30.0, 10.0))
        self.dispatch = Dispatch(
            self.lab.store, self.sessions, max_runs=lambda agent, cpus: cpus, idle=lambda agent: 7.0
        )

    def line(self) -> Line:
        agent = self.lab.agent()
        (found,) = (item for item in self.lab.read(live_agents) if item.id == agent.id)
        return Line(self, found)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Whatever is asked of the store meanwhile waits, and is then written together."""
        free, begun = threading.Event(), threading.Event()

        def wait(tx: Tx) -> None:
            begun.set()
            free.wait(30)

        waiting = self.lab.store.submit(wait)
        begun.wait(30)
        yield
        free.set()
        waiting.result(30)


@dataclass
class Line:
    """An agent's side of the conversation, message by message."""

    hub: Hub
    agent: Agent

    @property
    def session(self) -> Session:
        found = self.hub.sessions.get(self.agent.id)
        assert found is not None
        return found

    def hello(self, *held: Attempt, cpus: int = 4, protocol: int = PROTOCOL) -> Welcome:
        facts = NodeFacts("host", cpus, PLENTY, [], "boot", 1, "3.11", "/")
        return self.hub.dispatch.welcome(self.agent, Hello(protocol, "1", facts, list(held))).result(30)

    def poll(self, slots: float = 4, held: Iterable[Attempt] = (), **fields: int | list[int]) -> Orders:
        return self.say(self.session, slots, held, **fields)

    def say(self, session: Session, slots: float, held: Iterable[Attempt], **fields: int | list[int]) -> Orders:
        settings = {"memory": PLENTY, "gpus": 8, "jobs": [], **fields}
        poll = Poll(slots=slots, held=list(held), wait=0.0, **settings)  # type: ignore[arg-type]
        fenced = self.hub.dispatch.hear(session, poll)
        taking = self.hub.dispatch.take(session)
        if taking is not None:
            taking.result(30)
        return self.hub.dispatch.orders(session, fenced)

    def report(self, *items: Fact | Piece) -> Orders:
        facts = tuple(item for item in items if isinstance(item, Fact))
        chunks = tuple((item[0], memoryview(item[1])) for item in items if not isinstance(item, Fact))
        receipt = self.hub.dispatch.report(self.session, Telling(self.agent.id, facts, chunks)).result(30)
        return self.hub.dispatch.orders(self.session, [], receipt)


@pytest.fixture
def hub(lab: Lab) -> Hub:
    return Hub(lab)


def names(orders: Orders) -> list[str]:
    return [grant.name for grant in orders.grants]


def ref(grant: Grant) -> Attempt:
    return (grant.run, grant.attempt)


def over(grant: Grant) -> list[Fact]:
    return [running(grant), ended(grant), captured(grant)]


# Grants


def test_an_agent_is_welcome(hub: Hub) -> None:
    welcome = hub.line().hello(cpus=6)
    assert (welcome.node, welcome.lease, welcome.idle, welcome.max_runs) == ("node1", 30.0, 7.0, 6)
    assert welcome.fenced == []


def test_a_grant_is_repeated_until_the_agent_names_it(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    assert line.poll().grants == [grant]
    assert line.poll(slots=3, held=[ref(grant)]).grants == []
    assert line.poll(slots=3, held=[ref(grant)]).fenced == []


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_agent_of_an_older_protocol_finishes_what_it_has(hub: Hub, is_kept: bool) -> None:
    """It is given nothing more, neither again nor anew, and leaves unless it is kept for what ran there. What it was to
    have and does not is in the queue again."""
    hub.lab.submit(("true",), ("true",), keep_node=is_kept)
    hub.lab.submit()
    line = hub.line()
    line.hello()
    first, second = line.poll(slots=2).grants
    line.hello(ref(first), protocol=PROTOCOL - 1)
    orders = line.poll(held=[ref(first)], kept=is_kept)
    assert (orders.grants, orders.jobs, orders.fenced, orders.exit) == ([], [], [], not is_kept)
    assert line.report(*over(first)).fenced == [] and line.poll(kept=is_kept).grants == []
    assert hub.lab.states(first.name, second.name, "run3") == ["completed", "queued", "queued"]


def test_steps_that_differ_in_their_commands_share_an_order(hub: Hub) -> None:
    """It is sent once for all of them, whichever is first; what has another environment has one of its own."""
    env = {"TOKEN": "x"}
    first, other, second = step("first", env=env), step("other", env={"TOKEN": "y"}), step("second", env=env)
    pipe = submitted(hub.lab, first, other, second)
    line = hub.line()
    line.hello()
    orders = line.poll(slots=1)
    shared = pipe.jobs["first"]
    assert [(order.job, order.env) for order in orders.jobs] == [(shared, {"TOKEN": "x"})]
    held = [ref(grant) for grant in orders.grants]
    orders = line.poll(slots=2, held=held, jobs=[shared])
    assert [(grant.job_name, grant.argv[0], grant.order) for grant in orders.grants] == [
        (f"job{pipe.jobs['other']}", "other", pipe.jobs["other"]), (f"job{pipe.jobs['second']}", "second", shared),
    ]  # fmt: skip
    assert [(order.job, order.env) for order in orders.jobs] == [(pipe.jobs["other"], {"TOKEN": "y"})]
    hub.restart()  # whose order the others go by is not remembered
    line.hello()
    orders = line.poll(slots=0)
    assert {grant.order for grant in orders.grants} == {order.job for order in orders.jobs}
    assert {order.job: order.env["TOKEN"] for order in orders.jobs} == {shared: "x", pipe.jobs["other"]: "y"}


def test_what_a_job_shares_comes_with_its_first_grant(hub: Hub) -> None:
    hub.lab.submit(("a",), ("b",), env={"TOKEN": "x"})
    line = hub.line()
    line.hello()
    orders = line.poll(slots=1)
    assert [(order.job, order.env) for order in orders.jobs] == [(1, {"TOKEN": "x"})]
    assert line.poll(slots=1).jobs == orders.jobs
    (grant,) = orders.grants
    later = line.poll(slots=1, held=[ref(grant)], jobs=[1])
    assert (names(later), later.jobs) == (["run2"], [])


def test_what_is_on_its_way_takes_room(hub: Hub) -> None:
    hub.lab.submit(*[("x",)] * 10)
    line = hub.line()
    line.hello()
    assert len(line.poll(slots=2).grants) == 2
    assert len(line.poll(slots=2).grants) == 2
    orders = line.poll(slots=3)
    assert names(orders) == ["run1", "run2", "run3"]
    assert line.poll(slots=0, held=[ref(grant) for grant in orders.grants]).grants == []


def test_memory_and_gpus_on_their_way_take_room(hub: Hub) -> None:
    hub.lab.submit(("a",), ("b",), resources=Resources(memory=6))
    hub.lab.submit(("c",), ("d",), resources=Resources(gpus=2))
    line = hub.line()
    line.hello()
    for _ in range(2):
        assert names(line.poll(slots=9, memory=10, gpus=3)) == ["run1", "run3"]
    assert names(line.poll(slots=9, memory=12, gpus=4)) == ["run1", "run3", "run2", "run4"]


def test_runs_of_a_job_at_once_are_counted_over_all_it_holds(hub: Hub) -> None:
    hub.lab.submit(*[("x",)] * 3, concurrent=2)
    line = hub.line()
    line.hello()
    first, second = line.poll(slots=9).grants
    held = [ref(first), ref(second)]
    assert line.poll(slots=9, held=held).grants == []
    line.report(*over(first))
    assert names(line.poll(slots=9, held=held[1:])) == ["run3"]


def test_a_message_that_was_overtaken_does_not_say_what_is_free(hub: Hub) -> None:
    hub.lab.submit(*[("x",)] * 5)
    line = hub.line()
    line.hello()
    (grant,) = line.poll(slots=1, number=1).grants
    line.poll(slots=0, held=[ref(grant)], number=3)
    assert line.poll(slots=4, held=[ref(grant)], number=2).grants == []


def test_while_a_grant_is_being_made_none_is_begun(hub: Hub) -> None:
    hub.lab.submit(("a",), ("b",))
    line = hub.line()
    line.hello()
    line.session.slots = 1
    with hub.busy():
        first = hub.dispatch.take(line.session)
        assert hub.dispatch.take(line.session) is None
    assert first is not None and [grant.name for grant in first.result(30)] == ["run1"]
    assert hub.dispatch.take(line.session) is None


def test_an_agent_that_is_to_leave_gets_nothing_and_is_told(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    line.session.leaving = True
    orders = line.poll()
    assert (orders.grants, orders.exit) == ([], True)


def test_nobody_can_cancel_what_was_asked_for(hub: Hub) -> None:
    """A request that is given up while it waits must not leave a run with an agent that nobody knows of."""
    hub.lab.submit()
    line = hub.line()
    line.hello()
    line.session.slots = 1
    with hub.busy():
        taking = hub.dispatch.take(line.session)
        assert taking is not None and not taking.cancel()
    assert [grant.name for grant in taking.result(30)] == ["run1"]
    assert names(line.poll(slots=0)) == ["run1"]


# Beginning again


def test_an_agent_that_began_again_keeps_what_it_has(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    line.poll(held=[ref(grant)], slots=3)
    assert line.hello(ref(grant)).fenced == []
    orders = line.poll(held=[ref(grant)], slots=3)
    assert (orders.grants, orders.fenced) == ([], [])
    line.report(*over(grant))
    assert hub.lab.states("run1") == ["completed"]


def test_what_an_agent_does_not_know_of_is_granted_again(hub: Hub) -> None:
    """The answer with the grant was lost with the process: the same attempt, not a new one."""
    hub.lab.submit(("a",), ("b",))
    line = hub.line()
    line.hello()
    first, second = line.poll().grants
    line.hello(ref(first))
    assert line.poll(held=[ref(first)], slots=0).grants == [second]
    assert hub.lab.show("run2")["attempts"] == 1


def test_what_is_not_its_own_is_fenced(hub: Hub) -> None:
    hub.lab.submit()
    line, other = hub.line(), hub.line()
    line.hello()
    other.hello()
    (grant,) = line.poll().grants
    assert other.hello(ref(grant)).fenced == [ref(grant)]
    assert other.poll(held=[ref(grant)]).fenced == [ref(grant)]
    assert line.poll(held=[ref(grant)]).fenced == []
    assert line.poll(held=[ref(grant), (grant.run, 2), (77, 1)]).fenced == [(grant.run, 2), (77, 1)]


def test_what_is_over_is_fenced_and_no_longer_held(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    line.report(*over(grant))
    assert line.session.held == {} and line.session.unconfirmed == {}
    assert line.poll(held=[ref(grant)]).fenced == [ref(grant)]
    assert line.report(running(grant)).fenced == [ref(grant)]


def test_an_agent_that_was_given_up_is_not_welcome(hub: Hub) -> None:
    """It was recognised, and given up before its greeting was read: it must not come back to life."""
    line = hub.line()
    hub.lab.store.write(lambda tx: set_gone(tx, line.agent.id))
    with pytest.raises(Denied, match="given up"):
        line.hello()
    assert hub.sessions.get(line.agent.id) is None
    assert hub.lab.read(live_agents) == []


def test_a_request_of_a_process_that_is_no_more_takes_nothing(hub: Hub) -> None:
    """The long poll of a killed agent still waits here when the next process of the same agent begins."""
    line = hub.line()
    line.hello()
    line.poll(slots=4)
    stale = line.session
    line.hello()
    hub.lab.submit()
    assert hub.dispatch.take(stale) is None
    assert names(line.poll()) == ["run1"]


@pytest.mark.parametrize("greets_first", [True, False])
def test_a_grant_under_way_reaches_the_process_that_begins_meanwhile(hub: Hub, greets_first: bool) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    stale = line.session
    stale.slots = 1
    hello = Hello(PROTOCOL, "1", NodeFacts("host", 4, 0, [], "boot", 2, "3.11", "/"), [])
    with hub.busy():
        greeting = hub.dispatch.welcome(line.agent, hello) if greets_first else None
        taking = hub.dispatch.take(stale)
        greeting = greeting or hub.dispatch.welcome(line.agent, hello)
    greeting.result(30)
    assert taking is not None and len(taking.result(30)) == 1
    assert line.session is not stale
    assert names(line.poll(slots=0)) == ["run1"]


@pytest.mark.parametrize("greets_first", [True, False])
def test_a_node_is_let_go_whose_agent_begins_anew_meanwhile(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, greets_first: bool
) -> None:
    line = hub.line()
    line.hello()
    line.session.kept = True
    write = hub.lab.store.write

    def slow(work: Callable[[Tx], object]) -> object:
        if greets_first:
            line.hello()
        done = write(work)
        if not greets_first:
            line.hello()
        return done

    monkeypatch.setattr(hub.lab.store, "write", slow)
    assert hub.dispatch.let_go(line.agent.node) == [line.agent.id]
    assert line.poll(kept=True).exit, "the agent hears of it"


def test_after_a_restart_of_the_hub_all_goes_on(hub: Hub) -> None:
    hub.lab.submit(("a",), ("b",), ("c",))
    line = hub.line()
    line.hello()
    first, second = line.poll(slots=2).grants
    line.report(running(first), output(first, b"half"))
    hub.lab.cancel(first.name)

    hub.restart()
    session = hub.dispatch.recover(line.agent)
    assert not session.heard and set(session.held) == {ref(first), ref(second)}
    orders = line.poll(slots=0, held=[ref(first)])
    assert orders.grants == [second] and orders.fenced == []
    assert [(stop.run, stop.attempt, stop.cause) for stop in orders.stops] == [(*ref(first), "cancelled")]
    assert line.session.heard
    line.report(output(first, b"-done", 4), ended(first, exit_code=None, cause="cancelled", signal=15))
    line.report(captured(first, b"half-done"))
    assert hub.lab.states("run1", "run2", "run3") == ["cancelled", "starting", "queued"]


# Stops


def test_a_stop_is_repeated_until_the_run_is_over(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    (cancelled,) = hub.dispatch.cancel([grant.run], by="me").result(30)
    assert cancelled.outcome == "requested"
    for _ in range(2):
        (stop,) = line.poll(held=[ref(grant)]).stops
        assert (stop.run, stop.attempt, stop.cause) == (grant.run, 1, "cancelled")
    line.report(running(grant), ended(grant, exit_code=None, cause="cancelled", signal=15), captured(grant))
    assert line.poll().stops == []
    assert hub.lab.states("run1") == ["cancelled"]


def test_a_stop_for_a_grant_that_was_never_confirmed(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    hub.dispatch.cancel([grant.run], by="me").result(30)
    orders = line.poll()
    assert orders.grants == [grant] and len(orders.stops) == 1


def test_a_run_that_waits_needs_no_stop(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (cancelled,) = hub.dispatch.cancel([hub.lab.id("run1")], by="me").result(30)
    assert cancelled.outcome == "cancelled"
    orders = line.poll()
    assert (orders.grants, orders.stops) == ([], [])


def test_stops_survive_a_new_process_of_the_agent(hub: Hub) -> None:
    hub.lab.submit()
    line = hub.line()
    line.hello()
    (grant,) = line.poll().grants
    hub.dispatch.cancel([grant.run], by="me").result(30)
    line.hello(ref(grant))
    assert len(line.poll(held=[ref(grant)]).stops) == 1


# Leases


def test_every_message_renews_the_lease(hub: Hub) -> None:
    line = hub.line()
    line.hello()
    now = time.monotonic()
    assert not hub.sessions.is_silent(line.agent.id, now + 29)
    assert hub.sessions.is_silent(line.agent.id, now + 31)
    line.poll()
    assert not hub.sessions.is_silent(line.agent.id, now + 30)


def test_an_agent_that_was_dropped_has_no_lease(hub: Hub) -> None:
    line = hub.line()
    line.hello()
    session = line.session
    hub.sessions.drop(line.agent.id)
    line.say(session, 0, [])
    assert hub.sessions.is_silent(line.agent.id, time.monotonic())
    assert hub.sessions.all() == []
