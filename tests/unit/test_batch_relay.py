"""The relay through which nodes of a cluster reach the hub."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness import wait_until
from turnout.plugin.provider import Phase
from turnout.plugin.transport import Told
from turnout.providers.slurm import SlurmProvider

COLUMNS = "JOBID|STATE|EXIT_CODE|RESTARTS|REASON|NODELIST|NAME|"


class Slurm(SlurmProvider):
    """One whose scheduler has the job 7."""

    def _run(self, argv: Sequence[str]) -> Told:
        return Told(0, f"{COLUMNS}\n7|RUNNING|0|0|None|n1|turnout-x|\n", "")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "hub.pem").write_text("a certificate")
    return {"directory": str(tmp_path), "relay": "login1", "identity": str(tmp_path / "hub.pem")}


def test_it_is_started_with_the_python_of_the_target(settings: dict[str, object], tmp_path: Path) -> None:
    """It is what its agents are started with, too; another may be too old."""
    python, told = tmp_path / "python", tmp_path / "told"
    python.write_text(
        f'#!/bin/sh\n[ "$1" = -c ] && exit 0\n{{ echo "$@"; cat; }} > {told}.new && mv {told}.new {told}\n'
    )
    python.chmod(0o755)
    Slurm({**settings, "python": str(python)}).observe(["7"])
    wait_until(told.exists)
    argv, order = told.read_text().split("\n", 1)
    assert argv == "-m turnout.agent relay"
    assert json.loads(order) == {"identity": "a certificate", "listen": "login1", "socket": "agent.sock"}


@pytest.mark.parametrize("wrong", ["python", "identity"])
def test_one_that_cannot_be_started_hides_no_job(settings: dict[str, object], tmp_path: Path, wrong: str) -> None:
    slurm = Slurm({**settings, wrong: "/nowhere/file"})
    assert slurm.observe(["7"])["7"].phase is Phase.ACTIVE
    (problem,) = [each for each in slurm.check() if each.level == "problem"]
    assert "no relay can be started" in problem.what and "/nowhere/file" in problem.what and problem.hint


def test_check_starts_none(settings: dict[str, object], tmp_path: Path) -> None:
    slurm = Slurm({**settings, "python": sys.executable})
    assert [each for each in slurm.check() if each.level == "problem"] == []
    assert list(tmp_path.rglob("relay.*")) == []
