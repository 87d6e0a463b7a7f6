"""A target's prolog and epilog: once per node that it gives, around all runs there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.harness import Cli, wait_until


def settle(cli: Cli, text: str, *, agent_idle: float = 600) -> None:
    """The user's own settings: a target `lab` with these lines."""
    cli.home.mkdir(mode=0o700)
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    (cli.home / "config.yaml").write_text(
        f"hub:\n  agent-idle: {agent_idle}\ncompute-targets:\n  lab:\n    service: local\n{lines}"
    )


def test_the_prolog_runs_once_before_the_first_run_and_the_epilog_when_the_agent_leaves(
    cli: Cli, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    settle(
        cli,
        f"prolog: ['echo before $TURNOUT_NODE >> {log}', 'echo hello from prolog']\nepilog: ['echo after >> {log}']",
        agent_idle=1,
    )
    for number in ("1", "2"):
        cli("run", "--target", "lab", "bash", "-c", f"echo run {number} >> {log}")
    wait_until(lambda: "after" in log.read_text(), 30)
    first, *rest = log.read_text().splitlines()
    assert first.startswith("before ") and rest == ["run 1", "run 2", "after"]
    (agent_log,) = (cli.home / "nodes").glob("*/agent.log")
    assert "hello from prolog" in agent_log.read_text()


def test_where_the_prolog_fails_nothing_runs_and_why_says_so(cli: Cli, tmp_path: Path) -> None:
    settle(cli, f"prolog: ['echo no licence server; [ -e {tmp_path}/server ]', 'echo not reached']")
    cli("run", "-d", "--target", "lab", "echo", "hello")
    wait_until(lambda: "its prolog failed" in cli("why", "run1").stdout, 30)
    said = cli("why", "run1").stdout
    assert "no licence server" in said and "not reached" not in said
    assert cli.json("show", "run1")["state"] == "queued"
    (tmp_path / "server").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 60, "it is tried again by itself")


def test_while_the_prolog_runs_why_says_that_it_does(cli: Cli, tmp_path: Path) -> None:
    settle(cli, f"prolog: ['while [ ! -e {tmp_path}/go ]; do sleep 0.05; done']")
    cli("run", "-d", "--target", "lab", "echo", "hello")
    wait_until(lambda: "The prolog of lab runs on" in cli("why", "run1").stdout, 30)
    (tmp_path / "go").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 30)


def test_an_agent_that_takes_over_does_not_repeat_the_prolog(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "log"
    settle(cli, f"prolog: ['echo before >> {log}']")
    cli("run", "-d", "--target", "lab", "bash", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done")
    wait_until(lambda: cli.json("show", "run1")["state"] == "running", 30)
    (agent,) = cli.json("hub", "status")["agents"]
    os.kill(agent["pid"], signal.SIGKILL)
    (tmp_path / "go").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 30)
    assert log.read_text() == "before\n"


def test_what_a_prolog_leaves_running_keeps_no_run_waiting(cli: Cli, tmp_path: Path) -> None:
    settle(cli, f"prolog: ['(while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; touch {tmp_path}/lived) &']")
    assert cli("run", "--wait", "--target", "lab", "echo", "hello").stdout == "hello\n"
    (tmp_path / "go").touch()
    wait_until(lambda: (tmp_path / "lived").exists())
