"""Everyday lists: choosing runs by names and filters, ordering and shaping them, tagging what was found."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import turnout
from tests.harness import Cli, user_environment, wait_until
from turnout.errors import NotFound

pytestmark = pytest.mark.xdist_group("listing")

TRAIN = """
import sys, turnout
rate = float(sys.argv[1])
turnout.params(lr=rate, depth=int(rate * 10))
if len(sys.argv) > 2:
    turnout.log(loss=float(sys.argv[2]), step=1)
"""


@pytest.fixture(scope="module")
def runs(user: Cli) -> list[str]:
    """run1 to run5: four of the experiment `grid`, three of which logged a loss; run5 failed; run6 has children."""
    (user.cwd / "train.py").write_text(TRAIN)
    (user.cwd / "grid.txt").write_text("train.py 0.1 0.5\ntrain.py 0.2 0.25\ntrain.py 0.3 0.75\ntrain.py 0.4\n")
    told = user.json("run", "-d", "--experiment", "grid", "--name", "first", "--multi", "grid.txt")
    user("run", "--wait", "--workspace", "other", "--tag", "kind=bad", "sh", "-c", "exit 7", check=False)
    user("run", "--wait", "--experiment", "family", "--runs", "3", "true")
    for name in told["runs"]:
        user("attach", name)
    return ["run1", "run2", "run3", "run4", "run5", "run6"]


def named(user: Cli, *args: str) -> list[str]:
    return user("list", "runs", "--names", *args).stdout.split()


class TestNames:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["run2"], ["run2"]),
            (["run2-run4"], ["run4", "run3", "run2"]),
            (["run6.1-run6.2"], ["run6.2", "run6.1"]),
            (["run6.*"], ["run6.3", "run6.2", "run6.1"]),
            (["run6*"], ["run6.3", "run6.2", "run6.1", "run6"]),
            (["job2", "run1"], ["run5", "run1"]),
            (["first"], ["run4", "run3", "run2", "run1"]),
            (["grid"], ["run4", "run3", "run2", "run1"]),
            (["job2-job3", "--filter", "state = failed"], ["run5"]),
            (["run?"], ["run6", "run5", "run4", "run3", "run2", "run1"]),
        ],
    )
    def test_what_they_mean(self, user: Cli, runs: list[str], words: list[str], expected: list[str]) -> None:
        assert sorted(named(user, *words)) == sorted(expected)

    @pytest.mark.parametrize("word", ["run99", "run90-run99", "run99*", "job99", "nobody", "run6.9", "run6.7-run6.9"])
    def test_what_is_not_there_is_said(self, user: Cli, runs: list[str], word: str) -> None:
        done = user("list", "runs", word, check=False)
        assert done.returncode == 3 and word in done.stderr and "turnout list" in done.stderr

    @pytest.mark.parametrize("word", ["run4-run2", "run6.1-run7.2", "run3-job4", ""])
    def test_what_makes_no_sense_is_refused(self, user: Cli, runs: list[str], word: str) -> None:
        done = user("list", "runs", word, check=False)
        assert done.returncode == 2 and "run" in done.stderr

    def test_the_last_of_this_directory(self, user: Cli, runs: list[str], tmp_path: Path) -> None:
        here, there = tmp_path / "here", tmp_path / "there"
        here.mkdir()
        there.mkdir()
        first = json.loads(user("run", "-d", "--json", "true", cwd=here).stdout)
        second = json.loads(user("run", "-d", "--json", "true", cwd=there).stdout)
        assert user("show", "$lastrun", cwd=here).stdout.split()[1] == first["runs"][0]
        assert user("show", "@lastjob", cwd=there).stdout.split()[1] == second["job"]
        assert user("show", "@lastrun", cwd=tmp_path).stdout.split()[1] == second["runs"][0]
        assert user("list", "runs", "--names", "@lastjob", cwd=here).stdout.split() == first["runs"]
        assert "'$lastrun'" in user("show", "", check=False).stderr
        kept = list((user.home / "recent").iterdir())
        assert kept and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
        user("attach", "$lastrun", cwd=here)

    def test_nothing_submitted_yet(self, cli: Cli) -> None:
        done = cli("show", "$lastrun", check=False)
        assert done.returncode == 3 and "turnout run" in done.stderr


class TestChoosing:
    def test_filters_are_one_language(self, user: Cli, runs: list[str]) -> None:
        def found(*filters: str) -> list[str]:
            return sorted(named(user, "run1-run6", *(part for one in filters for part in ("--filter", one))))

        assert found("metrics.loss < 0.6 and state = completed") == ["run1", "run2"]
        assert found("metrics.loss > 0.3", "metrics.loss < 0.6") == ["run1"]
        assert found("experiment ~ '^gr.d$' and not metrics.loss exists") == ["run4"]
        assert found("params.lr in (0.1, 0.4)") == ["run1", "run4"]
        assert found("created < 1h and created >= 2024-01-01 and (tags.kind = bad or exit_code > 0)") == ["run5"]
        assert sorted(named(user, "--tag", "kind=bad")) == ["run5"] == sorted(named(user, "--tag", "kind"))

    def test_a_filter_with_a_typo_points_at_it(self, user: Cli) -> None:
        done = user("list", "runs", "--filter", "state = failed and metric.loss < 1", check=False)
        lines = done.stderr.splitlines()
        assert done.returncode == 2 and lines[2].index("^") == lines[1].index("metric.loss")
        assert "did you mean metrics.loss?" in lines[3]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--filter", "metrics.los < 1"], "no run here has a metric 'los'; did you mean 'loss'?"),
            (["--filter", "state = failed and hparams.xyz = 1"], "no run here has a parameter 'xyz'; `turnout list"),
            (["--tag", "kin=bad"], "no run here has a tag 'kin'; did you mean 'kind'?"),
        ],
    )
    def test_a_name_that_no_run_has_is_told_when_nothing_matches(
        self, user: Cli, runs: list[str], words: list[str], said: str
    ) -> None:
        done = user("list", "runs", *words)
        assert done.stdout == "" and done.stderr.startswith("no runs match\n") and said in done.stderr
        assert "has a" not in user("list", "runs", "--filter", "metrics.loss < 0").stderr
        assert user.json("list", "runs", *words) == []

    def test_sorting_keeps_what_lacks_the_column_and_comes_both_ways(self, user: Cli, runs: list[str]) -> None:
        by_loss = ["run1-run4", "--sort", "metrics.loss"]
        assert named(user, *by_loss) == ["run2", "run1", "run3", "run4"]
        assert named(user, *by_loss, "--reverse") == ["run3", "run1", "run2", "run4"]
        assert named(user, *by_loss, "--filter", "metrics.loss < 0.6") == ["run2", "run1"]
        assert named(user, *by_loss, "--first", "1") == ["run2"]
        assert named(user, *by_loss, "--last", "2") == ["run3", "run4"]

    def test_first_are_the_oldest_and_last_the_newest(self, user: Cli, runs: list[str]) -> None:
        assert named(user, "run1-run6", "--first", "2") == ["run1", "run2"]
        assert named(user, "run1-run6", "--last", "2") == ["run6", "run5"]
        assert named(user, "run1-run6", "--last", "2", "--reverse") == ["run5", "run6"]
        assert named(user, "run1-run6", "--reverse")[:2] == ["run1", "run2"]
        assert len(named(user, "--all")) >= 9
        assert user("list", "runs", "--all", "--first", "2", check=False).returncode == 2


class TestShape:
    def test_columns_have_headers_and_formats(self, user: Cli, runs: list[str]) -> None:
        spec = "name=Run,params.*,metrics.loss=Loss:.3f,exit_code=Code:$bz,created:$do,message"
        done = user("list", "runs", "run1-run5", "--sort", "name", "--columns", spec)
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert lines[0] == ["Run", "depth", "lr", "Loss", "Code", "created", "message"]
        assert lines[1][:5] == ["run1", "1", "0.1", "0.500", ""] and lines[1][5].count("-") == 2
        assert lines[5][:5] == ["run5", "", "", "", "7"]

    def test_columns_that_are_empty_are_left_out_unless_asked_for(self, user: Cli, runs: list[str]) -> None:
        assert "label" not in user("list", "runs", "run5").stdout.splitlines()[0].split("\t")
        assert "label" in user("list", "runs", "run1").stdout.splitlines()[0].split("\t")
        asked = user("list", "runs", "run5", "--columns", "name,label,metrics.*").stdout
        assert asked.splitlines() == ["name\tlabel", "run5\t"]

    def test_csv_is_whole(self, user: Cli, runs: list[str]) -> None:
        done = user("list", "runs", "run1,run5".replace(",", "-"), "--csv", "--columns", "name,command,duration")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        assert [row["name"] for row in rows] == ["run5", "run4", "run3", "run2", "run1"]
        assert rows[0]["command"] == "sh -c 'exit 7'" and float(rows[0]["duration"]) >= 0

    def test_groups_have_counts(self, user: Cli, runs: list[str]) -> None:
        groups = user.json("list", "runs", "run1-run5", "--group", "state")
        assert {group["value"]: group["count"] for group in groups} == {"completed": 4, "failed": 1}
        assert [run["name"] for run in groups[0]["runs"]] == ["run5"]
        lines = user("list", "runs", "run1-run5", "--group", "state", "--columns", "name").stdout.splitlines()
        assert lines == ["state\tname", "failed\trun5", *(f"completed\trun{number}" for number in (4, 3, 2, 1))]

    def test_all_columns_there_are(self, user: Cli, runs: list[str]) -> None:
        columns = [row["column"] for row in user.json("list", "runs", "--available")]
        assert {"name", "command", "metrics.loss", "params.lr", "params.depth", "tags.kind"} <= set(columns)
        for kind in ("jobs", "experiments", "workspaces", "targets", "nodes", "boxes"):
            assert "name" in user("list", kind, "--available").stdout

    def test_defaults_come_from_the_settings(self, user: Cli, runs: list[str], tmp_path: Path) -> None:
        text = "run-reports:\n  columns: [name, 'metrics.loss:.1f']\n  sort: metrics.loss\n  last: 2\n"
        (tmp_path / "turnout.yaml").write_text(text)
        lines = user("list", "runs", "grid", cwd=tmp_path).stdout.splitlines()
        assert lines == ["name\tmetrics.loss", "run2\t0.2", "run1\t0.5"]

    def test_the_same_table_through_a_pipe(self, user: Cli, runs: list[str]) -> None:
        columns = "name,params.lr,metrics.loss,created"
        lines = user("list", "runs", "run1-run2", "--table", "--sort", "name", "--columns", columns).stdout.splitlines()
        assert lines[0].split() == ["name", "params.lr", "metrics.loss", "created"]
        assert [line.split()[:3] for line in lines[1:]] == [["run1", "0.1", "0.5"], ["run2", "0.2", "0.25"]]
        assert all(line.endswith(" ago") and "\t" not in line and "\x1b" not in line for line in lines[1:])
        wrong = user("list", "runs", "--table", "--csv", check=False)
        assert wrong.returncode == 2 and "--table and --csv" in wrong.stderr

    def test_a_terminal_of_80_columns(self, user: Cli, runs: list[str]) -> None:
        """Numbers to the right, long texts cut, no line longer than the terminal; colours where wanted."""
        script = f"stty cols 80; exec {sys.executable} -m turnout.cli list runs run1-run5 --columns "
        script += "name,state,metrics.loss,experiment,command=A_very_long_header_that_says_what_it_is_all_about,created"
        env = {**user_environment(user.home), "TERM": "xterm"}
        env.pop("COLUMNS")
        env.pop("NO_COLOR")
        if shutil.which("script") is None:
            pytest.skip("script (util-linux) is missing")
        argv = ["script", "-qec", script, "/dev/null"]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
        assert "\x1b[31mfailed\x1b[0m" in done.stdout
        plain = done.stdout.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[0m", "").splitlines()
        assert all(len(line) <= 80 for line in plain) and "…" in plain[0] and plain[0].startswith("name  state")
        assert plain[-1].split()[2] == "0.5" and " 0.25  grid" in done.stdout and "0.75  grid" in done.stdout


class TestOtherLists:
    def test_jobs(self, user: Cli, runs: list[str]) -> None:
        assert user("list", "jobs", "--names", "--filter", "experiment = grid and failed = 0").stdout.split() == [
            "job1"
        ]
        assert user("list", "jobs", "--names", "--sort", "runs", "job1-job3", "--reverse").stdout.split()[0] == "job1"
        assert user("list", "jobs", "--names", "--first", "2").stdout.split() == ["job1", "job2"]
        assert user("list", "jobs", "--names", "first").stdout.split() == ["job1"]

    def test_experiments_and_workspaces(self, user: Cli, runs: list[str]) -> None:
        grid = next(row for row in user.json("list", "experiments") if row["name"] == "grid")
        assert (grid["workspace"], grid["jobs"], grid["runs"], grid["live"]) == ("default", 1, 4, 0)
        family = next(row for row in user.json("list", "experiments") if row["name"] == "family")
        assert (family["jobs"], family["runs"]) == (1, user.json("show", "job3")["runs"]) == (1, 3)
        other = next(row for row in user.json("list", "workspaces") if row["name"] == "other")
        assert (other["experiments"], other["jobs"]) == (1, 1)
        assert user("list", "experiments", "--names", "gr*").stdout.split() == ["grid"]
        assert user("list", "experiments", "nobody", check=False).returncode == 2

    def test_targets_nodes_and_boxes(self, user: Cli, runs: list[str], tmp_path: Path) -> None:
        assert "local" in user("list", "targets", "--names").stdout.split()
        (node,) = user.json("list", "nodes")
        assert node["target"] == "local" and node["cpus"] >= 1
        (tmp_path / "turnout.yaml").write_text("boxes:\n  tower:\n    address: ada@tower.example\n")
        lines = user("list", "boxes", cwd=tmp_path).stdout.splitlines()
        assert lines[1].split("\t")[:2] == ["tower", "ada@tower.example"]


class TestTags:
    def test_set_and_clear(self, user: Cli, runs: list[str]) -> None:
        done = user.json("set", "tags", "run1-run3", "stage=final", "keep")
        assert done == {"runs": ["run1", "run2", "run3"], "jobs": []}
        assert user.json("show", "run2")["tags"] == {"stage": "final", "keep": ""}
        assert user.json("events", "run2")[-1]["event"] == "tags"
        assert sorted(named(user, "--filter", "tags.stage = final")) == ["run1", "run2", "run3"]
        assert user.json("clear", "tags", "run1", "run2", "keep")["runs"] == ["run1", "run2"]
        assert user.json("clear", "tags", "run1", "keep")["runs"] == []
        assert user.json("show", "run1")["tags"] == {"stage": "final"}

    def test_a_job_and_all_its_runs(self, user: Cli, runs: list[str]) -> None:
        assert user.json("set", "tags", "job3", "round=2")["jobs"] == ["job3"]
        assert sorted(named(user, "--tag", "round=2")) == ["run6", "run6.1", "run6.2", "run6.3"]
        assert [job["name"] for job in user.json("list", "jobs", "--filter", "tags.round = 2")] == ["job3"]

    def test_names_through_a_pipe(self, user: Cli, runs: list[str]) -> None:
        listed = user("list", "runs", "grid", "--sort", "metrics.loss", "--first", "2", "--names").stdout
        assert user("set", "tags", "-", "best", input=listed).stdout == "tagged run1, run2\n"
        table = user("list", "runs", "grid").stdout
        assert user("clear", "tags", "-", "best", input=table).stdout == "cleared run1, run2\n"
        assert user("set", "tags", "-", "x=1", check=False, input="").returncode == 2

    @pytest.mark.parametrize(
        ("words", "code"),
        [(["run1"], 2), (["run1", "9=x"], 2), (["run1", "run99", "a=b"], 3), (["nobody", "a=b"], 3),
         (["run1", "big=" + "x" * 110_000], 2)],
    )  # fmt: skip
    def test_what_cannot_be_changes_nothing(self, user: Cli, runs: list[str], words: list[str], code: int) -> None:
        before = user.json("show", "run1")["tags"]
        assert user("set", "tags", *words, check=False).returncode == code
        assert user.json("show", "run1")["tags"] == before


class TestCancel:
    def test_each_result_tells_what_became_of_it(self, user: Cli, runs: list[str]) -> None:
        name = user.json("run", "-d", "--experiment", "nap", "sleep", "100")["runs"][0]
        wait_until(lambda: user.json("show", name)["state"] == "running")
        done = {result["run_name"]: result for result in user.json("cancel", "run", name, "run1")}
        keys = ("workspace", "exper_name", "killed", "before_status")
        assert [done[name][key] for key in keys] == ["default", "nap", True, "running"]
        assert [done["run1"][key] for key in (*keys, "status")] == ["default", "grid", False, "completed", "completed"]
        wait_until(lambda: user.json("show", name)["state"] == "cancelled")

    def test_all_of_a_target_or_node(self, user: Cli, runs: list[str]) -> None:
        name = user.json("run", "-d", "sleep", "100")["runs"][0]
        wait_until(lambda: user.json("show", name)["node"])
        assert user("cancel", "all", "elsewhere", check=False).returncode == 3
        assert [result["run"] for result in user.json("cancel", "all", user.json("show", name)["node"])] == [name]
        assert [result["run"] for result in user.json("cancel", "all", "local")] in ([], [name])
        wait_until(lambda: user.json("show", name)["state"] == "cancelled")

    def test_a_range(self, user: Cli, runs: list[str]) -> None:
        job = user.json("run", "-d", "--repeat", "1", "sleep", "100")
        last = job["runs"][-1]
        assert {result["run"] for result in user.json("cancel", "run", f"run5-{last}")} >= {"run5", "run6", last}
        wait_until(lambda: user.json("show", last)["state"] == "cancelled")


class TestHelp:
    def test_as_the_option_does(self, user: Cli) -> None:
        assert user("help", "list", "runs").stdout == user("list", "runs", "--help").stdout
        assert user("help").stdout == user("--help").stdout
        assert "turnout --help" in user("help", "nothing", check=False).stderr

    def test_every_page_is_a_topic_and_is_shown(self, user: Cli) -> None:
        docs = Path(__file__).parents[2] / "docs"
        topics = {topic["page"]: topic for topic in user.json("help", "topics")}
        folders = ("tutorial", "howto", "explanation", "reference")
        assert topics.keys() == {str(page.relative_to(docs)) for name in folders for page in docs.glob(f"{name}/*.md")}
        assert user("help", "filters").stdout == (docs / "reference/filters.md").read_text()
        assert user.json("help", "json")["text"] == (docs / "reference/json.md").read_text()

    def test_a_page_that_is_called_like_a_command(self, user: Cli) -> None:
        assert user("help", "rerun").stdout.startswith("Usage: turnout rerun")
        assert user("help", "howto/rerun").stdout.startswith("# ")


class TestCompletion:
    def complete(self, user: Cli, tmp_path: Path, *words: str, home: Path | None = None) -> list[str]:
        """What a real bash offers for the last of `words` when tab is pressed."""
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "turnout").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m turnout.cli "$@"\n')
        (folder / "turnout").chmod(0o755)
        script = """
            eval "$(turnout completion bash)"
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _turnout_completion turnout; printf '%s\\n' "${COMPREPLY[@]}"
        """
        env = {**user_environment(home or user.home), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        argv = ["bash", "-c", script, "bash", "turnout", *words]
        done = subprocess.run(argv, env=env, cwd=user.cwd, capture_output=True, text=True, timeout=30)
        assert done.stderr == ""
        return done.stdout.split()

    def test_commands_names_and_columns(self, user: Cli, runs: list[str], tmp_path: Path) -> None:
        assert self.complete(user, tmp_path, "li") == ["list"]
        assert set(self.complete(user, tmp_path, "show", "run6")) == {"run6", "run6.1", "run6.2", "run6.3"}
        assert "first" in self.complete(user, tmp_path, "cancel", "run", "f")
        assert self.complete(user, tmp_path, "run", "--target", "lo") == ["local"]
        assert self.complete(user, tmp_path, "run", "--experiment", "gr") == ["grid"]
        assert self.complete(user, tmp_path, "list", "runs", "--sort", "metrics.lo") == ["metrics.loss"]
        assert self.complete(user, tmp_path, "list", "runs", "--columns", "name,exp") == ["name,experiment"]
        assert "--reverse" in self.complete(user, tmp_path, "list", "runs", "--re")

    def test_what_the_settings_name(self, user: Cli, tmp_path: Path) -> None:
        (user.cwd / "turnout.yaml").write_text(
            "compute-targets: {cloud: {service: local}}\nboxes: {workshop: {address: localhost}}\n"
            "setups: {torch: {pip-packages: [torch]}}\n"
        )
        user("secret", "set", "TOKEN", "--from-stdin", input="x")
        try:
            assert set(self.complete(user, tmp_path, "run", "--target", "")) == {"local", "cloud", "workshop"}
            assert self.complete(user, tmp_path, "rerun", "--target", "w") == ["workshop"]
            assert self.complete(user, tmp_path, "run", "--setup", "") == ["torch"]
            assert self.complete(user, tmp_path, "list", "boxes", "") == ["workshop"]
            assert self.complete(user, tmp_path, "config", "show", "gen") == ["general"]
            assert self.complete(user, tmp_path, "config", "show", "general.tar") == ["general.target"]
            assert self.complete(user, tmp_path, "config", "show", "setups.") == ["setups.torch"]
            assert self.complete(user, tmp_path, "secret", "remove", "") == ["TOKEN"]
        finally:
            (user.cwd / "turnout.yaml").unlink()
            user("secret", "remove", "TOKEN")

    def test_what_the_hub_knows(self, user: Cli, runs: list[str], tmp_path: Path) -> None:
        (node,) = {row["name"] for row in user.json("list", "nodes")}
        for command in ("restart", "why", "release"):
            assert self.complete(user, tmp_path, command, node[:2]) == [node], command
        assert "default" in self.complete(user, tmp_path, "export", "")
        assert "default" in self.complete(user, tmp_path, "delete", "workspace", "")
        assert self.complete(user, tmp_path, "delete", "experiment", "gr") == ["grid"]
        assert "job1" in self.complete(user, tmp_path, "why", "job")

    def test_help(self, user: Cli, tmp_path: Path) -> None:
        assert self.complete(user, tmp_path, "help", "filt") == ["filters"]
        assert self.complete(user, tmp_path, "help", "rer") == ["rerun"]
        assert self.complete(user, tmp_path, "help", "list", "ru") == ["runs"]

    @pytest.mark.parametrize("words", ["run pre", "run train.py da", "run --parent-script pre", "rerun run1 pre"])
    def test_files_are_left_to_the_shell(self, user: Cli, words: str) -> None:
        line = ["turnout", *words.split()]
        env = {"_TURNOUT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1)}
        assert user(env=env).stdout == f"file,{line[-1]}\n"

    def test_silent_without_a_hub(self, user: Cli, tmp_path: Path) -> None:
        home = tmp_path / "nowhere"
        assert self.complete(user, tmp_path, "show", "run", home=home) == []
        assert not home.exists()

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_every_shell_has_its_script(self, user: Cli, shell: str) -> None:
        assert "_TURNOUT_COMPLETE" in user("completion", shell).stdout


class TestFromPython:
    def test_the_same(self, user: Cli, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in user_environment(user.home).items():
            monkeypatch.setenv(name, value)
        client = turnout.Client()
        assert client.run_names(["run6.*", "run2-run3"]) == ["run2", "run3", "run6.1", "run6.2", "run6.3"]
        assert client.set_tags(["run4"], {"from": "python"})["runs"] == ["run4"]
        assert [run["name"] for run in client.runs(['tags.from = "python"'])] == ["run4"]
        assert client.clear_tags(["run4"], ["from"])["runs"] == ["run4"]
        assert [run["name"] for run in client.runs(names=["grid"], sort="metrics.loss", limit=1)] == ["run2"]
        with pytest.raises(NotFound):
            client.run_names(["run99"])


def test_status_shows_what_goes_on_however_much_is_over(cli: Cli) -> None:
    cli("run", "-d", "sleep", "600")
    (cli.cwd / "lines").write_text("true\n" * 60)
    cli("run", "--multi", "lines")
    shown = cli("status", "--max-finished", "2").stdout.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [
        ["run1", "running"],
        ["run61", "completed"],
        ["run60", "completed"],
    ]
    assert [each["name"] for each in cli.json("status", "--max-finished", "0")] == ["run1"]
