"""The life of a submission, step by step: from what is asked for to what is kept."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, wait_until

pytestmark = pytest.mark.xdist_group("life_cycle")

SETTINGS = """
compute-targets:
  two: {service: local, max-runs: 2}
hub: {agent-idle: 1}
"""


@pytest.fixture(scope="module", autouse=True)
def _settings(user: Cli) -> None:
    user.home.mkdir(mode=0o700)
    (user.home / "config.yaml").write_text(SETTINGS)


def write(path: Path, text: str) -> None:
    path.write_text(textwrap.dedent(text))


def submit(cli: Cli, *args: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(cli("run", "-d", "--json", *args).stdout)
    return told


def over(cli: Cli, name: str) -> dict[str, Any]:
    """The run once it is over."""
    cli("attach", name)
    view: dict[str, Any] = cli.json("show", name)
    return view


def data_of(cli: Cli, run: str, event: str) -> list[dict[str, Any]]:
    return [each["data"] for each in cli.json("events", run) if each["event"] == event]


class TestSubmitting:
    @pytest.mark.parametrize(
        ("options", "runs", "commands"),
        [
            (["echo", "a"], 1, [["echo", "a"]]),
            (["--repeat", "3", "echo", "a"], 3, [["echo", "a"]]),
            (["--runs", "3", "echo", "a"], 3, [["echo", "a"]]),
            (["--nodes", "2", "--repeat", "3", "echo", "a"], 6, [["echo", "a"]]),
            (["--multi", "lines.txt"], 2, [["echo", "a"], ["echo", "b"]]),
        ],
        ids=["single", "repeat", "runs", "nodes", "multi"],
    )
    def test_the_style_follows_from_what_is_asked(
        self, user: Cli, project: Path, options: list[str], runs: int, commands: list[list[str]]
    ) -> None:
        write(project / "lines.txt", "echo a\necho b\n")
        plan = user.json("run", "--dry-run", *options)
        assert (plan["runs"], plan["commands"]) == (runs, commands)

    def test_a_job_has_a_run_for_each_node(self, user: Cli, project: Path) -> None:
        told = submit(user, "--nodes", "2", "true")
        assert len(told["runs"]) == 2
        for name in told["runs"]:
            assert user.json("events", name)[0]["event"] == "created"
            assert over(user, name)["job"] == told["job"]

    def test_files_are_frozen_once_for_the_job_and_told_in_each_run(self, user: Cli, project: Path) -> None:
        write(project / "a.txt", "a")
        write(project / "lines.txt", "cat a.txt\ncat a.txt\n")
        told = submit(user, "--multi", "lines.txt")
        captures = [user.json("events", name)[1] for name in told["runs"]]
        assert captures[0] == captures[1], "the same event, at the same time"
        assert captures[0]["event"] == "capture_before" and captures[0]["data"]["files"] == 2
        for name in told["runs"]:
            over(user, name)

    def test_a_windows_script_runs_on_windows_alone(self, user: Cli, project: Path) -> None:
        write(project / "run.bat", "echo hello\r\n")
        refused = user("run", "run.bat", check=False)
        assert refused.returncode != 0 and "Windows" in refused.stderr and ".sh" in refused.stderr
        write(project / "turnout.yaml", "boxes: {pane: {address: me@pane.example.org, os: windows}}\n")
        plan = user.json("run", "--dry-run", "--target", "pane", "run.bat", "a b")
        assert plan["commands"] == [["cmd", "/c", "run.bat", "a b"]]


class TestOnTheNode:
    def test_no_more_run_at_once_than_max_runs_and_the_others_wait_in_the_queue(
        self, user: Cli, project: Path, tmp_path: Path
    ) -> None:
        wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
        write(project / "lines.txt", f"sh -c '{wait}'\n" * 5)
        names = submit(user, "--target", "two", "--multi", "lines.txt")["runs"]

        def states() -> list[str]:
            return [user.json("show", name)["state"] for name in names]

        wait_until(lambda: states().count("running") == 2, what="two of them run")
        assert states()[2:] == ["queued"] * 3, "in the order of the queue"
        assert [user.json("events", name)[-1]["event"] for name in names[2:]] == ["queued"] * 3
        (tmp_path / "go").touch()
        assert [over(user, name)["state"] for name in names] == ["completed"] * 5

    def test_a_run_script_prepares_runs_and_analyses(self, user: Cli, project: Path, tmp_path: Path) -> None:
        write(project / "measure.py", "import sys\nprint(sys.prefix, *sys.argv[1:], file=open('raw', 'w'))\n")
        write(
            project / "run.sh",
            f"""
            set -e
            "{sys.executable}" -m venv --without-pip "$PWD/env"
            . env/bin/activate
            echo 1,2 > data.csv
            python measure.py $RUN_ARGS$
            wc -w < raw > output/words
            """,
        )
        (name,) = submit(user, "run.sh", "data.csv", "--lr", "0.1")["runs"]
        assert over(user, name)["state"] == "completed"
        user("extract", name, str(tmp_path / "got"))
        assert (tmp_path / "got/after/output/words").read_text().split() == ["4"]

    def test_frozen_files_are_fetched_once_by_a_node(self, user: Cli, project: Path) -> None:
        write(project / "unlike-any-other.txt", f"{project} {os.getpid()}")
        first, second = (submit(user, "cat", "unlike-any-other.txt")["runs"][0] for _ in range(2))
        for name in (first, second):
            over(user, name)
        assert data_of(user, first, "download_before")[0]["files"] == 1
        assert data_of(user, second, "download_before")[0]["downloaded"] == 0

    def test_a_model_is_mounted_or_downloaded(self, user: Cli, project: Path, tmp_path: Path) -> None:
        write(tmp_path / "weights", "1 2 3")
        user("upload", str(tmp_path / "weights"), "--share", "best")
        command = 'cat "$TURNOUT_MODEL_DIR/weights" "$XT_MODEL_DIR/weights"; [ -w "$TURNOUT_MODEL_DIR/weights" ]'
        for options in (["mount"], ["download", "--model-writable"]):
            (name,) = submit(user, "--model", "best", "--model-action", *options, "sh", "-c", command)["runs"]
            over(user, name)
            assert user("logs", name).stdout == "1 2 31 2 3"
            assert data_of(user, name, "download_before")[0]["model"]["action"] == options[0]

    def test_conda_packages_are_installed_with_the_conda_of_the_node(
        self, user: Cli, project: Path, tmp_path: Path
    ) -> None:
        """A stand-in for conda writes down what it is asked for and makes an environment with one program."""
        conda = tmp_path / "bin" / "micromamba"
        conda.parent.mkdir()
        write(conda, f"""\
            #!/bin/sh
            echo "$@" >> {tmp_path}/asked
            mkdir -p "$4/bin" "$4/conda-meta"
            printf '#!/bin/sh\\necho installed by conda\\n' > "$4/bin/tool"
            chmod +x "$4/bin/tool"
            ln -s "{sys.executable}" "$4/bin/python"
            """)  # fmt: skip
        conda.chmod(0o755)
        write(project / "turnout.yaml", "setups: {lab: {conda-packages: [openmm=8, 'ambertools>=23']}}\n")
        path = {"PATH": f"{conda.parent}{os.pathsep}{os.environ['PATH']}"}
        for _ in range(2):
            assert user("run", "--setup", "lab", "sh", "-c", "tool", env=path).stdout == "installed by conda\n"
        (asked,) = (tmp_path / "asked").read_text().splitlines()
        assert asked.startswith("create --yes --prefix ") and asked.endswith(" openmm=8 ambertools>=23")

    def test_the_agent_exits_when_there_is_nothing_left_to_do(self, user: Cli, project: Path) -> None:
        over(user, submit(user, "--target", "two", "true")["runs"][0])
        wait_until(lambda: user.json("hub", "status")["agents"] == [], what="all agents are gone")


class TestRepeating:
    def test_the_parent_counts_down_and_is_requeued_while_it_has_children_left(self, user: Cli, project: Path) -> None:
        (parent,) = submit(user, "--repeat", "3", "true")["runs"]
        over(user, parent)
        children = data_of(user, parent, "child_created")
        assert [(each["child"], each["remaining"]) for each in children] == [
            (f"{parent}.1", 2), (f"{parent}.2", 1), (f"{parent}.3", 0),
        ]  # fmt: skip
        assert [each["remaining"] for each in data_of(user, parent, "requeued")] == [2, 1]

    def test_the_parent_script_comes_first_and_then_the_parent_waits_again(self, user: Cli, project: Path) -> None:
        write(project / "prepare.sh", "echo preparing\n")
        (parent,) = submit(user, "--repeat", "2", "--parent-script", "prepare.sh", "true")["runs"]
        over(user, parent)
        told = [each["event"] for each in user.json("events", parent)]
        assert told == [
            "created", "capture_before", "queued",
            "started", "download_before", "running", "ended", "capture_after", "parent_script", "requeued",
            "child_created", "requeued", "child_created", "ended",
        ]  # fmt: skip
        assert user("logs", parent).stdout == "preparing\n"


def test_help_lists_every_command(cli: Cli) -> None:
    told = cli("help").stdout
    assert all(name in told for name in ("run", "attach", "events", "config", "cancel", "list"))
    assert cli("help", "run").stdout.startswith("Usage: turnout run")
