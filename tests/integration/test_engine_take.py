"""Waiting runs go to nodes: in order, as many as fit, each to one agent."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.integration.storing import Agent, Lab, at_once, job_spec, returned, running
from tests.integration.storing import lab as lab
from turnout.engine.submit import Submission, submit
from turnout.engine.take import Jobs, Taker, job_orders, take
from turnout.model.container import Container
from turnout.model.spec import Resources, Retry, RunSpec
from turnout.schedule.place import Room
from turnout.store.agents import set_gone
from turnout.store.writer import Tx
from turnout.wire.gpus import free_gpus
from turnout.wire.messages import ContainerOrder


def test_a_run_goes_to_the_node_as_its_first_attempt(lab: Lab) -> None:
    (name,) = lab.submit(("train",), runs=(RunSpec(argv=("train",), params={"lr": 0.1}),))
    agent = lab.agent(node="n7")
    (grant,) = agent.take()
    assert (grant.name, grant.attempt, grant.argv, grant.params) == (name, 1, ["train"], {"lr": 0.1})
    view = lab.show(name)
    assert (view["state"], view["attempts"], view["node"]) == ("starting", 1, "n7")
    assert lab.events(name)[-1] == "started" and lab.event(name, "started") == {"node": "n7", "attempt": 1}
    assert [(item["attempt"], item["node"], item["closed"]) for item in lab.attempts(name)] == [(1, "n7", None)]


def test_what_was_taken_is_not_taken_again(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    assert [grant.name for grant in lab.agent().take(1)] == ["run1"]
    assert [grant.name for grant in lab.agent().take()] == ["run2"]
    assert lab.agent().take() == []


def test_higher_priority_first_then_the_older(lab: Lab) -> None:
    for priority in (0, 5, -5, 5, 0):
        lab.submit(priority=priority)
    assert [grant.name for grant in lab.agent().take()] == ["run2", "run4", "run1", "run5", "run3"]


def test_an_agent_takes_from_its_own_target_alone(lab: Lab) -> None:
    lab.submit(target="here")
    lab.submit(target="there")
    assert [grant.name for grant in lab.agent("there").take()] == ["run2"]


def test_nothing_waiting_nothing_written(lab: Lab) -> None:
    lab.submit()
    agent = lab.agent()
    assert len(agent.take()) == 1
    before = lab.everything()
    assert agent.take() == []
    assert lab.everything() == before


def test_no_more_than_there_are_slots(lab: Lab) -> None:
    lab.submit(*[("x",)] * 10)
    assert len(lab.agent().take(3)) == 3
    assert lab.agent().take(0) == []


def test_a_run_takes_as_many_slots_as_it_wants_processors(lab: Lab) -> None:
    lab.submit(resources=Resources(cpus=3))
    lab.submit(resources=Resources(cpus=2))
    (grant,) = lab.agent().take(2)
    assert (grant.name, grant.slots) == ("run2", 2.0)


@pytest.mark.parametrize(
    ("wish", "room"),
    [(Resources(memory=8 << 30), {"memory": 12 << 30}), (Resources(gpus=1), {"gpus": 1})],
    ids=["memory", "gpus"],
)
def test_memory_and_gpus_are_not_given_twice(lab: Lab, wish: Resources, room: dict[str, int]) -> None:
    lab.submit(("a",), ("b",), resources=wish)
    lab.submit()
    grants = lab.agent().take(10, **room)
    assert [grant.name for grant in grants] == ["run1", "run3"]
    assert (grants[0].memory, grants[0].gpus) == (wish.memory or 0, wish.gpus or 0)


def test_a_run_that_does_not_fit_is_passed_over(lab: Lab) -> None:
    lab.submit(resources=Resources(gpus=100))
    lab.submit()
    assert [grant.name for grant in lab.agent().take()] == ["run2"]
    assert lab.states("run1") == ["queued"]


def test_at_most_so_many_of_a_job_at_once(lab: Lab) -> None:
    lab.submit(*[("x",)] * 5, concurrent=2)
    lab.submit()
    assert [grant.name for grant in lab.agent().take(10)] == ["run1", "run2", "run6"]
    assert lab.agent().take(10, running={1: 2}) == []
    assert [grant.name for grant in lab.agent().take(10, running={1: 1})] == ["run3"]


def test_more_at_once_than_the_node_has_slots_share_them(lab: Lab) -> None:
    """`--concurrent 8` on a node of 4: each takes half a slot."""
    lab.submit(*[("x",)] * 20, concurrent=8)
    grants = lab.agent().take(4, max_runs=4)
    assert [grant.slots for grant in grants] == [0.5] * 8


def test_thousands_of_runs_that_do_not_fit_hide_none_that_does(lab: Lab) -> None:
    lab.submit(*[("x",)] * 3000, concurrent=1)
    lab.submit(*[("y",)] * 10, resources=Resources(gpus=100))
    lab.submit()
    agent = lab.agent()
    assert [grant.name for grant in agent.take(10)] == ["run1", "run3011"]
    assert agent.take(10, running={1: 1}) == []


def test_order_is_kept_over_a_long_queue(lab: Lab) -> None:
    """What does not fit lies in front and in between; the rest still comes oldest first."""
    lab.submit(*[("x",)] * 400, resources=Resources(gpus=100))
    lab.submit(*[("y",)] * 400)
    lab.submit(priority=-1)
    lab.submit()
    agent = lab.agent()
    taken = [grant.name for _ in range(5) for grant in agent.take()]
    assert taken == [*(f"run{number}" for number in range(401, 801)), "run802", "run801"]


def test_a_parent_makes_its_children_one_by_one(lab: Lab) -> None:
    lab.submit(("work",), repeat=3, tags={"stage": "one"}, runs=(RunSpec(argv=("work",), params={"lr": 1}),))
    agent = lab.agent()
    first = agent.take(2)
    assert [(grant.name, grant.attempt, grant.argv) for grant in first] == [
        ("run1.1", 1, ["work"]), ("run1.2", 1, ["work"]),
    ]  # fmt: skip
    assert (lab.show("run1")["state"], lab.show("run1")["remaining"]) == ("running", 1)
    assert [grant.name for grant in agent.take()] == ["run1.3"]
    assert agent.take() == []
    assert lab.show("run1")["children"] == ["run1.1", "run1.2", "run1.3"]
    child = lab.show("run1.2")
    assert (child["parent"], child["tags"], child["params"]) == ("run1", {"stage": "one"}, {"lr": 1})


def test_the_events_of_parent_and_child(lab: Lab) -> None:
    lab.submit(repeat=2)
    lab.agent().take()
    assert lab.events("run1") == [
        "created", "capture_before", "queued", "child_created", "requeued", "child_created",
    ]  # fmt: skip
    assert lab.event("run1", "requeued") == {"remaining": 1}
    assert lab.events("run1.2") == ["created", "capture_before", "queued", "started"]


def test_children_of_a_parent_with_priority_come_first(lab: Lab) -> None:
    lab.submit()
    lab.submit(repeat=2, priority=1)
    assert [grant.name for grant in lab.agent().take()] == ["run2.1", "run2.2", "run1"]


def test_a_child_has_the_further_attempts_of_its_job(lab: Lab) -> None:
    lab.submit(repeat=2, retry=Retry(failures=4, losses=1))
    lab.agent().take(1)
    assert (lab.record("run1.1").failures_left, lab.record("run1.1").losses_left) == (4, 1)


def test_at_most_so_many_children_at_once(lab: Lab) -> None:
    lab.submit(repeat=5, concurrent=2)
    assert [grant.name for grant in lab.agent().take()] == ["run1.1", "run1.2"]


def test_a_run_that_is_given_back_is_taken_again_as_the_next_attempt(lab: Lab) -> None:
    agent, grant = lab.started()
    assert agent.tell(returned(grant)).closed == {(grant.run, 1)}
    assert lab.states("run1") == ["queued"]
    (again,) = lab.agent(node="n2").take()
    assert (again.name, again.attempt) == ("run1", 2)
    assert lab.events("run1")[3:] == ["started", "requeued", "started", "restarted"]


def test_a_run_that_began_cannot_be_given_back(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant))
    assert agent.tell(returned(grant)).closed == set()
    assert lab.states("run1") == ["running"]


def test_an_agent_that_was_given_up_gets_nothing(lab: Lab) -> None:
    """A message of its that was on the way takes nothing along: nobody would ask for that run again."""
    lab.submit()
    agent = lab.agent()
    lab.store.write(lambda tx: set_gone(tx, agent.id))
    assert agent.take() == []
    assert lab.states("run1") == ["queued"]


def test_takers_at_once_never_get_the_same_run(lab: Lab) -> None:
    """On PostgreSQL from the stores of two hubs, which pass over what the other one is taking."""
    lab.submit(*[("x",)] * 60)
    lab.submit(repeat=60)
    one, two = lab.agent(), lab.agent()
    with lab.twin() as other:
        granted = at_once(*(partial(take_all, agent) for agent in (one, two.at(other), one, two.at(other))))
    names = [name for part in granted for name in part]
    assert len(names) == len(set(names)) == 120
    assert {name for name in names if "." in name} == {f"run61.{index}" for index in range(1, 61)}


def take_all(agent: Agent) -> list[str]:
    """Little by little until nothing is left."""
    taken: list[str] = []
    nothing = 0
    while nothing < 20:  # another taker may just hold all that waits
        grants = agent.take(7)
        nothing = 0 if grants else nothing + 1
        taken += [grant.name for grant in grants]
    return taken


def test_what_a_run_is_executed_in_comes_with_its_order(lab: Lab) -> None:
    box = Container(image="x", options=("--shm-size", "8g"), pull="never")
    lab.submit(container=box, resources=Resources(cpus=2, gpus=1, gpu_memory=5))
    (grant,) = lab.agent().take()
    assert (grant.gpus, grant.gpu_memory) == (1, 5)
    with lab.store.read() as connection:
        order = job_orders(connection, {grant.order: grant.job})[grant.job]
    assert order.cpus == 2
    assert order.container == ContainerOrder("x", ["--shm-size", "8g"], None, "never", None)


def test_it_is_told_when_a_run_lacks_gpus(lab: Lab) -> None:
    """Then the agent looks at them again."""
    agent, jobs = lab.agent(), Jobs()
    room = Room(max_runs=4, slots=4, memory=0, gpus=free_gpus(1), running={})
    taker = Taker(agent=agent.id, queue="local", node="n", room=room)
    lab.submit(("a",), ("b",), resources=Resources(gpus=1))
    first = lab.store.write(lambda tx: take(tx, jobs, taker))
    assert len(first.grants) == 1 and first.lacks_gpus
    lab.submit(("c",))
    second = lab.store.write(lambda tx: take(tx, jobs, replace(taker, room=replace(room, gpus=free_gpus(2)))))
    assert not second.lacks_gpus
    assert not lab.store.write(lambda tx: take(tx, jobs, taker)).saw_any


def test_a_job_that_was_undone_is_not_remembered(lab: Lab) -> None:
    """Its number goes to the next one, which may want something else."""
    agent, jobs = lab.agent(), Jobs()
    room = Room(max_runs=1, slots=1, memory=0, gpus=free_gpus(9), running={})
    taker = Taker(agent=agent.id, queue="local", node="n", room=room)

    def send(tx: Tx, gpus: int) -> None:
        spec = job_spec(resources=Resources(gpus=gpus))
        submit(tx, Submission(spec=spec, principal="me", key=str(gpus), body=b""))

    def undone(tx: Tx) -> None:
        send(tx, 3)
        assert [grant.gpus for grant in take(tx, jobs, taker).grants] == [3]
        raise RuntimeError("the disk, say")

    with pytest.raises(RuntimeError):
        lab.store.write(undone)
    lab.store.write(partial(send, gpus=5))
    assert [grant.gpus for grant in lab.store.write(lambda tx: take(tx, jobs, taker)).grants] == [5]
