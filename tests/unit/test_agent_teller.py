"""When an agent tells its hub of what happened: what nobody waits for is told with what follows in a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from turnout.agent.attempt import Attempt, Phase
from turnout.agent.holding import Holding, poll_numbers
from turnout.agent.rundir import RunDir
from turnout.agent.teller import Teller
from turnout.wire.messages import Grant, NodeFacts, Orders, Welcome, split_report

FACTS = NodeFacts("host", 2, 1 << 30, [], "boot", 1, "3.11", "/")


class Hub:
    """Answers at once; keeps the kinds of facts it was told of, report by report."""

    def __init__(self) -> None:
        self.reports: list[list[str]] = []

    def hello(self, message: object) -> Welcome:
        return Welcome(node="n", lease=60.0, idle=60.0, max_runs=1, fenced=[])

    def report(self, body: bytes) -> Orders:
        self.reports.append([fact["kind"] for fact in json.loads(split_report(body)[0])["facts"]])
        return Orders([], [], [], [])

    def do(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        then(work())


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("turnout.agent.teller.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def running(tmp_path: Path) -> Attempt:
    attempt = Attempt(Grant(1, 1, "run1", 1, ["true"], {}, 1.0, 0, 0), [], RunDir(str(tmp_path)))
    attempt.phase, attempt.look_at = Phase.RUNNING, 200.0
    attempt.add_fact("running", {"pid": 7})
    return attempt


@pytest.fixture
def teller(hub: Hub, running: Attempt, clock: list[float]) -> Teller:
    """It has just told of something else when the run begins."""
    holding = Holding(FACTS, poll_numbers(0))
    nobody, line = cast(Any, None), cast(Any, hub)
    made = Teller(holding, nobody, nobody, nobody, reporter=line, line=line)
    made.take = lambda *_: False  # type: ignore[method-assign]
    made.tell()  # hello
    made.tell()  # what it holds
    holding.add(running)
    hub.reports.clear()
    return made


def test_that_a_run_has_begun_is_told_with_its_end_if_that_comes_at_once(
    hub: Hub, teller: Teller, running: Attempt, clock: list[float]
) -> None:
    teller.tell()
    assert hub.reports == []
    clock[0] += 0.01
    running.add_fact("ended", {})
    teller.tell()
    assert hub.reports == [["running", "ended"]]


def test_it_is_told_in_a_moment_anyway(hub: Hub, teller: Teller, clock: list[float]) -> None:
    left = teller.seconds_left(10.0)
    assert 0 < left < 0.1
    clock[0] += left + 0.001
    teller.tell()
    assert hub.reports == [["running"]]


def test_growing_output_does_not_wait(hub: Hub, teller: Teller, running: Attempt, clock: list[float]) -> None:
    running.look_at = clock[0]
    teller.tell()
    assert hub.reports == [["running"]]
