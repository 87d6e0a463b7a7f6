"""What a node tells of its runs becomes their history: each thing once, and only from the current attempt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.storing import (
    WHOLE_LIFE,
    Lab,
    Piece,
    captured,
    ended,
    framed,
    logged,
    output,
    returned,
    running,
    spool,
    staged,
)
from tests.integration.storing import lab as lab
from turnout.model.spec import Retry
from turnout.store import tallies
from turnout.wire.messages import Fact


def test_the_whole_life_of_a_run(lab: Lab) -> None:
    agent, grant = lab.started(before="d" * 64)
    assert lab.states("run1") == ["starting"]
    agent.tell(staged(grant))
    assert lab.states("run1") == ["starting"]
    agent.tell(running(grant))
    assert lab.states("run1") == ["running"]
    agent.tell(spool(grant, framed({"p": {"lr": 0.1}}, logged(0, loss=0.5))), output(grant, b"hello\n"))
    agent.tell(ended(grant))
    assert lab.states("run1") == ["finishing"]
    receipt = agent.tell(captured(grant, b"hello\n", manifest="e" * 64, files=2, bytes=30))
    assert receipt.closed == {(grant.run, 1)}
    assert lab.events("run1") == list(WHOLE_LIFE)
    view = lab.show("run1")
    assert (view["state"], view["reason"], view["exit_code"], view["attempts"]) == ("completed", None, 0, 1)
    assert view["metrics"] == {"loss": 0.5} and view["params"] == {"lr": 0.1}
    assert view["created"] <= view["started"] <= view["ended"] and view["duration"] >= 0
    (attempt,) = lab.attempts("run1")
    assert (attempt["cause"], attempt["exit_code"], attempt["node"]) == ("exit", 0, "node1")
    assert attempt["closed"] is not None


def test_all_in_one_report_has_the_same_order(lab: Lab) -> None:
    """A run of a millisecond is told in one go; its history reads as if it had been told bit by bit."""
    agent, grant = lab.started()
    agent.tell(
        staged(grant), running(grant), ended(grant), captured(grant, b"hello\n"),
        output(grant, b"hello\n"), spool(grant, framed(logged(0, loss=0.5), {"p": {"lr": 0.1}})),
    )  # fmt: skip
    assert lab.events("run1") == list(WHOLE_LIFE)
    assert lab.states("run1") == ["completed"]


def test_what_the_node_said_stands_in_the_events(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.run(grant, seconds=1.5)
    assert lab.event("run1", "download_before") == {"files": 2, "bytes": 10, "cached": 0}
    assert lab.event("run1", "running") == {"pid": 4711}
    assert lab.event("run1", "ended")["seconds"] == 1.5


def test_a_setup_has_its_place_in_the_history_also_when_all_is_told_at_once(lab: Lab) -> None:
    agent, grant = lab.started()
    setup = Fact(grant.run, grant.attempt, "setup", 0.0, {"setup": "lab", "found": True, "seconds": 0.1})
    for _ in range(2):  # a repetition changes nothing
        agent.tell(staged(grant), setup, running(grant))
    assert lab.events("run1")[-4:] == ["started", "download_before", "setup", "running"]
    assert lab.event("run1", "setup") == {"setup": "lab", "found": True, "seconds": 0.1}


@pytest.mark.parametrize(
    ("body", "state", "reason"),
    [
        ({"exit_code": 3}, "failed", "exit_code"),
        ({"cause": "signal", "exit_code": None, "signal": 11}, "failed", "signal"),
        ({"cause": "timeout", "exit_code": None, "signal": 15}, "failed", "timeout"),
        ({"cause": "oom", "exit_code": None, "signal": 9}, "failed", "oom"),
        ({"cause": "spawn_failed", "exit_code": 127, "message": "no such file"}, "failed", "exit_code"),
        ({"cause": "cancelled", "exit_code": None, "signal": 15}, "cancelled", "user"),
        ({"cause": "stopped", "exit_code": None, "signal": 15}, "stopped", "pruned"),
    ],
    ids=lambda value: value.get("cause", "exit") if isinstance(value, dict) else None,
)
def test_the_true_cause_is_kept(lab: Lab, body: dict[str, Any], state: str, reason: str) -> None:
    agent, grant = lab.started()
    agent.run(grant, **body)
    view = lab.show("run1")
    assert (view["state"], view["reason"]) == (state, reason)
    assert (view["exit_code"], view["signal"]) == (body.get("exit_code"), body.get("signal"))
    assert view["message"] == body.get("message", "")
    assert lab.attempts("run1")[0]["cause"] == body.get("cause", "exit")


def test_a_failure_is_tried_again_as_often_as_asked(lab: Lab) -> None:
    lab.submit(retry=Retry(failures=1))
    agent = lab.agent()
    (grant,) = agent.take()
    receipt = agent.run(grant, exit_code=1)
    assert receipt.closed == {(grant.run, 1)} and lab.states("run1") == ["queued"]
    (again,) = agent.take()
    assert again.attempt == 2
    agent.run(again, exit_code=7)
    view = lab.show("run1")
    assert (view["state"], view["attempts"], view["exit_code"]) == ("failed", 2, 7)
    assert lab.events("run1") == [
        "created", "capture_before", "queued", "started", "download_before", "running", "ended", "capture_after",
        "requeued", "started", "restarted", "download_before", "running", "ended", "capture_after",
    ]  # fmt: skip
    assert [(item["attempt"], item["exit_code"]) for item in lab.attempts("run1")] == [(1, 1), (2, 7)]


def test_what_an_attempt_left_is_carried_to_the_next(lab: Lab) -> None:
    lab.submit(retry=Retry(failures=1))
    agent = lab.agent()
    (grant,) = agent.take()
    assert grant.carry is None
    agent.tell(running(grant), ended(grant, exit_code=1), captured(grant, manifest="e" * 64))
    assert agent.take()[0].carry == "e" * 64


def test_a_repeated_report_changes_nothing(lab: Lab) -> None:
    """Any reply may be lost; the agent then says the same once more."""
    agent, grant = lab.started()
    first = framed(logged(0, loss=1.0), {"p": {"lr": 1}})
    parts: list[list[Fact | Piece]] = [
        [staged(grant)],
        [running(grant), output(grant, b"abc"), spool(grant, first)],
        [output(grant, b"def", 3), spool(grant, framed({"g": {"k": "v"}}, first=2), len(first))],
        [ended(grant)],
    ]  # fmt: skip
    for part in parts:
        agent.tell(*part)
        before = lab.everything()
        receipt = agent.tell(*part)
        assert lab.everything() == before
        assert (receipt.fenced, receipt.refused) == (set(), [])
    for part in parts:
        agent.tell(*part)
    assert lab.everything() == before


def test_a_report_repeated_after_the_end_is_fenced_and_changes_nothing(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.run(grant)
    before = lab.everything()
    receipt = agent.tell(staged(grant), ended(grant, exit_code=9), captured(grant), output(grant, b"more"))
    assert receipt.fenced == {(grant.run, 1)} and receipt.acks == {}
    assert lab.everything() == before


def test_another_agent_is_fenced(lab: Lab) -> None:
    """Whoever holds a token may tell of its own attempts, not of those of others."""
    _, grant = lab.started()
    intruder = lab.agent()
    before = lab.everything()
    pieces = (output(grant, b"lies"), spool(grant, framed(logged(0, loss=0.0), {"p": {"lr": 1}}, {"g": {"a": "b"}})))
    receipt = intruder.tell(staged(grant), running(grant), ended(grant), captured(grant), returned(grant), *pieces)
    assert receipt.fenced == {(grant.run, 1)}
    assert (receipt.acks, receipt.closed) == ({}, set())
    assert lab.everything() == before


def test_an_older_attempt_is_fenced(lab: Lab) -> None:
    """A node that was given up and wakes again: what it still has to say is stored nowhere."""
    agent, stale = lab.started()
    lab.lose(agent)
    (grant,) = agent.take()
    assert grant.attempt == 2
    before = lab.everything()
    pieces = (output(stale, b"late"), spool(stale, framed(logged(0, loss=1.0))))
    receipt = agent.tell(running(stale), ended(stale), captured(stale), *pieces)
    assert receipt.fenced == {(stale.run, 1)}
    assert lab.everything() == before


def test_what_was_never_granted_is_fenced(lab: Lab) -> None:
    agent, grant = lab.started()
    lab.submit()
    before = lab.everything()
    unknown = [Fact(run, 1, "running", 0.0, {}) for run in (grant.run + 1, 999_999)]
    assert agent.tell(*unknown).fenced == {(grant.run + 1, 1), (999_999, 1)}
    assert lab.everything() == before


def test_the_rest_of_a_report_with_a_stale_part_stands(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    agent = lab.agent()
    stale, _ = agent.take()
    lab.lose(agent)
    grants = agent.take()
    good = next(grant for grant in grants if grant.run != stale.run)
    receipt = agent.tell(running(stale), running(good), output(stale, b"no"), output(good, b"yes"))
    assert receipt.fenced == {(stale.run, stale.attempt)}
    assert receipt.acks == {f"{good.run}.{good.attempt}/output": 3}
    assert lab.states(good.name) == ["running"] and lab.output(good.name, good.attempt) == b"yes"


def test_one_report_may_tell_of_many_runs(lab: Lab) -> None:
    names = lab.submit(*[("x",)] * 50)
    agent = lab.agent()
    grants = agent.take()
    facts = [part for grant in grants for part in (staged(grant), running(grant), ended(grant), captured(grant))]
    receipt = agent.tell(*facts)
    assert len(receipt.closed) == 50
    assert set(lab.states(*names)) == {"completed"}


@pytest.mark.parametrize("message", ["cut off \0 here", "half a \ud800 pair"])
def test_an_odd_message_is_no_reason_to_refuse_a_report(lab: Lab, message: str) -> None:
    agent, grant = lab.started()
    agent.run(grant, exit_code=1, message=message)
    assert lab.show("run1")["message"].startswith(message[:7])


# Parents


def test_a_parent_ends_with_its_last_child(lab: Lab) -> None:
    lab.submit(repeat=2)
    agent = lab.agent()
    first, second = agent.take()
    agent.run(first)
    assert lab.states("run1", "run1.1", "run1.2") == ["running", "completed", "starting"]
    agent.run(second)
    view = lab.show("run1")
    assert (view["state"], view["exit_code"]) == ("completed", 0)
    assert lab.events("run1")[-1] == "ended"


def test_a_parent_whose_children_all_ended_but_has_more_to_make_goes_on(lab: Lab) -> None:
    lab.submit(repeat=2)
    agent = lab.agent()
    agent.run(*agent.take(1))
    assert lab.states("run1") == ["running"]
    agent.run(*agent.take(1))
    assert lab.states("run1") == ["completed"]


def test_a_failed_child_fails_its_parent_at_the_end(lab: Lab) -> None:
    lab.submit(repeat=3)
    agent = lab.agent()
    grants = agent.take()
    agent.run(grants[0])
    agent.run(grants[1], exit_code=3)
    assert lab.states("run1") == ["running"]
    agent.run(grants[2])
    view = lab.show("run1")
    assert (view["state"], view["reason"], view["exit_code"]) == ("failed", "exit_code", 3)
    assert lab.event("run1", "ended")["failed"] == 1


def test_children_that_end_in_one_report_end_their_parent(lab: Lab) -> None:
    lab.submit(repeat=4)
    agent = lab.agent()
    grants = agent.take()
    agent.tell(*(part for grant in grants for part in (running(grant), ended(grant), captured(grant))))
    assert lab.states("run1", "run1.4") == ["completed", "completed"]
    assert lab.read(lambda connection: tallies.job_counts(connection, [1])) == {1: {"completed": 4}}


def test_a_child_that_is_tried_again_keeps_its_name(lab: Lab) -> None:
    lab.submit(repeat=2, retry=Retry(failures=1))
    agent = lab.agent()
    first, _ = agent.take()
    agent.run(first, exit_code=1)
    assert lab.states("run1", "run1.1") == ["running", "queued"]
    assert [(grant.name, grant.attempt) for grant in agent.take()] == [("run1.1", 2)]
