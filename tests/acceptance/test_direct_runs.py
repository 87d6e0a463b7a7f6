"""Runs that are started by themselves: each has a node to itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.harness import Cli, wait_until
from turnout.engine.program import build


def test_each_run_has_a_node_to_itself(cli: Cli) -> None:
    (cli.cwd / "lines").write_text("sh -c 'echo $TURNOUT_NODE'\n" * 3)
    cli("run", "--direct-run", "--multi", "lines")
    nodes = {cli("logs", f"run{number}").stdout.strip() for number in (1, 2, 3)}
    assert {name.partition("#")[2] for name in nodes} == {"job1.0", "job1.1", "job1.2"}
    assert {run["state"] for run in cli.json("list", "runs")} == {"completed"}


def test_setup_files_and_exit_code_are_as_ever(cli: Cli) -> None:
    (cli.cwd / "setup.sh").write_text("export GREETING=hello\n")
    (cli.cwd / "turnout.yaml").write_text("setups: {mine: {activate: . ./setup.sh}}\n")
    (cli.cwd / "run.sh").write_text('echo "$GREETING $RUN_ARGS$"; echo kept > output/file; exit 3\n')
    done = cli("run", "--direct-run", "--wait", "--setup", "mine", "run.sh", "a b", check=False)
    assert done.returncode == 3 and done.stdout == "hello a b\n"
    assert cli.json("show", "run1")["state"] == "failed"
    cli("extract", "run1", "there")
    (kept,) = (cli.cwd / "there").rglob("file")
    assert kept.read_text() == "kept\n"


def test_the_node_goes_with_its_run(cli: Cli) -> None:
    cli("run", "--direct-run", "--wait", "true")
    wait_until(lambda: not cli.json("hub", "status")["agents"])


def test_a_plan_tells_so(cli: Cli) -> None:
    assert cli.json("run", "--direct-run", "--dry-run", "true")["direct"] is True


def test_where_the_hub_cannot_be_reached_the_command_is_executed_as_it_stands(tmp_path: Path) -> None:
    program = build(tmp_path)
    (tmp_path / "work").mkdir()
    order: dict[str, object] = {
        "address": ["nowhere.sock"],
        "token": "t",
        "directory": "nodes/1",
        "cache": "cache",
        "working_dir": "work",
    }
    order["patience"] = 0.0
    (tmp_path / "run7.json").write_text(json.dumps(order))
    (tmp_path / "run8.json").write_text(json.dumps({**order, "lacks": "its image busybox"}))
    command = ["sh", "-c", 'echo "$1" in $(basename "$PWD"); exit 5', "sh", "a b"]

    def execute(order: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, program, "exec", order, "--", *command], cwd=tmp_path, capture_output=True, text=True,
            timeout=60, env={"PATH": "/usr/bin:/bin"}, check=False,
        )  # fmt: skip

    done = execute("run7.json")
    assert (done.returncode, done.stdout) == (5, "a b in work\n")
    assert "cannot be reached" in done.stderr
    done = execute("run8.json")
    assert (done.returncode, done.stdout) == (126, "") and "its image busybox is not there" in done.stderr
