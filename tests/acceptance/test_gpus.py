"""GPUs: each run gets its own, or a share of one; who waits for one is told why. The driver's program is a stand-in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Cli, wait_until
from turnout.testing.nvidia_smi import FakeGpus

pytestmark = pytest.mark.timeout(120)

SETTINGS = """\
compute-targets:
  shared: {service: local, max-runs-per-gpu: 2, max-runs: 8}
  bold: {service: local, avoid-foreign-gpus: false, max-runs: 8}
  local: {service: local, max-runs: 8}
"""
WAITER = 'echo "$CUDA_VISIBLE_DEVICES $$"; while [ ! -e "$1" ]; do sleep 0.05; done'


class Lab:
    """A user on a machine with two GPUs of 40 GiB, and runs that end when they are told to."""

    def __init__(self, cli: Cli, gpus: FakeGpus, gate: Path) -> None:
        self.cli = cli
        self.gpus = gpus
        self.gate = gate
        self._gates = 0

    def start(self, *options: str) -> str:
        told = self.cli.json("run", "-d", *options, "bash", "-c", WAITER, "x", str(self.gate))
        return str(told["runs"][0])

    def visible(self, run: str) -> str:
        """The GPUs it sees, once it runs."""
        said = wait_until(lambda: self.cli("logs", run).stdout, what=f"{run} begins")
        return said.split(" ")[0]

    def pid(self, run: str) -> int:
        self.visible(run)
        return int(self.cli("logs", run).stdout.split()[1])

    def why(self, run: str) -> str:
        return " ".join(self.cli.json("why", run)["why"])

    def waits_for(self, run: str, text: str) -> None:
        wait_until(lambda: text in self.why(run), what=f"{run} waits for {text}: {self.why(run)}")

    def look_again(self) -> None:
        """Waits until the agent has done so; somebody has to have a GPU."""
        asked = self.gpus.asked
        wait_until(lambda: self.gpus.asked >= asked + 4, what="two more looks")

    def finish(self, *runs: str) -> None:
        self.gate.touch()
        for run in runs:
            wait_until(lambda run=run: self.cli.json("show", run)["state"] == "completed")  # type: ignore[misc]


@pytest.fixture
def lab(user: Cli, tmp_path: Path) -> Iterator[Lab]:
    user.home.mkdir(parents=True, exist_ok=True)
    (user.home / "config.yaml").write_text(SETTINGS)
    folder = user.home.parent / "bin"
    gpus = FakeGpus(folder, 2)
    user("hub", "start", env=gpus.env())
    made = Lab(user, gpus, tmp_path / "go")
    yield made
    made.gate.touch()
    gpus.rest()
    user("cancel", "all", check=False)


def test_agents_on_one_machine_know_of_each_others(lab: Lab) -> None:
    """Two targets here have an agent each; nothing computes, so the driver tells nothing."""
    first, second = lab.start("--gpus", "1"), lab.start("--gpus", "1", "--target", "bold")
    assert {lab.visible(first), lab.visible(second)} == {"0", "1"}
    third = lab.start("--gpus", "1", "--target", "bold")
    lab.waits_for(third, "it waits for 1 GPU (0 of 2 free).")
    lab.finish(first, second, third)


def test_each_run_gets_its_own_and_the_third_waits(lab: Lab) -> None:
    first, second, third = (lab.start("--gpus", "1") for _ in range(3))
    assert {lab.visible(first), lab.visible(second)} == {"0", "1"}
    lab.waits_for(third, "it waits for 1 GPU (0 of 2 free).")
    (node,) = [node for node in lab.cli.json("list", "nodes") if node["target"] == "local"]
    assert (node["gpus"], node["free_gpus"], node["gpu_names"]) == (2, 0, ["NVIDIA A100-SXM4-40GB"] * 2)
    assert "free_gpus" in lab.cli("list", "nodes").stdout
    assert "2 × NVIDIA A100-SXM4-40GB" in lab.cli("doctor").stdout
    lab.finish(first, second, third)
    wait_until(lambda: [n["free_gpus"] for n in lab.cli.json("list", "nodes") if n["target"] == "local"] == [2])


def test_all_of_them_are_granted_when_all_are_free(lab: Lab) -> None:
    one = lab.start("--gpus", "1")
    lab.visible(one)
    both = lab.start("--gpus", "2")
    lab.waits_for(both, "2 GPUs (1 of 2 free)")
    lab.finish(one, both)
    assert lab.visible(both) == "0,1"


def test_who_asks_for_none_sees_none(lab: Lab) -> None:
    run = lab.start()
    assert lab.visible(run) == ""
    lab.finish(run)


def test_two_share_one_where_they_may(lab: Lab) -> None:
    runs = [lab.start("--target", "shared", "--gpus", "1") for _ in range(5)]
    assert sorted(lab.visible(run) for run in runs[:4]) == ["0", "0", "1", "1"]
    lab.waits_for(runs[4], "1 GPU (0 of 2 free)")
    lab.finish(*runs)


def test_its_memory_has_to_be_free(lab: Lab) -> None:
    large = [lab.start("--target", "shared", "--gpus", "1", "--gpu-memory", "30G") for _ in range(3)]
    assert sorted(lab.visible(run) for run in large[:2]) == ["0", "1"]
    lab.waits_for(large[2], "1 GPU with 30G (0 of 2 free, 2 with too little free memory)")
    small = lab.start("--target", "shared", "--gpus", "1", "--gpu-memory", "5G")
    assert lab.visible(small) in ("0", "1")
    huge = lab.start("--target", "shared", "--gpus", "1", "--gpu-memory", "80G")
    lab.waits_for(huge, "1 GPU with 80G, and the largest GPU of target shared has 40G")
    lab.cli("cancel", "run", huge)
    lab.finish(*large, small)


def test_one_on_which_others_compute_is_left_alone(lab: Lab) -> None:
    first = lab.start("--gpus", "1")
    gpu = int(lab.visible(first))
    lab.gpus.compute(1 - gpu, os.getpid())
    lab.look_again()
    run = lab.start("--gpus", "1")
    lab.waits_for(run, "1 GPU (0 of 2 free, 1 used by others)")
    bold = lab.start("--target", "bold", "--gpus", "1")
    assert lab.visible(bold) == str(1 - gpu)
    lab.finish(first, bold)
    lab.gpus.rest()
    assert lab.visible(run) in ("0", "1")
    lab.finish(run)


def test_what_our_own_runs_do_there_is_not_foreign(lab: Lab) -> None:
    first = lab.start("--gpus", "1")
    gpu = int(lab.visible(first))
    lab.gpus.compute(gpu, lab.pid(first))
    lab.look_again()
    waits = lab.start("--gpus", "2")
    lab.waits_for(waits, "2 GPUs (1 of 2 free)")
    assert "others" not in lab.why(waits)
    lab.finish(first, waits)


def test_nobody_looks_where_nobody_asks(lab: Lab) -> None:
    """The two questions an agent begins with are the last."""
    lab.cli("run", "--wait", "--target", "bold", "true")
    before = lab.gpus.asked
    for _ in range(3):
        lab.cli("run", "--wait", "--target", "bold", "true")
    assert lab.gpus.asked == before


def test_memory_without_gpus_is_refused(lab: Lab) -> None:
    done = lab.cli("run", "--gpu-memory", "5G", "true", check=False)
    assert done.returncode == 2 and "--gpus 1" in done.stderr
