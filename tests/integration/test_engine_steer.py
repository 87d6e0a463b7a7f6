"""What people and lost nodes do to runs: cancel them in any state, give up on a node and try again elsewhere."""

from __future__ import annotations

from functools import partial

import pytest

from tests.integration.storing import Lab, at_once, captured, ended, output, running, staged
from tests.integration.storing import lab as lab
from turnout.engine import steer
from turnout.model.spec import Retry

# Cancel


def test_a_waiting_run_is_cancelled_at_once(lab: Lab) -> None:
    lab.submit()
    assert lab.cancel("run1") == {"run1": "cancelled"}
    view = lab.show("run1")
    assert (view["state"], view["reason"], view["started"]) == ("cancelled", "user", None)
    assert view["ended"] is not None
    assert lab.events("run1")[-2:] == ["cancel_requested", "ended"]
    assert lab.event("run1", "cancel_requested") == {"by": "me"}
    assert lab.agent().take() == []


@pytest.mark.parametrize("stage", ["starting", "running", "finishing"])
def test_a_run_on_a_node_is_asked_for_its_end(lab: Lab, stage: str) -> None:
    agent, grant = lab.started()
    facts = {"starting": [staged(grant)], "running": [running(grant)], "finishing": [running(grant), ended(grant)]}
    agent.tell(*facts[stage])
    assert lab.cancel("run1") == {"run1": "requested"}
    assert lab.states("run1") == [stage]
    assert lab.events("run1")[-1] == "cancel_requested"


def test_the_answer_says_which_agent_has_to_be_told(lab: Lab) -> None:
    agent, grant = lab.started()
    (asked,) = lab.store.write(lambda tx: steer.cancel(tx, [grant.run], by="me"))
    assert (asked.run, asked.attempt, asked.agent) == (grant.run, 1, agent.id)


def test_it_ends_cancelled_when_its_node_ended_it(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant))
    lab.cancel("run1")
    agent.tell(ended(grant, exit_code=None, cause="cancelled", signal=15), captured(grant))
    view = lab.show("run1")
    assert (view["state"], view["reason"], view["signal"]) == ("cancelled", "user", 15)


def test_it_completes_when_it_was_faster(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant), ended(grant))
    lab.cancel("run1")
    agent.tell(captured(grant))
    assert lab.states("run1") == ["completed"]


def test_a_cancelled_run_that_fails_is_not_tried_again(lab: Lab) -> None:
    agent, grant = lab.started(retry=Retry(failures=5))
    lab.cancel("run1")
    agent.run(grant, exit_code=1)
    assert (lab.show("run1")["state"], lab.show("run1")["attempts"]) == ("failed", 1)


def test_cancelling_again_changes_nothing(lab: Lab) -> None:
    lab.submit(("a",), ("b",), ("c",))
    agent = lab.agent()
    (grant,) = agent.take(1)
    agent.run(grant)
    agent.take(1)
    lab.cancel("run1", "run2", "run3")
    before = lab.everything()
    assert lab.cancel("run1", "run2", "run3") == {"run1": "over", "run2": "requested", "run3": "over"}
    assert lab.everything() == before


@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_is_over_stays_as_it_ended(lab: Lab, exit_code: int) -> None:
    agent, grant = lab.started()
    agent.run(grant, exit_code=exit_code)
    before = lab.everything()
    assert lab.cancel("run1") == {"run1": "over"}
    assert lab.everything() == before


def test_a_parent_without_children_yet_is_cancelled_at_once(lab: Lab) -> None:
    lab.submit(repeat=3)
    assert lab.cancel("run1") == {"run1": "cancelled"}
    assert (lab.states("run1"), lab.show("run1")["remaining"]) == (["cancelled"], 0)
    assert lab.agent().take() == []


def test_a_parent_is_cancelled_with_its_open_children(lab: Lab) -> None:
    lab.submit(repeat=5)
    agent = lab.agent()
    first, second, third = agent.take(3)
    agent.run(first)
    assert lab.cancel("run1") == {"run1": "requested", "run1.2": "requested", "run1.3": "requested"}
    assert agent.take() == []
    for grant in (second, third):
        assert lab.states("run1") == ["running"]
        agent.tell(running(grant), ended(grant, exit_code=None, cause="cancelled", signal=15), captured(grant))
    assert lab.states("run1", "run1.1", "run1.2", "run1.3") == ["cancelled", "completed", "cancelled", "cancelled"]


def test_a_parent_whose_children_all_wait_is_cancelled_at_once(lab: Lab) -> None:
    lab.submit(repeat=2)
    agent = lab.agent()
    agent.take()
    lab.lose(agent)
    assert lab.states("run1.1", "run1.2") == ["queued", "queued"]
    assert lab.cancel("run1") == {"run1": "cancelled", "run1.1": "cancelled", "run1.2": "cancelled"}
    assert lab.states("run1", "run1.1", "run1.2") == ["cancelled"] * 3


def test_one_child_can_be_cancelled_alone(lab: Lab) -> None:
    lab.submit(repeat=2)
    agent = lab.agent()
    first, second = agent.take()
    assert lab.cancel("run1.1") == {"run1.1": "requested"}
    agent.run(first, exit_code=None, cause="cancelled", signal=15)
    agent.run(second)
    assert lab.states("run1", "run1.1", "run1.2") == ["failed", "cancelled", "completed"]


def test_thousands_at_once(lab: Lab) -> None:
    lab.submit(*[("x",)] * 1200)
    everything = list(range(1, 1201))
    outcomes = lab.store.write(lambda tx: steer.cancel(tx, everything, by="me"))
    assert [item.name for item in outcomes] == [f"run{number}" for number in range(1, 1201)]
    assert {item.outcome for item in outcomes} == {"cancelled"}


def test_unknown_runs_are_left_out(lab: Lab) -> None:
    assert lab.store.write(lambda tx: steer.cancel(tx, [999], by="me")) == []


def test_two_hubs_that_cancel_and_report_do_not_block_each_other(lab: Lab) -> None:
    """One locks a parent and then its children, the other a child and then its parent; whoever loses tries again."""
    agent = lab.agent()
    with lab.twin() as other:
        for _ in range(3):
            (parent,) = lab.submit(repeat=2)
            reports = [partial(agent.at(other).run, grant) for grant in agent.take()]
            at_once(partial(lab.cancel, parent), *reports)
            assert lab.states(parent) in (["cancelled"], ["completed"])
            assert {*lab.states(f"{parent}.1", f"{parent}.2")} == {"completed"}


# Lost nodes


def test_a_run_of_a_lost_node_goes_back_to_the_queue(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant), output(grant, b"half"))
    assert lab.lose(agent, "no sign of life for 30 s") == [grant.run]
    view = lab.show("run1")
    assert (view["state"], view["node"], view["attempts"]) == ("queued", None, 1)
    assert lab.events("run1")[-2:] == ["node_lost", "requeued"]
    assert lab.event("run1", "node_lost")["message"] == "no sign of life for 30 s"
    (attempt,) = lab.attempts("run1")
    assert (attempt["cause"], attempt["message"]) == ("infra", "no sign of life for 30 s")
    (again,) = lab.agent(node="n2").take()
    assert (again.name, again.attempt) == ("run1", 2)
    assert lab.show("run1")["reason"] is None


def test_a_run_that_was_lost_once_too_often_fails(lab: Lab) -> None:
    lab.submit(retry=Retry(losses=2))
    for attempt in (1, 2, 3):
        agent = lab.agent()
        assert [grant.attempt for grant in agent.take()] == [attempt]
        lab.lose(agent)
    view = lab.show("run1")
    assert (view["state"], view["reason"], view["attempts"]) == ("failed", "node_lost", 3)
    assert lab.events("run1")[-2:] == ["node_lost", "ended"]
    assert lab.agent().take() == []


def test_at_most_once_means_that_a_lost_run_fails(lab: Lab) -> None:
    agent, _ = lab.started(retry=Retry(losses=0))
    lab.lose(agent)
    assert lab.states("run1") == ["failed"]


def test_losses_do_not_count_as_failures(lab: Lab) -> None:
    lab.submit(retry=Retry(failures=1, losses=1))
    agent = lab.agent()
    agent.take()
    lab.lose(agent)
    (grant,) = agent.take()
    agent.run(grant, exit_code=1)
    (grant,) = agent.take()
    agent.run(grant)
    assert (lab.states("run1"), lab.show("run1")["attempts"]) == (["completed"], 3)


def test_a_run_that_was_to_be_cancelled_ends_when_its_node_is_lost(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.tell(running(grant))
    lab.cancel("run1")
    lab.lose(agent)
    view = lab.show("run1")
    assert (view["state"], view["reason"]) == ("cancelled", "user")
    assert lab.events("run1")[-2:] == ["node_lost", "ended"]


def test_losing_an_agent_twice_changes_nothing(lab: Lab) -> None:
    agent, _ = lab.started()
    lab.lose(agent)
    before = lab.everything()
    assert lab.lose(agent) == []
    assert lab.everything() == before


def test_only_what_it_had_is_lost(lab: Lab) -> None:
    lab.submit(("a",), ("b",), ("c",))
    one, two = lab.agent(), lab.agent()
    (done,) = one.take(1)
    one.run(done)
    one.take(1)
    two.take(1)
    assert lab.lose(one) == [lab.id("run2")]
    assert lab.states("run1", "run2", "run3") == ["completed", "queued", "starting"]


def test_lost_children_end_their_parent(lab: Lab) -> None:
    lab.submit(repeat=2, retry=Retry(losses=0))
    agent = lab.agent()
    first, _ = agent.take()
    agent.run(first)
    lab.lose(agent)
    view = lab.show("run1")
    assert (view["state"], view["reason"]) == ("failed", "node_lost")


def test_a_cancelled_parent_ends_when_the_node_of_its_children_is_lost(lab: Lab) -> None:
    lab.submit(repeat=3)
    agent = lab.agent()
    agent.take(2)
    lab.cancel("run1")
    lab.lose(agent)
    assert lab.states("run1", "run1.1", "run1.2") == ["cancelled"] * 3
