"""Watching and steering: every command that looks at runs or changes their course, and the same from Python."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout
from tests.harness import Cli, processes_of, user_environment, wait_until
from turnout.errors import Conflict, HubUnreachable, InvalidInput, NotFound
from turnout.model.spec import Resources, Retry

pytestmark = pytest.mark.xdist_group("steering")

SHOWN: dict[str, type | tuple[type, ...]] = {
    "name": str, "job": str, "experiment": str, "workspace": str, "state": str, "reason": (str, type(None)),
    "exit_code": (int, type(None)), "attempts": int, "target": str, "node": (str, type(None)), "command": list,
    "params": dict, "tags": dict, "metrics": dict, "created": str, "queued": (str, type(None)),
    "started": (str, type(None)), "ended": (str, type(None)), "parent": (str, type(None)), "children": list,
}  # fmt: skip
TELLING = """
import sys, turnout
rate = float(sys.argv[1])
turnout.params(lr=rate)
for step in range(3):
    turnout.log(loss=rate * (3 - step), step=step)
print("loss", rate)
"""
COMMANDS = (
    "run", "status", "attach", "logs", "events", "metrics", "show", "why", "list", "cancel", "extract", "hub", "doctor",
)  # fmt: skip
OPTIONS = (
    "target", "experiment", "workspace", "name", "tag", "env", "cpus", "memory", "gpus", "time", "retry", "priority",
    "runs", "multi", "concurrent", "detach", "wait", "dry-run", "json",
)  # fmt: skip
ESCAPE = "\x1b"


@pytest.fixture(scope="module")
def history(user: Cli) -> dict[str, str]:
    """Three runs that told something, one that failed, one that was cancelled: name by what it is."""
    (user.cwd / "tell.py").write_text(TELLING)
    (user.cwd / "grid.txt").write_text("tell.py 0.1\ntell.py 0.3\ntell.py 0.2\n")
    told = user.json("run", "-d", "--experiment", "grid", "--multi", "grid.txt")
    names = dict(zip(("low", "high", "middle"), told["runs"], strict=True))
    names["job"] = told["job"]
    names["failed"] = json.loads(
        user("run", "--wait", "--json", "--tag", "kind=bad", "sh", "-c", "echo oops; exit 7", check=False).stdout
    )["name"]
    names["cancelled"] = user.json("run", "-d", "sleep", "100")["runs"][0]
    user("cancel", "run", names["cancelled"])
    for name in names.values():
        user("attach" if name.startswith("run") else "show", name, check=False)
    (user.cwd / "tell.py").unlink()
    (user.cwd / "grid.txt").unlink()
    return names


@pytest.fixture
def going(user: Cli) -> Iterator[str]:
    """A run that prints a line every now and then until it is ended."""
    name = user.json("run", "-d", "sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done")["runs"][0]
    wait_until(lambda: user("logs", name).stdout)
    yield name
    user("cancel", "run", name)


class TestShow:
    def test_the_documented_shape(self, user: Cli, history: dict[str, str]) -> None:
        for name in (history["low"], history["failed"], history["cancelled"]):
            view = user.json("show", name)
            for field, kind in SHOWN.items():
                assert isinstance(view[field], kind), field

    def test_a_run_that_completed(self, user: Cli, history: dict[str, str]) -> None:
        view = user.json("show", history["low"])
        assert (view["state"], view["reason"], view["exit_code"], view["attempts"]) == ("completed", None, 0, 1)
        assert view["params"] == {"lr": 0.1} and view["metrics"] == {"loss": 0.1}
        assert view["created"] <= view["queued"] <= view["started"] <= view["ended"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", view["created"])

    def test_one_that_failed(self, user: Cli, history: dict[str, str]) -> None:
        view = user.json("show", history["failed"])
        assert (view["state"], view["reason"], view["exit_code"]) == ("failed", "exit_code", 7)
        assert view["command"] == ["sh", "-c", "echo oops; exit 7"] and view["tags"] == {"kind": "bad"}

    def test_the_command_as_it_was_submitted(self, user: Cli, project: Path) -> None:
        (project / "train.py").write_text("")
        (project / "train.sh").write_text("")
        for script in ("train.py", "train.sh"):
            name = user.json("run", "-d", script, "--lr", "0.1")["runs"][0]
            assert user.json("show", name)["command"] == [script, "--lr", "0.1"]

    def test_a_job(self, user: Cli, history: dict[str, str]) -> None:
        view = user.json("show", history["job"])
        assert (view["state"], view["runs"], view["counts"]) == ("completed", 3, {"completed": 3})

    def test_in_words(self, user: Cli, history: dict[str, str]) -> None:
        told = user("show", history["high"]).stdout
        assert re.search(r"^state +completed$", told, re.M) and "lr=0.3" in told and "loss=0.3" in told
        assert "history" not in told and "None" not in told


class TestWhy:
    def test_it_tells_the_cause_and_where_to_look(self, user: Cli, history: dict[str, str]) -> None:
        told = user("why", history["failed"]).stdout
        assert "exit code 7" in told and f"turnout logs {history['failed']}" in told
        assert "a person cancelled it" in user("why", history["cancelled"]).stdout
        assert "It completed" in user("why", history["low"]).stdout
        answer = user.json("why", history["failed"])
        assert (answer["run"], answer["state"]) == (history["failed"], "failed") and isinstance(answer["why"], list)

    def test_it_tells_what_a_run_waits_for(self, user: Cli, project: Path) -> None:
        cpus = str(os.cpu_count())
        first = user.json("run", "-d", "--cpus", cpus, "sleep", "100")
        second = user.json("run", "-d", "--cpus", cpus, "true")["runs"][0]
        wait_until(lambda: user.json("show", first["runs"][0])["state"] == "running")
        assert "executes on" in user("why", first["runs"][0]).stdout
        told = user("why", second).stdout
        assert "is queued" in told and "It is next on local: it waits for" in told and "free slot" in told
        user("cancel", "run", first["runs"][0], second)

    def test_it_says_when_no_node_could_ever_hold_it(self, user: Cli, history: dict[str, str]) -> None:
        jobs = [user.json("run", "-d", *need, "true") for need in (["--cpus", "100000"], ["--memory", "900T"])]
        cpus, memory = (user("why", job["runs"][0]).stdout for job in jobs)
        user("cancel", "all")
        assert f"needs 100000 cpus, and the largest node of target local runs {os.cpu_count()} at once" in cpus
        assert re.search(r"needs 900T of memory, and the largest node of target local has [\d.]+[GT]", memory)


class TestList:
    def test_newest_first_and_no_more_than_asked_for(self, user: Cli, history: dict[str, str]) -> None:
        views = user.json("list", "runs")
        assert all(set(SHOWN) <= set(view) for view in views)
        numbers = [int(view["name"][3:]) for view in views]
        assert numbers == sorted(numbers, reverse=True)
        assert len(user.json("list", "runs", "-n", "2")) == 2
        assert "-n shows more" in user("list", "runs", "-n", "2").stderr

    @pytest.mark.parametrize(
        ("filters", "expected"),
        [
            (["state=failed"], ["failed"]),
            (["experiment=grid"], ["low", "high", "middle"]),
            (["experiment=grid and metrics.loss<0.25"], ["low", "middle"]),
            (["experiment=grid", "params.lr>0.1"], ["high", "middle"]),
            (["tags.kind=bad"], ["failed"]),
            (["state in (failed, cancelled)"], ["failed", "cancelled"]),
            (["experiment=grid and not (params.lr=0.1 or params.lr=0.2)"], ["high"]),
            (["experiment=none"], []),
        ],
        ids=" and ".join,
    )
    def test_filters(self, user: Cli, history: dict[str, str], filters: list[str], expected: list[str]) -> None:
        options = [part for text in filters for part in ("--filter", text)]
        known = set(history.values())
        found = [view["name"] for view in user.json("list", "runs", *options)]
        assert sorted(set(found) & known) == sorted(history[name] for name in expected)

    def test_sorting(self, user: Cli, history: dict[str, str]) -> None:
        for order, expected in {
            "metrics.loss": ["low", "middle", "high"],
            "-params.lr": ["high", "middle", "low"],
        }.items():
            found = user.json("list", "runs", "--filter", "experiment=grid", "--sort", order)
            assert [view["name"] for view in found] == [history[name] for name in expected]

    def test_columns(self, user: Cli, history: dict[str, str]) -> None:
        told = user(
            "list",
            "runs",
            "--filter",
            "experiment=grid",
            "--sort",
            "params.lr",
            "--columns",
            "name=run,params.lr,metrics.loss:.3f",
        ).stdout
        lines = [line.split() for line in told.splitlines()]
        assert lines[0][0] == "run"
        assert lines[1:] == [
            [history["low"], "0.1", "0.100"],
            [history["middle"], "0.2", "0.200"],
            [history["high"], "0.3", "0.300"],
        ]

    def test_the_command_is_a_column(self, user: Cli, history: dict[str, str]) -> None:
        assert "exit 7" in user("list", "runs", "--columns", "name,command").stdout

    def test_jobs(self, user: Cli, history: dict[str, str]) -> None:
        (job,) = [view for view in user.json("list", "jobs") if view["name"] == history["job"]]
        assert (job["experiment"], job["runs"], job["state"]) == ("grid", 3, "completed")
        assert re.search(rf"^{history['job']}\tcompleted\t3\t3\t", user("list", "jobs").stdout, re.M)


class TestStatus:
    def test_what_is_going_on(self, user: Cli, going: str) -> None:
        assert going in user("status").stdout
        assert going in [view["name"] for view in user.json("status")]
        assert re.match(rf"{going}  running  on \S+", user("status", going).stdout)

    def test_one_that_is_over(self, user: Cli, history: dict[str, str]) -> None:
        assert user("status", history["failed"]).stdout.startswith(f"{history['failed']}  failed  on ")
        assert user("status", history["job"]).stdout == f"{history['job']}  completed  3 completed\n"
        assert user.json("status", history["job"])["counts"] == {"completed": 3}

    def test_nothing_was_ever_going_on(self, cli: Cli) -> None:
        assert "nothing is running" in cli("status").stdout and cli.json("status") == []
        assert cli.json("list", "runs") == [] == cli.json("list", "jobs")
        listed = cli("list", "runs")
        assert listed.stdout == "" and "turnout run COMMAND" in listed.stderr


class TestOutput:
    def test_the_exact_bytes(self, user: Cli, project: Path) -> None:
        """A megabyte of all there is, without a newline at its end."""
        content = bytes(range(256)) * 4096 + b"\r\n\0\xff\xfeend"
        (project / "bytes").write_bytes(content)
        name = json.loads(user("run", "--wait", "--json", "cat", "bytes").stdout)["name"]
        argv, env = user.argv("logs", name), user_environment(user.home)
        assert subprocess.run(argv, env=env, capture_output=True).stdout == content
        assert subprocess.run([*argv, "--follow"], env=env, capture_output=True).stdout == content
        (event,) = [event for event in user.json("events", name) if event["event"] == "capture_after"]
        assert event["data"]["output_sha256"] == hashlib.sha256(content).hexdigest()

    def test_following_from_the_beginning_to_the_end(self, user: Cli, project: Path) -> None:
        name = user.json("run", "-d", "sh", "-c", "for i in 1 2 3 4 5; do printf $i; sleep 0.1; done; exit 3")["runs"][
            0
        ]
        follower, attached = user.start("logs", "--follow", name), user.start("attach", name)
        out, _ = follower.communicate(timeout=30)
        assert (out, follower.returncode) == (b"12345", 0)
        out, said = attached.communicate(timeout=30)
        assert out == b"12345" and f"{name}: failed".encode() in said

    def test_it_comes_while_the_run_goes_on(self, user: Cli, going: str) -> None:
        follower = user.start("logs", "-f", going)
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"line 1\n"
        assert user.json("show", going)["state"] == "running"
        follower.terminate()
        follower.communicate(timeout=10)

    def test_several_may_listen(self, user: Cli, going: str) -> None:
        listeners = [user.start("attach", going) for _ in range(3)]
        for listener in listeners:
            assert listener.stdout is not None
            assert [listener.stdout.readline() for _ in range(2)] == [b"line 1\n", b"line 2\n"]
        user("cancel", "run", going)
        for listener in listeners:
            assert b"cancelled" in listener.communicate(timeout=30)[1]

    def test_attaching_late_begins_with_what_is_recent(self, user: Cli, project: Path) -> None:
        """And goes on with what comes."""
        (project / "go").unlink(missing_ok=True)
        count = "seq 1 5000; while [ ! -e $0/go ]; do sleep 0.05; done; echo end"
        name = user.json("run", "-d", "sh", "-c", count, str(project))["runs"][0]
        wait_until(lambda: "5000\n" in user("logs", name).stdout)
        attached, short = user.start("attach", name), user.start("attach", "--tail", "2", name)
        assert attached.stdout is not None and short.stdout is not None
        assert [attached.stdout.readline() for _ in range(100)] == [b"%d\n" % n for n in range(4901, 5001)]
        assert [short.stdout.readline() for _ in range(2)] == [b"4999\n", b"5000\n"]
        (project / "go").touch()
        out, said = attached.communicate(timeout=30)
        assert out == b"end\n" and f"`turnout logs {name}` has all of it".encode() in said
        assert short.communicate(timeout=30)[0] == b"end\n"
        assert user("logs", "--tail", "2", name).stdout == "5000\nend\n"
        assert user("logs", "--tail", "9999", name).stdout == user("logs", name).stdout

    def test_as_json(self, user: Cli, history: dict[str, str]) -> None:
        assert user.json("logs", history["failed"]) == {"run": history["failed"], "bytes": 5, "text": "oops\n"}


class TestEventsAndMetrics:
    def test_events_in_words(self, user: Cli, history: dict[str, str]) -> None:
        lines = user("events", history["low"]).stdout.splitlines()
        assert lines[0].split() == ["seq", "time", "event", "data"]
        assert [line.split()[2] for line in lines[1:4]] == ["created", "capture_before", "queued"]

    def test_a_cancel_is_an_event(self, user: Cli, history: dict[str, str]) -> None:
        assert "cancel_requested" in [event["event"] for event in user.json("events", history["cancelled"])]

    def test_metrics_in_words(self, user: Cli, history: dict[str, str]) -> None:
        lines = [line.split() for line in user("metrics", history["high"]).stdout.splitlines()]
        assert lines == [["step", "loss"], ["0", "0.9"], ["1", "0.6"], ["2", "0.3"]]

    def test_metrics_as_json(self, user: Cli, history: dict[str, str]) -> None:
        (series,) = user.json("metrics", history["low"], "loss").values()
        assert [set(point) for point in series] == [{"step", "time", "value"}] * 3
        assert user.json("metrics", history["low"], "none") == {}
        assert "logged no metrics" in user("metrics", history["failed"]).stdout


class TestCancel:
    def test_twice_is_no_error(self, user: Cli, going: str) -> None:
        (done,) = user.json("cancel", "run", going)
        assert (done["run"], done["outcome"]) == (going, "requested")
        wait_until(lambda: user.json("show", going)["ended"])
        view = user.json("show", going)
        assert (view["state"], view["reason"], view["exit_code"]) == ("cancelled", "user", None)
        assert user.json("cancel", "run", going)[0]["outcome"] == "over"
        assert "was over already" in user("cancel", "run", going).stdout

    def test_several_or_a_whole_job(self, user: Cli, project: Path) -> None:
        (project / "lines.txt").write_text("sleep 100\n" * 4)
        job = user.json("run", "-d", "--multi", "lines.txt")
        user("cancel", "run", *job["runs"][:2])
        done = {item["run"]: item["outcome"] for item in user.json("cancel", "job", job["job"])}
        assert set(done) >= set(job["runs"][2:])
        wait_until(lambda: user.json("show", job["job"])["counts"] == {"cancelled": 4})

    def test_a_parent_and_its_children(self, user: Cli, project: Path) -> None:
        (parent,) = user.json("run", "-d", "--runs", "5", "--concurrent", "1", "sleep", "100")["runs"]
        wait_until(lambda: user.json("show", parent)["children"])
        user("cancel", "run", parent)
        wait_until(lambda: user.json("show", parent)["state"] == "cancelled")
        assert all(user.json("show", child)["state"] == "cancelled" for child in user.json("show", parent)["children"])

    def test_everything(self, user: Cli, project: Path) -> None:
        for _ in range(3):
            user("run", "-d", "sleep", "100")
        assert len(user.json("cancel", "all")) == 3
        wait_until(lambda: user.json("status") == [])
        assert user.json("cancel", "all") == [] and user("cancel", "all").stdout == "nothing to cancel\n"

    def test_one_name_that_is_wrong_cancels_none(self, user: Cli, going: str) -> None:
        assert user("cancel", "run", going, "run9999", check=False).returncode == 3
        assert user.json("show", going)["state"] == "running"


class TestExtract:
    def test_into_a_new_or_an_empty_directory(self, user: Cli, project: Path, tmp_path: Path) -> None:
        (project / "sub").mkdir()
        (project / "sub" / "run.sh").write_text("echo hi > output/x\necho printed\n")
        os.chmod(project / "sub" / "run.sh", 0o755)
        name = json.loads(user("run", "--wait", "--json", "sub/run.sh").stdout)["name"]
        (tmp_path / "empty").mkdir()
        for where in (tmp_path / "new/deep", tmp_path / "empty"):
            told = user.json("extract", name, str(where))
            assert told == {"run": name, "directory": str(where), "before": 1, "after": 1}
            assert (where / "before/sub/run.sh").stat().st_mode & 0o100
            assert ((where / "after/output/x").read_text(), (where / "output.txt").read_text()) == ("hi\n", "printed\n")
            assert sorted(path.name for path in where.iterdir()) == ["after", "before", "output.txt"]

    def test_several_runs_each_in_a_directory_of_its_own(self, user: Cli, project: Path, tmp_path: Path) -> None:
        (project / "lines.txt").write_text("echo one\necho two\necho three\n")
        runs = user.json("run", "-d", "--multi", "lines.txt")["runs"]
        for name in runs:
            user("attach", name)
        words = [f"{runs[0]}-{runs[1]}", runs[2]]
        told = user.json("extract", *words, str(tmp_path / "got"))
        assert told == [
            {"run": name, "directory": str(tmp_path / "got" / name), "before": 1, "after": 0} for name in runs
        ]
        assert [(tmp_path / "got" / name / "output.txt").read_text() for name in runs] == ["one\n", "two\n", "three\n"]
        done = user("extract", *runs, "run9999", str(tmp_path / "none"), check=False)
        assert done.returncode == 3 and "run9999" in done.stderr and not (tmp_path / "none").exists()


class TestTheHub:
    def test_its_life(self, cli: Cli) -> None:
        assert cli.json("hub", "status") == {"running": False, "home": str(cli.home), "pid": None, "version": None}
        assert "no hub is running" in cli("hub", "status").stdout
        started = cli.json("hub", "start")
        assert cli.json("hub", "start")["pid"] == started["pid"]
        status = cli.json("hub", "status")
        assert (status["running"], status["pid"], status["version"]) == (True, started["pid"], turnout.__version__)
        assert f"pid {started['pid']}" in cli("hub", "status").stdout
        assert "is ready" in cli("hub", "logs").stdout and isinstance(cli.json("hub", "logs"), list)
        assert cli.json("hub", "stop") == {"stopped": True, "pid": started["pid"]}
        wait_until(lambda: started["pid"] not in processes_of(cli.home))
        assert not (cli.home / "hub.json").exists()
        assert "no hub was running" in cli("hub", "stop").stdout

    def test_a_run_does_not_notice_that_it_stops(self, cli: Cli) -> None:
        name = cli.json("run", "-d", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done")["runs"][0]
        wait_until(lambda: cli("logs", name).stdout)
        cli("hub", "stop")
        cli("attach", name)
        assert cli("logs", name).stdout == "1\n2\n3\n4\n5\n6\n7\n8\n"
        assert cli.json("show", name)["attempts"] == 1

    def test_it_stops_by_itself_when_there_is_nothing_to_do(self, cli: Cli) -> None:
        started = json.loads(cli("hub", "start", "--json", env={"TURNOUT_IDLE": "0.5"}).stdout)["pid"]
        wait_until(lambda: started not in processes_of(cli.home), 15)

    def test_doctor(self, cli: Cli) -> None:
        found = cli.json("doctor")
        assert all(set(each) == {"level", "what", "hint", "target"} for each in found)
        assert {each["level"] for each in found} <= {"ok", "warning"}
        assert str(cli.home) in cli("doctor").stdout
        os.chmod(cli.home / "token", 0o644)
        done = cli("doctor", check=False)
        assert done.returncode == 1 and f"chmod 600 {cli.home}/token" in done.stdout


class TestFromPython:
    """`turnout.Client()` does all of it."""

    @pytest.fixture
    def client(self, user: Cli, monkeypatch: pytest.MonkeyPatch) -> turnout.Client:
        for name, value in user_environment(user.home).items():
            monkeypatch.setenv(name, value)
        return turnout.Client()

    def test_from_submitting_to_the_files(self, client: turnout.Client, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(
            "import turnout\nturnout.log(loss=0.5)\nprint('hi')\nopen('output/m', 'w').write('x')\n"
        )
        told = client.submit_command(
            ["train.py", "--lr", "0.1"], cwd=tmp_path, name="from-python", experiment="py", tags={"a": "b"},
            env={"X": "1"}, resources=Resources(cpus=1, seconds=60), retry=Retry(failures=1), priority=1,
        )  # fmt: skip
        (name,) = told["runs"]
        view = client.wait(name, timeout=30)
        assert (view["state"], view["experiment"], view["tags"], view["metrics"]) == (
            "completed",
            "py",
            {"a": "b"},
            {"loss": 0.5},
        )
        assert client.run("from-python")["name"] == name and client.job(told["job"])["runs"] == 1
        assert b"".join(client.output(name)) == b"hi\n" == b"".join(client.output(name, follow=True))
        assert client.events(name)[0]["event"] == "created" and client.metrics(name)["loss"][0]["value"] == 0.5
        assert client.why(name)["why"] == ["It completed."]
        assert [view["name"] for view in client.runs(["experiment=py"], sort="-name", limit=1)] == [name]
        assert client.jobs(limit=1)[0]["name"] == told["job"]
        assert client.extract(name, tmp_path / "got")["after"] == 1
        assert client.wait(told["job"])["state"] == "completed"

    def test_steering(self, client: turnout.Client, tmp_path: Path) -> None:
        told = client.submit_command(["sleep", "100"], cwd=tmp_path, runs=2)
        with pytest.raises(TimeoutError, match=told["job"]):
            client.wait(told["job"], timeout=0.2)
        assert {item["outcome"] for item in client.cancel(job=told["job"])} <= {"requested", "cancelled"}
        assert client.wait(told["job"], timeout=30)["state"] == "cancelled"
        assert client.cancel(told["runs"])[0]["outcome"] == "over"
        assert client.hub()["pid"] and "local" in client.targets()

    def test_mistakes(self, client: turnout.Client, tmp_path: Path) -> None:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "x").write_text("x")
        told = client.submit_command(["true"], cwd=tmp_path)
        with pytest.raises(NotFound, match="no run 'run9999'"):
            client.run("run9999")
        with pytest.raises(InvalidInput):
            client.runs(["nonsense ="])
        with pytest.raises(Conflict, match="not empty"):
            client.extract(told["runs"][0], tmp_path / "full")
        with pytest.raises(NotFound, match="no target"):
            client.submit_command(["true"], cwd=tmp_path, target="moon")

    def test_the_hub(self, cli: Cli) -> None:
        with pytest.raises(HubUnreachable):
            turnout.Client(cli.home, start=False).hub()
        assert not cli.home.exists()


class Terminal:
    """A terminal of 120 columns in which a command runs."""

    def __init__(self, cli: Cli, *args: str, env: dict[str, str] | None = None) -> None:
        self.seen = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cli.cwd)
            environment = {**user_environment(cli.home), "TERM": "xterm", **(env or {})}
            if "NO_COLOR" not in (env or {}):
                environment.pop("NO_COLOR")
            os.execve(cli.argv()[0], cli.argv(*args), environment)

    def expect(self, text: str, timeout: float = 20.0) -> None:
        """Reads until `text` was shown."""
        deadline = time.monotonic() + timeout
        while text.encode() not in self.seen:
            if not select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{text!r} was not shown: {self.seen!r}")
            self._read()

    def press(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def end(self) -> int:
        """All there is to come; the exit code."""
        while self._read():
            pass
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        try:
            piece = os.read(self._fd, 65536)
        except OSError:
            return False
        self.seen += piece
        return bool(piece)


CTRL_C = b"\x03"


class TestInATerminal:
    LINES = ("sh", "-c", "while :; do echo still here; sleep 0.1; done")

    def _name(self, terminal: Terminal) -> str:
        terminal.expect("still here")
        found = re.search(rb"run\d+", terminal.seen)
        assert found is not None
        return found[0].decode()

    def test_the_first_interrupt_detaches_and_the_run_goes_on(self, user: Cli, project: Path) -> None:
        terminal = Terminal(user, "run", *self.LINES)
        name = self._name(terminal)
        terminal.press(CTRL_C)
        terminal.expect(f"left {name}; it goes on")
        terminal.expect(f"turnout attach {name}")
        assert terminal.end() == 130
        assert user.json("show", name)["state"] == "running"
        user("cancel", "run", name)

    @pytest.mark.parametrize(("answer", "state"), [(b"y\n", "cancelled"), (b"n\n", "running"), (b"\n", "running")])
    def test_the_second_offers_to_cancel(self, user: Cli, project: Path, answer: bytes, state: str) -> None:
        terminal = Terminal(user, "run", *self.LINES)
        name = self._name(terminal)
        terminal.press(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.press(CTRL_C)
        terminal.expect("[y/N]")
        terminal.press(answer)
        assert terminal.end() == 130
        if state == "cancelled":
            wait_until(lambda: user.json("show", name)["state"] == state)
        assert user.json("show", name)["state"] == state
        user("cancel", "run", name)

    def test_leaving_what_one_looks_at(self, user: Cli, going: str) -> None:
        for command in (("attach", going), ("logs", "-f", going)):
            terminal = Terminal(user, *command)
            terminal.expect("line 1")
            terminal.press(CTRL_C)
            assert terminal.end() in (0, 130)
            assert b"Traceback" not in terminal.seen and b"Aborted" not in terminal.seen
        assert user.json("show", going)["state"] == "running"

    def test_an_interrupt_without_a_terminal_detaches_too(self, user: Cli, project: Path) -> None:
        child = user.start("run", *self.LINES)
        assert child.stdout is not None and child.stdout.readline() == b"still here\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=20)
        name = re.findall(rb"left (run\d+); it goes on", said)[0].decode()
        assert child.returncode == 130 and b"Traceback" not in said
        assert user.json("show", name)["state"] == "running"
        user("cancel", "run", name)

    def test_many_show_their_progress(self, user: Cli, project: Path) -> None:
        terminal = Terminal(user, "run", "--runs", "4", "--concurrent", "1", "sleep", "0.3")
        terminal.expect("1/4")
        assert terminal.end() == 0 and b"4 completed" in terminal.seen

    def test_colours_only_where_they_are_seen_and_wanted(self, user: Cli, history: dict[str, str]) -> None:
        shown = Terminal(user, "list", "runs")
        assert shown.end() == 0 and b"\x1b[31mfailed\x1b[0m" in shown.seen
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            plain = Terminal(user, "list", "runs", env=env)
            assert plain.end() == 0 and b"failed" in plain.seen and b"\x1b[" not in plain.seen

    @pytest.mark.parametrize(
        "command",
        [
            ("list", "runs"),
            ("list", "jobs"),
            ("status",),
            ("doctor",),
            ("hub", "status"),
            ("show", "run1"),
            ("nonsense",),
            ("show", "run99"),
        ],
    )
    def test_no_escapes_where_nobody_looks(self, user: Cli, history: dict[str, str], command: tuple[str, ...]) -> None:
        environment = {name: value for name, value in user_environment(user.home).items() if name != "NO_COLOR"}
        done = subprocess.run(user.argv(*command), env={**environment, "TERM": "xterm"}, capture_output=True, text=True)
        assert done.stdout + done.stderr and ESCAPE not in done.stdout + done.stderr

    @pytest.mark.parametrize("command", ["list runs", "list runs --json", "events run1", "logs run1", "--help"])
    def test_a_reader_that_has_seen_enough(self, user: Cli, history: dict[str, str], command: str) -> None:
        piped = ["sh", "-c", f'"$@" {command} | head -c 1 > /dev/null; exec 2>&1; echo read', "sh", *user.argv()]
        done = subprocess.run(piped, env=user_environment(user.home), capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("read\n", "")

    def test_a_reader_that_leaves_while_it_follows(self, user: Cli, going: str) -> None:
        piped = ["sh", "-c", '"$@" | head -n 2', "sh", *user.argv("logs", "-f", going)]
        done = subprocess.run(piped, env=user_environment(user.home), capture_output=True, text=True, timeout=20)
        assert (done.stdout, done.stderr) == ("line 1\nline 2\n", "")

    def test_help_says_what_there_is(self, user: Cli) -> None:
        told, options = user("--help").stdout, user("run", "--help").stdout
        assert set(COMMANDS) <= set(re.findall(r"^  ([a-z]+) ", told, re.M))
        assert set(OPTIONS) <= set(re.findall(r"--([a-z-]+)", options))
        assert user("--version").stdout == f"turnout {turnout.__version__}\n"
