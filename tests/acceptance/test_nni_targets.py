"""Trials as they are written for NNI, with NNI itself, on other machines: by ssh, and on a cluster. Both are real."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import components
from tests.harness import Cli, wait_until
from tests.nni_library import nni_command, nni_python
from tests.slurm import Cluster, running_cluster
from tests.sshd import PASSWORD, USER, Box, running_box

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "nni"


@pytest.fixture
def box() -> Iterator[Box]:
    with running_box(components.sshd()) as made:
        yield made


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    components.slurm()
    with running_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


def experiment(cli: Cli, python: str, **values: Any) -> None:
    """The example, with these values, in the working directory."""
    shutil.copytree(EXAMPLE, cli.cwd, dirs_exist_ok=True)
    content = {**yaml.safe_load((EXAMPLE / "config.yml").read_text()), "maxTrialNumber": 2, **values}
    content["trialCommand"] = f"{python} trial.py"
    (cli.cwd / "config.yml").write_text(yaml.safe_dump(content))


def check_trials(cli: Cli, target: str) -> None:
    """Each got what is recorded as its parameters, and its reports are its metrics."""
    runs = [cli.json("show", each["name"]) for each in cli.json("list", "runs", "job1") if "." in each["name"]]
    assert len(runs) == 2
    for run in runs:
        assert (run["state"], run["target"]) == ("completed", target)
        points = cli.json("metrics", run["name"])
        assert len(points["default"]) == 21 and points["steps"][0]["value"] == 20
        printed = cli("logs", run["name"]).stdout.partition(" ended at ")[0]
        assert ast.literal_eval(printed) == run["params"]


@pytest.mark.xdist_group("sshd")
def test_an_experiment_on_a_machine_by_ssh(cli: Cli, box: Box, tmp_path: Path) -> None:
    """The file has a machine and its password. What is told to be typed makes it a box."""
    machine = {"host": "127.0.0.1", "port": box.port, "user": USER, "password": PASSWORD}
    service = {"platform": "remote", "machineList": [machine]}
    experiment(cli, nni_command(USER), trainingService=service)
    told = cli("search", "config.yml", check=False)
    assert told.returncode != 0 and "sesame" not in told.stdout + told.stderr
    keep, add = (shlex.split(each)[1:] for each in re.findall(r"`(turnout (?:secret set|box add) [^`]*)`", told.stderr))
    cli(*keep, "--from-stdin", input=PASSWORD + "\n")
    known = ["-F", "none", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"]
    cli(*add, "--yes", *(f"--ssh-option={each}" for each in known))
    cli("search", "config.yml", "--wait", timeout=120)
    check_trials(cli, "127.0.0.1")


@pytest.mark.xdist_group("slurm")
def test_an_experiment_on_a_cluster(cli: Cli, cluster: Cluster) -> None:
    target = {"service": "slurm", "partition": "p", "directory": str(cli.home.parent / "shared")}
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"compute-targets: {json.dumps({'cluster': target})}\n")
    experiment(cli, nni_python())
    cli("search", "config.yml", "--target", "cluster", "--wait", timeout=120)
    check_trials(cli, "cluster")
    cli("hub", "stop")
    cluster("scancel", "--me")
    wait_until(lambda: not cluster.jobs(), 30.0)
