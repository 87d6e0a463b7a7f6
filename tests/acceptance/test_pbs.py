"""PBS as a target. No server can be had here: its commands are ours, and print what the real ones do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Cli, wait_until
from turnout.testing import pbs

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(params=["pro", "torque"])
def lab(request: pytest.FixtureRequest, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """A user with the target ``cluster`` in the settings."""
    monkeypatch.setenv("PATH", f"{pbs.install(tmp_path / 'pbs', request.param)}:{os.environ['PATH']}")
    _define(cli, family=request.param)
    yield cli
    cli("cancel", "all")
    cli("hub", "stop")


def _define(user: Cli, **settings: object) -> None:
    told = {"service": "pbs", "directory": str(user.home.parent / "shared"), "cpus": 1, "time": 3600, **settings}
    user.home.mkdir(parents=True, exist_ok=True)
    (user.home / "config.yaml").write_text(f"compute-targets: {json.dumps({'cluster': told})}\n")


def test_runs_in_a_job(lab: Cli) -> None:
    (lab.cwd / "all.txt").write_text("".join(f"echo {number}\n" for number in range(10)))
    lab("run", "--wait", "--target", "cluster", "--multi", "all.txt")
    runs = lab.json("list", "runs", "--all")
    assert {run["state"] for run in runs} == {"completed"} and len(runs) == 10


def test_what_the_site_refuses_is_told(lab: Cli, request: pytest.FixtureRequest) -> None:
    _define(lab, queue="nowhere", family=request.node.callspec.params["lab"])
    name = lab.json("run", "-d", "--target", "cluster", "true")["runs"][0]
    wait_until(lambda: "qsub: Unknown queue" in lab("why", name).stdout, 60.0)


def test_a_run_that_is_cancelled_leaves_the_job_to_others(lab: Cli) -> None:
    first = lab.json("run", "-d", "--target", "cluster", "sleep", "600")["runs"][0]
    wait_until(lambda: lab.json("show", first)["state"] == "running", 60.0)
    lab("cancel", "run", first)
    wait_until(lambda: lab.json("show", first)["state"] == "cancelled", 60.0)
    assert lab("run", "--wait", "--target", "cluster", "echo", "next").stdout == "next\n"
    told = subprocess.run(["qstat", "-f"], capture_output=True, text=True, check=False).stdout
    assert told.count("job_state = R") == 1
