"""Tuners and assessors of somebody's project: they run in a process of their own, and may die there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import wait_until
from turnout.engine.host import Host, PluginFailure
from turnout.engine.hosted_search import HostedSampler, HostedStopper
from turnout.plugin.sampler import BadOption, Exhausted, Goal, Objective, Outcome, Proposal, Result, Task
from turnout.plugin.space import Choice, Space
from turnout.plugin.stopper import Point, Watch
from turnout.search.spaces.plain import to_plain

CODE = """
import nni
from nni.tuner import Tuner
from nni.assessor import Assessor, AssessResult
from turnout.plugin.sampler import Sampler, Proposal

class Listing(Tuner):
    def __init__(self, optimize_mode="maximize", stop_at=None):
        assert optimize_mode == "minimize"
        self.stop_at = stop_at
    def update_search_space(self, space):
        self.left = list(space["x"]["_value"])
    def generate_parameters(self, parameter_id, **kwargs):
        if not self.left:
            raise nni.NoMoreTrialError
        if self.left[0] == self.stop_at:
            raise RuntimeError("it is enough")
        return {"x": self.left.pop(0)}
    def receive_trial_result(self, parameter_id, parameters, value, **kwargs):
        pass
    def import_data(self, data):
        for each in data:
            self.left.remove(each["parameter"]["x"])

class Below(Assessor):
    def __init__(self):
        self.best = 0
    def assess_trial(self, trial_job_id, history):
        self.last = history[-1]
        return AssessResult.Good if history[-1] >= self.best else AssessResult.Bad
    def trial_end(self, trial_job_id, success):
        self.best = max(self.best, self.last)

class Ours(Sampler):
    ahead = 7
    def ask(self, index):
        return Proposal({"x": index}, {"note": index})
    def tell(self, result):
        pass
"""
SPACE: Space = {"x": Choice((1, 2, 3, 4))}
TASK = Task(SPACE, (Objective("loss"),), 0, {})


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "code" / "algorithms").mkdir(parents=True)
    (tmp_path / "code" / "algorithms" / "mine.py").write_text(CODE)
    host = Host(tmp_path / "code", [], tmp_path / "log")
    yield host
    host.close()


def sampler(host: Host, name: str = "Listing", task: Task = TASK) -> HostedSampler:
    return HostedSampler(task, f"algorithms/mine:{name}", host, to_plain(task.space))


def kill(host: Host) -> None:
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    wait_until(lambda: host.pid is None, what="its process is gone")


def result(index: int, proposal: Proposal | None) -> Result:
    assert proposal is not None
    return Result(index, proposal, Outcome.COMPLETED, (1.0,))


def test_a_tuner_of_a_project_proposes(host: Host) -> None:
    tuner = sampler(host)
    made = [tuner.ask(index) for index in range(1, 5)]
    assert made == [Proposal({"x": x}) for x in (1, 2, 3, 4)] and tuner.ask(5) is None
    for index, proposal in enumerate(made, 1):
        tuner.tell(result(index, proposal))
    with pytest.raises(Exhausted):
        tuner.ask(5)


def test_a_process_that_dies_is_told_again(host: Host) -> None:
    tuner = sampler(host)
    first, second = tuner.ask(1), tuner.ask(2)
    tuner.tell(result(1, first))
    kill(host)
    assert tuner.ask(3) == Proposal({"x": 3}), "neither what is done nor what goes on is proposed again"
    tuner.tell(result(2, second))
    kill(host)
    assert tuner.ask(4) == Proposal({"x": 4})


def test_searches_do_not_share_an_instance(host: Host) -> None:
    one, other = sampler(host), sampler(host)
    assert one.ask(1) == other.ask(1) == Proposal({"x": 1})


def test_what_it_raises_is_told_with_its_place(host: Host) -> None:
    tuner = sampler(host, task=Task(SPACE, TASK.objectives, 0, {"stop_at": 2}))
    tuner.ask(1)
    with pytest.raises(PluginFailure, match=r"RuntimeError: it is enough \(.*mine\.py:\d+\)"):
        tuner.ask(2)


def test_a_sampler_of_ours_comes_the_same_way(host: Host) -> None:
    ours = sampler(host, "Ours")
    assert ours.ahead == 7 and ours.ask(3) == Proposal({"x": 3}, {"note": 3})


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("algorithms/mine:Nobody", "there is no class Nobody"),
        ("algorithms/yours:Mine", "cannot be imported: ModuleNotFoundError"),
        ("algorithms/mine:Below", "it has no update_search_space"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_runs(path: str, said: str, host: Host) -> None:
    with pytest.raises(BadOption, match=said):
        HostedSampler(TASK, path, host, to_plain(SPACE))


def test_wrong_arguments_are_told_before_anything_runs(host: Host) -> None:
    with pytest.raises(BadOption, match="unexpected keyword argument 'width'"):
        sampler(host, task=Task(SPACE, TASK.objectives, 0, {"width": 2}))


def test_an_assessor_of_a_project_judges_also_when_its_process_died(host: Host) -> None:
    stopper = HostedStopper(Watch(Objective("acc", Goal.MAXIMIZE)), "algorithms/mine:Below", host)
    points = [Point(0, 0.5), Point(1, 0.9)]
    assert stopper.judge(1, points, 1.0) is None and stopper.every is None
    stopper.ended(1, points, Outcome.COMPLETED)
    kill(host)
    assert stopper.judge(2, points[:1], 1.0) == "Below finds it bad after 1 results"
