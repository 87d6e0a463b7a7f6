"""Grid Engine as a target: the daemons are real, and agents are jobs of theirs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components, gridengine
from tests.harness import Cli, run_example, wait_until

pytestmark = [pytest.mark.xdist_group("gridengine"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module", autouse=True)
def daemons() -> Iterator[None]:
    components.gridengine()
    with gridengine.running_gridengine(), pytest.MonkeyPatch.context() as patch:
        for name, value in gridengine.ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def lab(cli: Cli) -> Iterator[Cli]:
    """A user with the target ``grid`` in the settings."""
    directory = cli.home.parent / "shared"
    told = {"service": "sge", "queue": "all.q", "directory": str(directory), "cpus": 2, "time": 3600}
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"compute-targets: {json.dumps({'grid': told})}\n")
    yield cli
    cli("cancel", "all")
    cli("hub", "stop")
    gridengine.call("qdel", "-u", "*", check=False)
    wait_until(lambda: "<JB_job_number>" not in gridengine.call("qstat", "-xml"), 60.0)


def test_runs_in_a_job_of_two_slots(lab: Cli) -> None:
    (lab.cwd / "all.txt").write_text("".join(f"echo {number}\n" for number in range(20)))
    lab("run", "--wait", "--target", "grid", "--multi", "all.txt")
    runs = lab.json("list", "runs", "--all")
    assert {run["state"] for run in runs} == {"completed"} and len(runs) == 20
    assert "<slots>2</slots>" in gridengine.call("qstat", "-xml")


def test_a_job_that_is_ended_behind_our_back(lab: Cli, tmp_path: Path) -> None:
    """It is told so beforehand, and what ran in it goes to the next."""
    go = tmp_path / "go"
    shell = f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo done"
    name = lab.json("run", "-d", "--target", "grid", "sh", "-c", shell)["runs"][0]
    wait_until(lambda: lab("logs", name).stdout == "begun\n", 60.0)
    gridengine.call("qdel", "-u", str(os.environ.get("USER", "root")))
    wait_until(lambda: lab.json("show", name)["attempts"] == 2, 60.0)
    go.touch()
    wait_until(lambda: lab.json("show", name)["state"] == "completed", 60.0)


def test_python_functions_on_its_nodes(lab: Cli) -> None:
    assert run_example(lab, "grid") == "pi is about 3.14\n"
    assert "completed" in {view["state"] for view in lab.json("list", "runs")} <= {"completed", "cancelled"}
