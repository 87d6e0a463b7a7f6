"""Run styles: held jobs, scripts of parents, and jobs with nodes of their own."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from tests.integration.storing import Agent, Lab, captured, ended, running, staged
from tests.integration.storing import lab as lab
from turnout.engine import steer
from turnout.model.spec import Retry, Schedule

SCRIPT = "pip install what-the-children-need"


# --- held -------------------------------------------------------------------------------------------------------------


def test_a_held_run_waits_until_it_is_released(lab: Lab) -> None:
    lab.submit(held=True)
    agent = lab.agent()
    assert agent.take() == []
    assert lab.events("run1") == ["created", "capture_before"]
    run = lab.id("run1")
    assert lab.store.write(lambda tx: steer.release(tx, [run])) == [run]
    assert lab.store.write(lambda tx: steer.release(tx, [run])) == [], "releasing twice is no error"
    (grant,) = agent.take()
    agent.run(grant)
    assert lab.events("run1")[:4] == ["created", "capture_before", "queued", "started"]
    assert lab.states("run1") == ["completed"]


def test_a_held_run_can_be_cancelled(lab: Lab) -> None:
    lab.submit(held=True)
    assert lab.cancel("run1") == {"run1": "cancelled"}
    assert lab.store.write(lambda tx: steer.release(tx, [1])) == []


# --- the script of a parent -------------------------------------------------------------------------------------------


def test_the_script_runs_first_and_the_parent_is_requeued(lab: Lab) -> None:
    lab.submit(repeat=2, parent_script=SCRIPT)
    agent = lab.agent()
    (script,) = agent.take()
    assert (script.name, script.script, script.attempt) == ("run1", True, 1)
    assert agent.take() == [], "the parent is not in the queue while its script runs"
    agent.run(script)
    assert lab.events("run1") == [
        "created", "capture_before", "queued", "started", "download_before", "running", "ended", "capture_after",
        "parent_script", "requeued",
    ]  # fmt: skip
    first, second = agent.take()
    assert [first.name, second.name] == ["run1.1", "run1.2"] and not first.script
    for child in (first, second):
        agent.run(child)
    assert lab.states("run1", "run1.1", "run1.2") == ["completed"] * 3


def test_each_node_runs_the_script_once(lab: Lab) -> None:
    lab.submit(repeat=4, parent_script=SCRIPT)
    here, there = lab.agent(node="here"), lab.agent(node="there")
    here.run(*here.take())
    (child,) = here.take(1)
    (script,) = there.take()
    assert (script.name, script.script) == ("run1", True)
    assert lab.states("run1") == ["starting"] and here.take() == []
    here.run(child)
    there.run(script)
    assert [grant.name for grant in here.take(1) + there.take(1)] == ["run1.2", "run1.3"]


def test_a_script_that_fails_ends_the_parent_and_no_child_runs(lab: Lab) -> None:
    lab.submit(repeat=3, parent_script=SCRIPT)
    agent = lab.agent()
    (script,) = agent.take()
    agent.run(script, exit_code=3, message="exit code 3")
    assert agent.take() == []
    shown = lab.show("run1")
    assert (shown["state"], shown["reason"], shown["exit_code"]) == ("failed", "exit_code", 3)
    assert shown["message"] == "its parent script failed on node1: exit code 3"
    assert shown["children"] == []


def test_a_script_is_tried_again_as_often_as_a_run_may_be(lab: Lab) -> None:
    lab.submit(repeat=2, parent_script=SCRIPT, retry=Retry(failures=1))
    agent = lab.agent()
    agent.run(*agent.take(), exit_code=1)
    (again,) = agent.take()
    assert (again.script, again.attempt) == (True, 2)
    agent.run(again)
    assert len(agent.take()) == 2
    assert lab.record("run1").cause is None


def test_a_script_whose_node_is_lost_runs_again_elsewhere(lab: Lab) -> None:
    lab.submit(repeat=2, parent_script=SCRIPT)
    first = lab.agent()
    (script,) = first.take()
    first.tell(staged(script), running(script))
    lab.lose(first)
    second = lab.agent(node="node2")
    (again,) = second.take()
    assert (again.script, again.attempt) == (True, 2)
    assert first.tell(ended(script), captured(script)).fenced == {(script.run, 1)}
    second.run(again)
    assert len(second.take()) == 2


def test_a_script_that_fails_late_lets_the_children_elsewhere_end(lab: Lab) -> None:
    lab.submit(repeat=3, parent_script=SCRIPT)
    here, there = lab.agent(node="here"), lab.agent(node="there")
    here.run(*here.take())
    (child,) = here.take(1)
    there.run(*there.take(), exit_code=9, message="exit code 9")
    assert lab.states("run1", "run1.1") == ["running", "starting"] and here.take() == []
    here.run(child)
    shown = lab.show("run1")
    assert (shown["state"], shown["exit_code"]) == ("failed", 9) and "there" in shown["message"]


def test_cancelling_a_parent_whose_script_runs(lab: Lab) -> None:
    lab.submit(repeat=3, parent_script=SCRIPT)
    agent = lab.agent()
    (script,) = agent.take()
    assert lab.cancel("run1") == {"run1": "requested"}
    agent.run(script, exit_code=None, cause="cancelled")
    assert lab.states("run1") == ["cancelled"] and agent.take() == []


# --- nodes of a job's own ---------------------------------------------------------------------------------------------


def node_of(lab: Lab, number: int) -> Agent:
    return lab.agent(node=f"n{number}", queue=f"local#job1.{number}")


def test_one_outer_run_for_each_node(lab: Lab) -> None:
    assert lab.submit(nodes=3) == ["run1", "run2", "run3"]
    assert lab.agent().take() == [], "they wait for nodes of their own"
    for number in range(3):
        agent = node_of(lab, number)
        (grant,) = agent.take()
        assert grant.name == f"run{number + 1}"
        agent.run(grant)
    assert lab.states("run1", "run2", "run3") == ["completed"] * 3


def test_children_of_each_parent(lab: Lab) -> None:
    lab.submit(nodes=2, repeat=2)
    assert [grant.name for grant in node_of(lab, 0).take()] == ["run1.1", "run1.2"]
    assert [grant.name for grant in node_of(lab, 1).take()] == ["run2.1", "run2.2"]


def test_a_total_dealt_out_beforehand(lab: Lab) -> None:
    lab.submit(nodes=2, total=5, schedule=Schedule.STATIC)
    first, second = node_of(lab, 0), node_of(lab, 1)
    assert [grant.name for grant in second.take()] == ["run2.2", "run2.4"]
    assert [grant.name for grant in first.take()] == ["run1.1", "run1.3", "run1.5"]


def test_a_total_taken_by_who_is_free(lab: Lab) -> None:
    lab.submit(nodes=2, total=5)
    first, second = node_of(lab, 0), node_of(lab, 1)
    fast = second.take(3)
    assert [grant.name for grant in fast] == ["run2.1", "run2.2", "run2.3"]
    slow = first.take(1)
    assert [grant.name for grant in slow] == ["run1.4"]
    last = second.take()
    assert [grant.name for grant in last] == ["run2.5"]
    assert first.take() == [] == second.take()
    for grant in (*fast, *last):
        second.run(grant)
    assert lab.states("run1", "run2") == ["running", "completed"]
    first.run(*slow)
    assert lab.states("run1") == ["completed"]
    assert "drained" in lab.events("run1")


def test_a_parent_that_got_no_child_ends_when_all_are_made(lab: Lab) -> None:
    lab.submit(nodes=2, total=2)
    (one, two) = node_of(lab, 0).take()
    assert (one.name, two.name) == ("run1.1", "run1.2")
    assert lab.states("run2") == ["completed"]


@pytest.mark.parametrize("schedule", Schedule)
def test_indices_are_given_out_once_however_nodes_die(lab: Lab, schedule: Schedule) -> None:
    lab.submit(nodes=2, total=7, schedule=schedule)
    names: list[str] = []
    for turn, (a, b) in enumerate(zip_longest(range(9), range(9))):
        for number in (a, b):
            assert number is not None
            agent = node_of(lab, turn % 2 if number == a else 1 - turn % 2)
            for grant in agent.take(1):
                if grant.attempt == 1:
                    names.append(grant.name)
                if turn % 3 == 0:
                    lab.lose(agent)
                else:
                    agent.run(grant)
    indices = sorted(int(name.partition(".")[2]) for name in names)
    assert indices == list(range(1, 8))
    for name in names:
        assert lab.states(name) == ["completed"]
    assert lab.states("run1", "run2") == ["completed", "completed"]


def test_no_more_nodes_than_children(lab: Lab) -> None:
    assert lab.submit(nodes=4, total=2) == ["run1", "run2"]
