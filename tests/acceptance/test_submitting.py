"""`turnout run`: what can be run, with which options, what it finds where it runs, and what it can tell."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, wait_until
from turnout.model.spec import JobSpec

pytestmark = pytest.mark.xdist_group("submitting")

PLAIN = ["created", "capture_before", "queued", "started", "download_before", "running", "ended", "capture_after"]


@pytest.fixture(scope="module", autouse=True)
def _a_narrow_target(user: Cli) -> None:
    """`one` runs one at a time."""
    user.home.mkdir(mode=0o700)
    (user.home / "config.yaml").write_text("compute-targets:\n  one: {service: local, max-runs: 1}\n")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))


def run(cli: Cli, *args: str, **options: Any) -> dict[str, Any]:
    """Runs it to its end, whatever that is, and shows it."""
    view: dict[str, Any] = json.loads(cli("run", "--wait", "--json", *args, check=False, **options).stdout)
    return view


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


class TestWhatCanBeRun:
    def test_a_command(self, user: Cli, project: Path) -> None:
        done = user("run", "printf", "%s|", "a b", "c")
        assert done.stdout == "a b|c|"
        assert done.stderr.strip().startswith("run")

    def test_a_program_of_the_project(self, user: Cli, project: Path) -> None:
        write(project / "tool", "#!/bin/sh\necho tool $1\n")
        os.chmod(project / "tool", 0o755)
        assert user("run", "./tool", "x").stdout == "tool x\n"

    def test_a_script_whose_place_for_arguments_is_filled(self, user: Cli, project: Path) -> None:
        write(project / "run.sh", 'for each in $RUN_ARGS$; do echo "[$each]"; done\nprintf \'%s;\' "$RUN_ARGS$"\n')
        assert user("run", "run.sh", "a b", "c").stdout == "[a b]\n[c]\na b;c;"

    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ('printf "%s|" "all: $RUN_ARGS$"', "all: a b *|"),
            ('printf "%s|" "$RUN_ARGS$ and $RUN_ARGS$"', "a b * and a b *|"),
            ('printf "%s|" "x" $RUN_ARGS$ "y"', "x|a b|*|y|"),
            ('printf "%s|" \\"$RUN_ARGS$', '"a b|*|'),
        ],
    )
    def test_such_a_place_amid_other_text(self, user: Cli, project: Path, line: str, told: str) -> None:
        """No argument is ever read as shell, or taken apart."""
        write(project / "run.sh", f"{line}\n")
        assert user("run", "run.sh", "a b", "*").stdout == told

    def test_a_script_without_such_a_place(self, user: Cli, project: Path) -> None:
        write(project / "scripts/run.sh", 'echo "$1 in $(basename "$PWD"), beside $(ls)"\n')
        assert user("run", "scripts/run.sh", "one").stdout.startswith("one in work, beside output\noutput.txt\nscripts")

    def test_a_python_file_runs_unbuffered_in_the_active_environment(
        self, user: Cli, project: Path, tmp_path: Path
    ) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
        write(
            project / "show.py",
            "import sys\nprint(sys.prefix, sys.argv[1:])\nprint(open('/proc/self/cmdline').read().split(chr(0))[1])\n",
        )
        active = {"VIRTUAL_ENV": str(tmp_path / "venv"), "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"}
        done = user("run", "show.py", "a b", "--lr", "0.1", env=active)
        assert done.stdout == f"{tmp_path}/venv ['a b', '--lr', '0.1']\n-u\n"

    def test_the_environment_of_conda_counts_as_well(self, user: Cli, project: Path) -> None:
        write(
            project / "show.py",
            "import os\nprint(os.environ['CONDA_PREFIX'] + '/bin' in os.environ['PATH'].split(':'))\n",
        )
        active = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "/opt/conda/envs/x"}
        assert user("run", "show.py", env=active).stdout == "True\n"

    def test_what_was_frozen_is_what_runs(self, user: Cli, project: Path) -> None:
        """Files are taken at submit: what changes afterwards does not count."""
        write(project / "data.txt", "as submitted")
        write(project / "run.sh", "cat data.txt")
        user("run", "-d", "--target", "one", "sleep", "0.5")
        name = user.json("run", "-d", "--target", "one", "run.sh")["runs"][0]
        write(project / "data.txt", "changed")
        write(project / "run.sh", "echo changed")
        user("attach", name)
        assert user("logs", name).stdout == "as submitted"

    def test_without_any_files(self, user: Cli, project: Path) -> None:
        write(project / "here.txt", "x")
        assert user("run", "--no-snapshot", "ls").stdout == "output\noutput.txt\n"


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("command", "code"),
        [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
    )
    def test_waiting_exits_as_the_run_did(self, user: Cli, project: Path, command: str, code: int) -> None:
        assert user("run", "--wait", "sh", "-c", command, check=False).returncode == code

    def test_not_waiting_exits_well(self, user: Cli, project: Path) -> None:
        done = user("run", "sh", "-c", "exit 3")
        assert "failed: exit code 3" in done.stderr and "turnout why" in done.stderr

    def test_a_signal_is_the_reason(self, user: Cli, project: Path) -> None:
        view = run(user, "sh", "-c", "kill -TERM $$")
        assert (view["state"], view["reason"], view["exit_code"], view["signal"]) == ("failed", "signal", None, 15)

    def test_a_time_limit(self, user: Cli, project: Path) -> None:
        view = run(user, "--time", "0.3s", "--grace", "0.2", "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
        assert (view["state"], view["reason"]) == ("failed", "timeout")
        assert view["duration"] < 5

    def test_a_program_that_may_not_be_executed(self, user: Cli, project: Path) -> None:
        write(project / "tool", "#!/bin/sh\n")
        view = run(user, "./tool")
        assert view["state"] == "failed" and view["exit_code"] == 126 and "chmod +x" in view["message"]

    def test_many_exit_as_the_first_that_failed(self, user: Cli, project: Path) -> None:
        write(project / "lines.txt", "true\nsh -c 'exit 4'\ntrue\n")
        done = user("run", "--wait", "--multi", "lines.txt", check=False)
        assert done.returncode == 4 and "2 completed, 1 failed" in done.stdout and "--filter" in done.stderr


class TestDetached:
    def test_it_returns_at_once_with_the_names(self, user: Cli, project: Path) -> None:
        told = user.json("run", "-d", "sleep", "30")
        assert set(told) == {"job", "runs"} and told["job"].startswith("job") and told["runs"][0].startswith("run")
        assert user.json("show", told["runs"][0])["state"] in ("queued", "starting", "running")
        user("cancel", "job", told["job"])

    def test_in_words(self, user: Cli, project: Path) -> None:
        write(project / "lines.txt", "true\ntrue\n")
        job, _, runs = user("run", "--detach", "--multi", "lines.txt").stdout.strip().partition(": ")
        first, _, last = runs.partition(" … ")
        assert int(last[3:]) == int(first[3:]) + 1 and job.startswith("job")


def tree(root: Path) -> dict[str, tuple[int, int, int]]:
    """Everything there, with mode, size and time of change."""
    found = {str(path): path.lstat() for path in ([*root.rglob("*"), root] if root.exists() else [])}
    return {path: (seen.st_mode, seen.st_size, seen.st_mtime_ns) for path, seen in found.items()}


class TestDryRun:
    """It shows exactly what would happen, and changes nothing."""

    def test_it_does_not_even_make_the_state_directory(self, cli: Cli) -> None:
        write(cli.cwd / "run.sh", "echo $RUN_ARGS$\n")
        before = tree(cli.home.parent)
        told = cli(
            "run",
            "--dry-run",
            "--runs",
            "3",
            "--tag",
            "a=b",
            "--env",
            "X=secret",
            "--time",
            "5m",
            "run.sh",
            "one",
            "two",
        ).stdout
        assert tree(cli.home.parent) == before
        for part in ("3 runs", "to local", "run.sh one two", "1 file,", "5 min", "a=b", "X"):
            assert part in told
        assert "secret" not in told

    def test_nor_does_it_touch_one_that_is_there(self, user: Cli, project: Path) -> None:
        write(project / "a.txt", "hello")
        user("run", "--wait", "true")
        user("hub", "stop")
        wait_until(lambda: not (user.home / "turnout.db-wal").exists())
        before = tree(user.home), tree(project)
        write(project / "b.txt", "new")
        (project / "b.txt").unlink()
        plan = user.json("run", "--dry-run", "--experiment", "e", "--cpus", "2", "echo", "x")
        os.utime(project, ns=(0, 0))
        assert tree(user.home) == before[0]
        assert plan["dry_run"] is True and plan["commands"] == [["echo", "x"]] and plan["files"] == ["a.txt"]
        assert (plan["experiment"], plan["target"], plan["runs"], plan["bytes"]) == ("e", "local", 1, 5)
        assert {name: each for name, each in plan["resources"].items() if each is not None} == {"cpus": 2}
        assert not user.json("hub", "status")["running"]

    def test_for_a_python_file_it_shows_the_script(self, user: Cli, project: Path) -> None:
        write(project / "train.py", "")
        plan = user.json("run", "--dry-run", "train.py", "--lr", "1", env={"VIRTUAL_ENV": "/opt/my env"})
        assert "export VIRTUAL_ENV='/opt/my env'" in plan["script"] and "-u train.py $RUN_ARGS$" in plan["script"]
        told = user("run", "--dry-run", "train.py", "--name", "a b").stdout
        assert "python" in told and "-u train.py --name 'a b'\n" in told

    def test_what_it_reads_and_needs_in_words_and_as_a_whole(self, user: Cli, project: Path) -> None:
        write(project / "train" / "cat", "meow\n")
        user("upload", "train", "--share", "pets", "--path", "train")
        words = ["--data", "pets/train", "--memory", "4G", "--nodes", "2", "--runs", "5", "--held", "echo", "hi"]
        told = user("run", "--dry-run", *words).stdout
        for part in ("share pets/train, a read-only view", "4G", "2, 5 runs dealt out", "turnout release"):
            assert part in told
        spec = user.json("run", "--dry-run", "--env", "TOKEN=hidden", *words)["spec"]
        assert (spec["total"], spec["held"], spec["resources"]["memory"]) == (5, True, 4 << 30)
        assert spec["env"] == ["TOKEN"] and "PATH" in spec["inherited_env"] and "hidden" not in str(spec)
        assert set(spec) == {field.name for field in dataclasses.fields(JobSpec)}


class TestOptions:
    def test_where_it_belongs(self, user: Cli, project: Path) -> None:
        view = run(
            user,
            "--experiment",
            "exp",
            "--workspace",
            "ws",
            "--name",
            "my.run",
            "--tag",
            "a=1",
            "--tag",
            "b=x=y",
            "--tag",
            "bare",
            "--priority",
            "5",
            "true",
        )
        assert (view["experiment"], view["workspace"], view["label"], view["priority"]) == ("exp", "ws", "my.run", 5)
        assert view["tags"] == {"a": "1", "b": "x=y", "bare": ""}
        assert user.json("show", "my.run")["name"] == view["name"]

    def test_settings_of_the_project_and_the_environment(self, user: Cli, project: Path) -> None:
        write(project / "turnout.yaml", "general: {experiment: from-file, workspace: from-file}\n")
        view = run(user, "true", env={"TURNOUT_WORKSPACE": "from-env"})
        assert (view["experiment"], view["workspace"]) == ("from-file", "from-env")
        (project / "deeper").mkdir()
        plan = json.loads(
            user("run", "--dry-run", "--json", "--experiment", "given", "true", cwd=project / "deeper").stdout
        )
        assert (plan["experiment"], plan["workspace"]) == ("given", "from-file")

    def test_variables(self, user: Cli, project: Path) -> None:
        done = user(
            "run",
            "--env",
            "A=1",
            "--env",
            "B=x y=z",
            "--env",
            "MINE",
            "sh",
            "-c",
            'echo "$A|$B|$MINE|$ALSO"',
            env={"MINE": "m", "ALSO": "inherited"},
        )
        assert done.stdout == "1|x y=z|m|inherited\n"

    def test_memory_is_a_limit(self, user: Cli, project: Path) -> None:
        write(project / "eat.py", "import time\nkept = bytearray(300 << 20)\ntime.sleep(20)\n")
        view = run(user, "--memory", "100M", "eat.py")
        assert view["state"] == "failed" and view["duration"] < 15

    def test_more_processors_mean_fewer_at_once(self, user: Cli, project: Path) -> None:
        write(project / "lines.txt", "sleep 0.2\n" * 3)
        job = user.json("run", "-d", "--multi", "lines.txt", "--cpus", str(os.cpu_count()))
        assert at_once(user, job["runs"]) == 1

    def test_priority_goes_first(self, user: Cli, project: Path) -> None:
        done = user.home.parent / "done"
        user("run", "-d", "--target", "one", "sh", "-c", f"while [ ! -e {done} ]; do sleep 0.05; done")
        low, high = (user.json("run", "-d", "--target", "one", "--priority", p, "true")["runs"][0] for p in ("-1", "7"))
        done.touch()
        views = [finished(user, name) for name in (low, high)]
        assert views[1]["started"] < views[0]["started"]

    def test_a_failure_is_tried_again_with_what_it_left(self, user: Cli, project: Path) -> None:
        script = """
        import turnout
        turnout.tag(restart=turnout.is_restart())
        state = turnout.output_dir() / "state"
        count = int(state.read_text()) if state.exists() else 0
        state.write_text(str(count + 1))
        print("attempt", count + 1, flush=True)
        raise SystemExit(count < 2)
        """
        write(project / "again.py", script)
        view = run(user, "--retry", "2", "again.py")
        assert (view["state"], view["attempts"], view["tags"]) == ("completed", 3, {"restart": "true"})
        told = names(user.json("events", view["name"]))
        assert (told.count("started"), told.count("restarted"), told.count("requeued")) == (3, 2, 2)
        assert user("logs", view["name"]).stdout == "attempt 3\n"
        assert user("logs", view["name"], "--attempt", "1").stdout == "attempt 1\n"

    def test_no_more_than_that(self, user: Cli, project: Path) -> None:
        assert run(user, "--retry", "1", "false")["attempts"] == 2
        assert run(user, "--retry", "never", "false")["attempts"] == 1


def finished(cli: Cli, name: str) -> dict[str, Any]:
    """The run once it is over, however it ended."""
    cli("attach", name, check=False)
    view: dict[str, Any] = cli.json("show", name)
    assert view["ended"]
    return view


def at_once(cli: Cli, runs: list[str]) -> int:
    """How many of these executed at the same time, at most, by what their nodes measured."""
    spans: list[tuple[float, float]] = []
    for name in runs:
        finished(cli, name)
        (ended,) = (event["data"] for event in cli.json("events", name) if event["event"] == "ended")
        spans.append((ended["started"], ended["ended"]))
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


class TestMany:
    def test_the_same_command_some_times(self, user: Cli, project: Path) -> None:
        told = user.json("run", "-d", "--runs", "3", "sh", "-c", "echo $TURNOUT_RUN_NAME")
        (parent,) = told["runs"]
        children = [f"{parent}.{n}" for n in (1, 2, 3)]
        view = finished(user, parent)
        assert (view["state"], view["children"], view["parent"]) == ("completed", children, None)
        for child in children:
            shown = user.json("show", child)
            assert (shown["parent"], shown["job"], shown["state"]) == (parent, told["job"], "completed")
            assert user("logs", child).stdout == f"{child}\n"
            assert names(user.json("events", child)) == PLAIN
        events = user.json("events", parent)
        assert names(events)[:3] == PLAIN[:3]
        assert names(events).count("child_created") == 3 and names(events).count("requeued") == 2
        assert [event["data"]["child"] for event in events if event["event"] == "child_created"] == children

    def test_a_child_that_fails_fails_the_parent(self, user: Cli, project: Path) -> None:
        (parent,) = user.json("run", "-d", "--runs", "2", "sh", "-c", "case $TURNOUT_RUN_NAME in *.2) exit 9;; esac")[
            "runs"
        ]
        assert finished(user, parent)["state"] == "failed"
        assert user.json("show", f"{parent}.1")["state"] == "completed"
        assert user.json("show", f"{parent}.2")["exit_code"] == 9

    def test_in_the_foreground(self, user: Cli, project: Path) -> None:
        done = user("run", "--wait", "--runs", "3", "true")
        assert "3 completed" in done.stdout

    def test_a_run_per_line(self, user: Cli, project: Path) -> None:
        write(project / "run.sh", "echo script $RUN_ARGS$")
        write(project / "tool.py", "import sys\nprint('python', *sys.argv[1:])\n")
        write(project / "lines.txt", "# all kinds\necho 'a b' c\n\nrun.sh x  # the script\ntool.py y\n")
        told = user.json("run", "-d", "--multi", "lines.txt")
        assert len(told["runs"]) == 3
        outputs = []
        for name in told["runs"]:
            finished(user, name)
            outputs.append(user("logs", name).stdout)
        assert outputs == ["a b c\n", "script x\n", "python y\n"]

    def test_a_line_of_arguments_each(self, user: Cli, project: Path) -> None:
        write(project / "lines.txt", "--lr 0.1\n--lr '0.2 x'\n")
        told = user.json("run", "-d", "--multi", "lines.txt", "echo", "fixed")
        for name in told["runs"]:
            finished(user, name)
        assert [user("logs", name).stdout for name in told["runs"]] == ["fixed --lr 0.1\n", "fixed --lr 0.2 x\n"]

    def test_so_many_at_once(self, user: Cli, project: Path) -> None:
        write(project / "lines.txt", "sleep 0.15\n" * 4)
        alone = user.json("run", "-d", "--multi", "lines.txt", "--concurrent", "1")
        assert at_once(user, alone["runs"]) == 1


class TestOnTheNode:
    def test_the_environment(self, user: Cli, project: Path) -> None:
        write(project / "show.py", "import json, os\nprint(json.dumps(dict(os.environ, HERE=os.getcwd())))\n")
        told = user.json("run", "-d", "--experiment", "exp", "--workspace", "ws", "show.py")
        view = finished(user, told["runs"][0])
        env = json.loads(user("logs", view["name"]).stdout)
        assert env["TURNOUT_RUN_NAME"] == env["XT_RUN_NAME"] == view["name"]
        assert env["TURNOUT_JOB"] == env["XT_JOB_ID"] == told["job"]
        assert env["TURNOUT_EXPERIMENT"] == env["XT_EXPERIMENT_NAME"] == "exp"
        assert env["TURNOUT_WORKSPACE"] == env["XT_WORKSPACE_NAME"] == "ws"
        assert env["TURNOUT_NODE"] == env["XT_NODE_ID"] == view["node"]
        assert env["TURNOUT_OUTPUT_DIR"] == env["XT_OUTPUT_DIR"] == os.path.join(env["HERE"], "output")
        assert (env["TURNOUT_ATTEMPT"], json.loads(env["TURNOUT_PARAMS"])) == ("1", {})
        assert (env["PWD"], os.path.basename(env["HERE"])) == (env["HERE"], "work")

    def test_events_in_their_order(self, user: Cli, project: Path) -> None:
        write(project / "a.txt", "hello")
        view = run(user, "cat", "a.txt")
        events = user.json("events", view["name"])
        assert names(events) == PLAIN
        assert [event["seq"] for event in events] == list(range(1, 9))
        assert all(set(event) == {"seq", "time", "event", "data"} for event in events)
        assert sorted(event["time"] for event in events) == [event["time"] for event in events]
        data = {event["event"]: event["data"] for event in events}
        assert data["capture_before"]["files"] == data["download_before"]["files"] == 1
        assert (data["ended"]["cause"], data["ended"]["exit_code"], data["capture_after"]["output_bytes"]) == (
            "exit",
            0,
            5,
        )

    def test_events_of_a_run_that_tells(self, user: Cli, project: Path) -> None:
        write(project / "tell.py", "import turnout\nturnout.params(lr=0.1)\nturnout.log(loss=1.0)\n")
        events = names(user.json("events", run(user, "tell.py")["name"]))
        assert [name for name in events if name in PLAIN] == PLAIN
        assert events[events.index("running") + 1 : events.index("ended")] == ["hparams", "metrics"]

    def test_all_it_prints_is_in_one_file(self, user: Cli, project: Path) -> None:
        command = "echo out; echo err >&2; cp output.txt copy; cat copy; stat -L -c %a output.txt"
        assert user("run", "sh", "-c", command).stdout == "out\nerr\nout\nerr\n600\n"

    def test_the_files_it_leaves(self, user: Cli, project: Path, tmp_path: Path) -> None:
        script = (
            "cd $TURNOUT_OUTPUT_DIR; mkdir deep; echo model > deep/model; ln -s deep/model link; touch ../x; echo done"
        )
        write(project / "given.txt", "given")
        view = run(user, "sh", "-c", script)
        told = user.json("extract", view["name"], str(tmp_path / "got"))
        assert (told["before"], told["after"]) == (1, 2)
        got = {
            str(path.relative_to(tmp_path / "got")): path.read_text()
            for path in (tmp_path / "got").rglob("*")
            if path.is_file()
        }
        assert got == {
            "before/given.txt": "given",
            "after/output/deep/model": "model\n",
            "after/output/link": "model\n",
            "output.txt": "done\n",
        }

    def test_nothing_is_left_behind(self, user: Cli, project: Path) -> None:
        run(user, "true")
        wait_until(lambda: not list(user.home.glob("nodes/*/runs/*")))


class TestInTheRun:
    """`import turnout` works where turnout is not installed: here, with nothing but Python's own library."""

    @pytest.fixture
    def bare(self, user: Cli, project: Path) -> Callable[..., dict[str, Any]]:
        def run_bare(script: str, *args: str) -> dict[str, Any]:
            write(project / "bare.py", script)
            return run(user, *args, sys.executable, "-S", "bare.py", env={"PYTHONPATH": ""})

        return run_bare

    def test_it_is_not_installed_there(self, user: Cli, bare: Any) -> None:
        view = bare("import turnout\nprint(turnout.__file__)\nturnout.Client\n")
        told = user("logs", view["name"]).stdout
        assert str(user.home / "nodes") in told and "turnout is not installed here" in told

    def test_metrics(self, user: Cli, bare: Any) -> None:
        view = bare(
            """
            import turnout
            for step in range(5):
                turnout.log(loss=1 / (step + 1), step=step)
            turnout.log({"val/acc": 0.5})
            """
        )
        assert view["metrics"] == {"loss": 0.2, "val/acc": 0.5}
        series = user.json("metrics", view["name"], "loss")
        assert [(point["step"], point["value"]) for point in series["loss"]] == [(n, 1 / (n + 1)) for n in range(5)]

    def test_parameters_tags_and_files(self, user: Cli, bare: Any, tmp_path: Path) -> None:
        view = bare(
            """
            import turnout
            assert turnout.params() == {}
            assert turnout.params(lr=0.1, layers=[1, 2])["lr"] == 0.1
            turnout.params(lr=0.2, name="x")
            turnout.tag(stage="final")
            turnout.tag("keep")
            (turnout.output_dir() / "model").write_text("weights")
            open("notes", "w").write("kept too")
            open("scratch", "w").write("not kept")
            turnout.artifact("notes")
            assert not turnout.is_restart()
            print("done")
            """,
            "--tag", "stage=draft",
        )  # fmt: skip
        assert user("logs", view["name"]).stdout == "done\n"
        assert view["params"] == {"lr": 0.2, "layers": [1, 2], "name": "x"}
        assert view["tags"] == {"stage": "final", "keep": ""}
        user("extract", view["name"], str(tmp_path / "got"))
        assert sorted(path.name for path in (tmp_path / "got/after").rglob("*") if path.is_file()) == ["model", "notes"]

    def test_a_mistake_is_the_scripts_own(self, user: Cli, bare: Any) -> None:
        view = bare("import turnout\nturnout.log(loss='low')\n")
        assert view["state"] == "failed" and "loss" in user("logs", view["name"]).stdout

    def test_outside_a_run_it_does_nothing_harmful(self, tmp_path: Path) -> None:
        script = "from turnout import *\nlog(a=1)\ntag(x=1)\nartifact('a')\nprint(params(b=2), is_restart())\n"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TURNOUT_")}
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert (done.stdout, done.returncode) == ("{'b': 2} False\n", 0)
        assert not list(tmp_path.iterdir())

    def test_a_run_in_a_run(self, user: Cli, project: Path) -> None:
        """It belongs to the same experiment and is otherwise its own."""
        inside = user.argv("run", "--wait", "--no-snapshot", "sh", "-c", "echo $TURNOUT_RUN_NAME")
        view = run(user, "--experiment", "nested", *inside)
        inner = user("logs", view["name"]).stdout.splitlines()[-1]
        assert inner != view["name"] and user.json("show", inner)["experiment"] == "nested"


def test_files_a_run_makes_have_the_modes_of_the_submitters_umask(cli: Cli, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        cli("run", "--wait", "sh", "-c", f"umask; touch {tmp_path}/made")
    finally:
        os.umask(before)
    assert cli("logs", "run1").stdout == "0027\n"
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
