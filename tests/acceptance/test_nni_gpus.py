"""GPUs as an experiment's file of NNI asks for them: how many, which, shared or not. The driver's program is a
stand-in for a machine with two."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, wait_until
from turnout.testing.nvidia_smi import FakeGpus

pytestmark = pytest.mark.timeout(120)

#: Tells which GPUs it sees, and stays until it may go.
TRIAL = 'echo "sees ${CUDA_VISIBLE_DEVICES-all}"; until [ -e "$GO" ]; do sleep 0.05; done'


class Lab:
    def __init__(self, cli: Cli, gpus: FakeGpus, go: Path) -> None:
        self.cli = cli
        self.gpus = gpus
        self.go = go

    def start(self, trials: int = 2, *, number: int | None = 1, **local: Any) -> str:
        """An experiment of so many trials, all at once if they can be; its job."""
        content = {
            "trialCommand": f"GO={self.go}; {TRIAL}", "trialConcurrency": trials, "maxTrialNumber": trials,
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"},
            "trainingService": {"platform": "local", **local},
        }  # fmt: skip
        if number is not None:
            content["trialGpuNumber"] = number
        (self.cli.cwd / "nni.json").write_text(json.dumps(content))
        return str(self.cli.json("search", "-d", "nni.json")["job"])

    def sees(self, job: str, trials: int) -> list[str]:
        """What its trials see, once so many run."""

        def outputs() -> list[str]:
            runs = [each["name"] for each in self.cli.json("list", "runs", job) if "." in each["name"]]
            return [text for run in sorted(runs) if (text := self.cli("logs", run).stdout)]

        wait_until(lambda: len(outputs()) >= trials, what=f"{trials} trials of {job} run")
        return [text.removeprefix("sees ").strip() for text in outputs()]

    def waits_for(self, job: str, text: str) -> None:
        def why() -> str:
            return " ".join(self.cli.json("why", job)["why"])

        wait_until(lambda: text in why(), what=f"{job} waits for {text}: {why()}")

    def finish(self, job: str) -> None:
        self.go.touch()
        wait_until(lambda: self.cli.json("show", job)["state"] == "completed")


@pytest.fixture
def lab(cli: Cli, tmp_path: Path) -> Iterator[Lab]:
    gpus = FakeGpus(cli.home.parent / "bin", 2)
    cli.home.mkdir(parents=True, exist_ok=True)
    cli("hub", "start", env=gpus.env())
    made = Lab(cli, gpus, tmp_path / "go")
    yield made
    made.go.touch()
    gpus.rest()
    cli("cancel", "all", check=False)


def test_each_trial_has_one_of_its_own_and_the_next_says_what_it_waits_for(lab: Lab) -> None:
    job = lab.start(3)
    assert sorted(lab.sees(job, 2)) == ["0", "1"]
    lab.waits_for(job, "1 GPU (0 of 2 free)")
    assert any("1 GPU (0 of 2 free)" in line for line in lab.cli.json("why", "run1")["why"])
    lab.finish(job)


def test_only_those_that_are_named_are_used(lab: Lab) -> None:
    job = lab.start(2, gpuIndices=[1])
    assert lab.sees(job, 1) == ["1"]
    lab.waits_for(job, "1 GPU (0 of 1 free)")
    lab.finish(job)
    assert lab.sees(job, 2) == ["1", "1"]


def test_as_many_share_one_as_may(lab: Lab) -> None:
    job = lab.start(3, gpuIndices="0", maxTrialNumberPerGpu=2)
    assert lab.sees(job, 2) == ["0", "0"]
    lab.waits_for(job, "1 GPU (0 of 1 free)")
    lab.finish(job)


def test_one_on_which_others_compute_is_used_only_where_that_is_wanted(lab: Lab) -> None:
    for gpu in (0, 1):
        lab.gpus.compute(gpu, os.getpid())
    waits = lab.start(1)
    lab.waits_for(waits, "1 GPU (0 of 2 free, 2 used by others)")
    shares = lab.start(1, useActiveGpu=True)
    assert lab.sees(shares, 1)[0] in ("0", "1")
    lab.gpus.rest()
    assert lab.sees(waits, 1)[0] in ("0", "1")
    lab.finish(waits)
    lab.finish(shares)


@pytest.mark.parametrize(("number", "seen"), [(None, "all"), (0, "")])
def test_without_a_number_a_trial_sees_all_and_with_none_it_sees_none(number: int | None, seen: str, lab: Lab) -> None:
    """The variable is not set, or it is empty."""
    job = lab.start(2, number=number)
    assert lab.sees(job, 2) == [seen, seen]
    lab.finish(job)
