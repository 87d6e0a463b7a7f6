"""Run styles through the command line: repeat, multi, nodes of a job's own, parent scripts, held jobs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, wait_until

TELL = "echo $TURNOUT_RUN_NAME on $TURNOUT_NODE"


def shown(cli: Cli, name: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(cli("show", name, "--json").stdout)
    return view


def names(cli: Cli, *filters: str) -> list[str]:
    argv = [word for text in filters for word in ("--filter", text)]
    return sorted(view["name"] for view in json.loads(cli("list", "runs", *argv, "-n", "1000", "--json").stdout))


def events(cli: Cli, name: str) -> list[str]:
    return [event["event"] for event in json.loads(cli("events", name, "--json").stdout)]


# --- repeat -----------------------------------------------------------------------------------------------------------


def test_a_parent_makes_its_children_and_is_requeued_between_them(cli: Cli) -> None:
    cli("run", "--repeat", "3", "--wait", "sh", "-c", TELL)
    assert names(cli) == ["run1", "run1.1", "run1.2", "run1.3"]
    assert events(cli, "run1") == [
        "created", "capture_before", "queued", "child_created", "requeued", "child_created", "requeued",
        "child_created", "ended",
    ]  # fmt: skip


def test_runs_and_repeat_exclude_each_other(cli: Cli) -> None:
    done = cli("run", "--runs", "2", "--repeat", "2", "true", check=False)
    assert done.returncode != 0 and "exclude each other" in done.stderr and "--repeat N" in done.stderr
    assert names(cli) == []


def test_more_than_any_job_can_have_is_refused_by_a_dry_run_too(cli: Cli) -> None:
    for option, said in (("--runs", "1 to 1000000 runs"), ("--nodes", "1 to 10000 nodes")):
        done = cli("run", "--dry-run", option, "99999999999999", "true", check=False)
        assert done.returncode == 2 and said in done.stderr


# --- the parent script ------------------------------------------------------------------------------------------------


def test_the_parent_script_runs_once_before_the_children(cli: Cli, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (cli.cwd / "prepare.sh").write_text(f"echo prepare {TELL[5:]} >> {log}\necho prepared\n")
    cli("run", "--repeat", "2", "--parent-script", "prepare.sh", "--wait", "sh", "-c", f"echo child >> {log}")
    lines = log.read_text().splitlines()
    assert lines[0].startswith("prepare run1 on ") and lines[1:] == ["child", "child"]
    assert cli("logs", "run1").stdout == "prepared\n"
    told = events(cli, "run1")
    assert told.index("parent_script") < told.index("requeued") < told.index("child_created")


def test_a_parent_script_that_fails_ends_its_parent(cli: Cli) -> None:
    (cli.cwd / "prepare.sh").write_text("echo no network\nexit 4\n")
    done = cli("run", "--repeat", "2", "--parent-script", "prepare.sh", "--wait", "true", check=False)
    assert done.returncode != 0
    assert names(cli) == ["run1"], "no child was made"
    view = shown(cli, "run1")
    assert (view["state"], view["reason"], view["exit_code"]) == ("failed", "exit_code", 4)
    why = cli("why", "run1").stdout
    assert "parent script failed" in why and "turnout logs run1" in why
    assert json.loads(cli("show", "job1", "--json").stdout)["state"] == "failed"


def test_a_parent_script_that_hangs_ends_with_the_time_limit(cli: Cli) -> None:
    (cli.cwd / "hang.sh").write_text("sleep 1000\n")
    cli("run", "--repeat", "2", "--parent-script", "hang.sh", "--time", "0.5s", "--wait", "true", check=False)
    view = shown(cli, "run1")
    assert (view["state"], view["reason"]) == ("failed", "timeout")


@pytest.mark.parametrize(
    ("script", "said"), [("gone.sh", "no script 'gone.sh'"), ("data.csv", "neither a .sh nor a .py")]
)
def test_a_parent_script_that_is_none_is_told_at_once(cli: Cli, script: str, said: str) -> None:
    done = cli("run", "--repeat", "2", "--parent-script", script, "true", check=False)
    assert done.returncode != 0 and said in done.stderr
    assert names(cli) == []


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_one_outer_run_on_each_of_its_nodes(cli: Cli) -> None:
    cli("run", "--nodes", "2", "--wait", "sh", "-c", TELL)
    assert names(cli) == ["run1", "run2"]
    said = {cli("logs", name).stdout.split(" on ")[1] for name in ("run1", "run2")}
    assert len(said) == 2, "each on a node of its own"


def test_children_in_total_by_who_is_free(cli: Cli) -> None:
    cli("run", "--nodes", "2", "--runs", "5", "--wait", "sh", "-c", TELL)
    children = [name for name in names(cli) if "." in name]
    assert sorted(int(name.partition(".")[2]) for name in children) == [1, 2, 3, 4, 5]
    assert {shown(cli, name)["state"] for name in names(cli)} == {"completed"}


def test_children_in_total_dealt_out_beforehand(cli: Cli) -> None:
    cli("run", "--nodes", "2", "--runs", "5", "--schedule", "static", "--wait", "sh", "-c", TELL)
    assert [name for name in names(cli) if "." in name] == ["run1.1", "run1.3", "run1.5", "run2.2", "run2.4"]


def test_lines_of_a_file_over_nodes(cli: Cli) -> None:
    (cli.cwd / "all.txt").write_text("".join(f"echo line {number}\n" for number in range(1, 4)))
    cli("run", "--multi", "all.txt", "--nodes", "2", "--schedule", "static", "--wait")
    assert [cli("logs", name).stdout for name in ("run1.1", "run2.2", "run1.3")] == ["line 1\n", "line 2\n", "line 3\n"]


def test_the_parent_script_on_each_node(cli: Cli, tmp_path: Path) -> None:
    (cli.cwd / "prepare.sh").write_text(f"echo $TURNOUT_NODE >> {tmp_path}/prepared\n")
    cli("run", "--nodes", "2", "--repeat", "2", "--parent-script", "prepare.sh", "--wait", "true")
    prepared = (tmp_path / "prepared").read_text().splitlines()
    assert len(prepared) == len(set(prepared)) == 2


def test_nodes_of_a_job_leave_with_it(cli: Cli) -> None:
    cli("run", "--nodes", "2", "--wait", "true")
    wait_until(lambda: json.loads(cli("hub", "status", "--json").stdout)["agents"] == [], what="its nodes are gone")


# --- held -------------------------------------------------------------------------------------------------------------


def test_a_held_job_waits_to_be_released(cli: Cli) -> None:
    assert "turnout release job1" in cli("run", "--held", "--runs", "2", "true").stdout
    assert shown(cli, "run1")["state"] == "created" and "held" in cli("why", "run1").stdout
    assert cli("release", "job1").stdout == "run1 released\n"
    cli("attach", "run1")
    wait_until(lambda: shown(cli, "run1")["state"] == "completed")
    assert cli("release", "job1").stdout == "nothing of that was held or kept\n"
    assert cli("release", "run99", check=False).returncode != 0


def test_a_held_job_can_be_cancelled(cli: Cli) -> None:
    cli("run", "--held", "true")
    cli("cancel", "job", "job1")
    assert shown(cli, "run1")["state"] == "cancelled"


@pytest.mark.parametrize("style", [("--repeat", "3"), ("--nodes", "2", "--runs", "3"), ("--nodes", "3")])
def test_a_job_cancelled_before_its_first_child_is_not_completed(cli: Cli, style: tuple[str, ...]) -> None:
    job = cli.json("run", "--held", "-d", *style, "true")["job"]
    cli("cancel", "job", job)
    view = cli.json("show", job)
    assert (view["state"], view["counts"], view["runs"], view["done"]) == ("cancelled", {"cancelled": 3}, 3, 3)
    assert "Of its 3 runs: 3 cancelled." in cli("why", job).stdout


def test_children_that_a_bad_node_never_made_are_told(cli: Cli) -> None:
    (cli.cwd / "prepare.sh").write_text('case "$TURNOUT_NODE" in *.0) exit 4;; esac\n')
    cli("run", "--wait", "--nodes", "2", "--runs", "4", "--schedule", "static", "--parent-script", "prepare.sh",
        "true", check=False)  # fmt: skip
    view = cli.json("show", "job1")
    assert (view["state"], view["counts"]) == ("failed", {"completed": 2, "failed": 2})


# --- nodes that stay --------------------------------------------------------------------------------------------------


def test_a_kept_node_stays_with_the_runs_directory_until_it_is_released(cli: Cli) -> None:
    done = cli("run", "--keep-node", "--wait", "sh", "-c", "echo left > mine; exit 3", check=False)
    assert done.returncode == 3
    (told,) = [each for each in json.loads(cli("events", "run1", "--json").stdout) if each["event"] == "capture_after"]
    kept = Path(told["data"]["kept"])
    assert (kept / "work" / "mine").read_text() == "left\n"
    node = shown(cli, "run1")["node"]
    cli("run", "--wait", "true")
    (agent,) = json.loads(cli("hub", "status", "--json").stdout)["agents"]
    os.kill(agent["pid"], signal.SIGKILL)
    wait_until(lambda: _agents(cli) not in ([], [agent["pid"]]), what="another takes its place")
    assert (kept / "work" / "mine").exists(), "also when the agent was killed"
    assert cli("release", node).stdout == f"{node} released\n"
    wait_until(lambda: not kept.exists() and _agents(cli) == [], what="the node is gone")


def _agents(cli: Cli) -> list[int]:
    return [agent["pid"] for agent in json.loads(cli("hub", "status", "--json").stdout)["agents"]]
