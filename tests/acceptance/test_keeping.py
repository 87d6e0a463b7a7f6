"""Deleting, giving room back, running again, restarting, and taking everything away."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout
from tests.harness import Cli, at_terminal, end_processes_of, processes_of, wait_until
from turnout.errors import Conflict

pytestmark = pytest.mark.xdist_group("keeping")

LEARNING = """
import os, sys, time, turnout
os.makedirs("output", exist_ok=True)
with open("output/seen.txt", "a") as file:
    file.write(f"{os.environ['TURNOUT_ATTEMPT']} {turnout.is_restart()}\\n")
print(open("given.txt").read().strip(), *sys.argv[1:], flush=True)
if "wait" in sys.argv and not turnout.is_restart():
    time.sleep(100)
"""


@pytest.fixture
def learn(user: Cli, project: Path) -> Path:
    (project / "learn.py").write_text(LEARNING)
    (project / "given.txt").write_text("first")
    return project


def over(user: Cli, *names: str) -> None:
    for name in names:
        wait_until(lambda: user.json("show", name)["ended"])  # noqa: B023


class TestDelete:
    def test_a_run_goes_with_all_that_was_kept_of_it(self, user: Cli, learn: Path) -> None:
        name = json.loads(user("run", "--wait", "--json", "learn.py").stdout)["name"]
        done = user.json("delete", "run", name, "--yes")
        assert done["deleted"] and done["runs"] == 1 and len(done["jobs"]) == 1
        for command in ("show", "events", "logs", "metrics", "why"):
            assert user(command, name, check=False).returncode == 3, command
        after = json.loads(user("run", "--wait", "--json", "true").stdout)["name"]
        assert int(after.removeprefix("run")) > int(name.removeprefix("run")), "names are not given out again"

    def test_what_goes_is_named_without_what_lies_between(self, user: Cli, project: Path) -> None:
        jobs = [user.json("run", "-d", "true")["job"] for _ in range(5)]
        for job in jobs:
            user("attach", job)
        first, _, third, *_ = jobs
        assert f"deleted 2 runs and 2 jobs ({first}, {third})" in user("delete", "job", first, third, "--yes").stdout
        user("delete", "job", jobs[1], "--yes")
        assert f"({jobs[3]}, {jobs[4]})" in user("delete", "job", f"{jobs[3]}-{jobs[4]}", "--yes").stdout

    def test_a_parent_goes_with_its_children_and_no_child_alone(self, user: Cli, project: Path) -> None:
        parent = user.json("run", "-d", "--repeat", "2", "true")["runs"][0]
        over(user, parent)
        refused = user("delete", "run", f"{parent}.1", "--yes", check=False)
        assert refused.returncode == 4 and f"turnout delete run {parent}`" in refused.stderr
        assert user.json("delete", "run", parent, "--yes")["runs"] == 2, "a parent is counted as its children"

    def test_what_is_not_over_is_refused(self, user: Cli, project: Path) -> None:
        going = user.json("run", "-d", "--workspace", "busy", "sleep", "100")
        ended = json.loads(user("run", "--wait", "--json", "--workspace", "busy", "true").stdout)["name"]
        refused = user("delete", "workspace", "busy", "--yes", check=False)
        assert refused.returncode == 4 and going["runs"][0] in refused.stderr
        assert user.json("show", ended)["state"] == "completed", "nothing was deleted"
        user("cancel", "job", going["job"])
        over(user, *going["runs"])
        assert user.json("delete", "workspace", "busy", "--yes")["runs"] == 2
        assert user("delete", "workspace", "busy", "--yes", check=False).returncode == 3

    def test_an_experiment_in_several_workspaces(self, user: Cli, project: Path) -> None:
        for workspace in ("one", "two"):
            user("run", "--wait", "--workspace", workspace, "--experiment", "same", "true")
        refused = user("delete", "experiment", "same", "--yes", check=False)
        assert refused.returncode == 4 and "--workspace one" in refused.stderr
        assert user.json("delete", "experiment", "same", "--workspace", "two", "--yes")["runs"] == 1

    def test_it_asks_on_a_terminal_and_only_there(self, user: Cli, project: Path) -> None:
        name = json.loads(user("run", "--wait", "--json", "true").stdout)["name"]
        refused = user("delete", "run", name, check=False)
        assert refused.returncode == 2 and "--yes" in refused.stderr
        assert "delete 1 run and job" in at_terminal(user, "n\n", "delete", "run", name)
        assert user.json("show", name)["name"] == name
        at_terminal(user, "y\n", "delete", "run", name)
        assert user("show", name, check=False).returncode == 3


class TestGc:
    def test_files_of_deleted_runs_go_unless_they_were_wanted_lately(self, user: Cli, project: Path) -> None:
        (project / "large.bin").write_bytes(os.urandom(300_000))
        name = json.loads(user("run", "--wait", "--json", "true").stdout)["name"]
        user("delete", "run", name, "--yes")
        assert user.json("gc")["later"]["blobs"] >= 2, "sent within the last hour"
        user("hub", "stop")  # what it knows of the last hour goes with it
        would = user.json("gc", "--dry-run")
        assert would["dry_run"] and would["blobs"]["bytes"] >= 300_000
        done = user.json("gc")
        assert {**done, "dry_run": True} == {**would, "database": done["database"]}
        assert user.json("gc")["blobs"]["blobs"] == 0
        assert "removed 0 blobs" in user("gc").stdout

    def test_a_dry_run_says_what_the_real_one_does(self, user: Cli, project: Path) -> None:
        """Also of the database, whose log is a file that goes."""
        (project / "lines.txt").write_text("".join(f"echo {number}\n" for number in range(300)))
        user("run", "--wait", "--multi", "lines.txt")
        would, done = user.json("gc", "--dry-run")["database"], user.json("gc")["database"]
        assert would["freed"] > 1_000_000, "there was something to give back"
        assert done["freed"] == pytest.approx(would["freed"], rel=0.05) and done["bytes"] < would["bytes"]

    def test_directories_of_agents_that_are_gone(self, user: Cli, project: Path) -> None:
        old = user.home / "nodes" / "999999"
        old.mkdir(parents=True)
        (old / "agent.log").write_text("long ago")
        assert user.json("gc")["nodes"]["directories"] == 0, "a week is not over"
        for path in (old / "agent.log", old):
            os.utime(path, (1, 1))
        assert user.json("gc")["nodes"]["directories"] == 1 and not old.exists()


class TestRerun:
    def test_from_the_files_of_then(self, user: Cli, learn: Path) -> None:
        first = json.loads(user("run", "--wait", "--json", "--tag", "a=b", "learn.py", "one").stdout)["name"]
        (learn / "given.txt").write_text("second")
        again = json.loads(user("rerun", "--wait", "--json", first).stdout)
        assert user("logs", again["name"]).stdout == "first one\n"
        assert again["tags"] == {"a": "b", "rerun-of": first} and again["command"] == ["learn.py", "one"]
        changed = json.loads(user("rerun", "--wait", "--json", first, "two", "--three").stdout)
        assert user("logs", changed["name"]).stdout == "first two --three\n"
        assert turnout.Client(user.home).rerun(first)["runs"]

    def test_edit(self, user: Cli, learn: Path) -> None:
        first = json.loads(user("run", "--wait", "--json", "learn.py", "one").stdout)["name"]
        edited = user("rerun", "--edit", "--wait", "--json", first, env={"EDITOR": "sed -i s/one/four/", "VISUAL": ""})
        assert user("logs", json.loads(edited.stdout)["name"]).stdout == "first four\n"
        refused = user("rerun", "--edit", first, check=False, env={"EDITOR": "false", "VISUAL": ""})
        assert refused.returncode == 2 and "nothing was submitted" in refused.stderr

    def test_options_stand_on_both_sides_of_the_name(self, user: Cli, learn: Path) -> None:
        first = json.loads(user("run", "--wait", "--json", "learn.py", "one").stdout)["name"]
        count = len(user.json("list", "runs"))
        plan = json.loads(user("rerun", first, "--dry-run", "--json", "--env", "A=1").stdout)
        assert plan["dry_run"] and plan["commands"] == [["one"]] and plan["env"] == ["A"]
        edit = {"EDITOR": "sed -i s/one/five/", "VISUAL": ""}
        plan = json.loads(user("rerun", first, "--edit", "--json", "--dry-run", env=edit).stdout)
        assert plan["commands"] == [["five"]]
        assert "Usage: turnout rerun" in user("rerun", first, "--help").stdout
        assert user("rerun", first, "--target", check=False).returncode == 2
        assert "no target 'far'" in user("rerun", first, "--target=far", "-d", check=False).stderr
        assert json.loads(user("rerun", "run99999", "--json", check=False).stdout)["error"] == "not_found"
        assert len(user.json("list", "runs")) == count, "none of these submitted anything"

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            (["two", "--edit"], ["two", "--edit"]),
            (["--lr", "0.1", "--dry-run"], ["--lr", "0.1", "--dry-run"]),
            (["--", "--edit"], ["--edit"]),
            (["--", "--", "-d"], ["--", "-d"]),
        ],
    )
    def test_from_the_first_word_on_that_is_no_option_all_is_the_runs(
        self, user: Cli, learn: Path, typed: list[str], meant: list[str]
    ) -> None:
        first = json.loads(user("run", "--wait", "--json", "learn.py", "one").stdout)["name"]
        plan = json.loads(user("rerun", "--dry-run", first, "--json", *typed).stdout)
        assert plan["commands"] == [meant]

    def test_nobody_is_here_to_edit(self, user: Cli, learn: Path) -> None:
        first = json.loads(user("run", "--wait", "--json", "learn.py", "one").stdout)["name"]
        refused = user("rerun", first, "--edit", check=False, env={"EDITOR": "", "VISUAL": ""})
        assert refused.returncode == 2 and refused.stdout == ""
        assert "nobody is here to edit" in refused.stderr and "set EDITOR" in refused.stderr

    def test_variables_of_the_settings_need_not_be_given_again(self, user: Cli, learn: Path) -> None:
        (learn / "turnout.yaml").write_text("general: {env-vars: {COLOUR: blue}}\n")
        first = json.loads(user("run", "--wait", "--json", "sh", "-c", "echo $COLOUR").stdout)["name"]
        assert user("rerun", first).stdout == "blue\n"

    def test_dry_run_and_bad_input(self, user: Cli, learn: Path) -> None:
        first = json.loads(user("run", "--wait", "--json", "--env", "TOKEN=abc", "learn.py", "one").stdout)["name"]
        refused = user("rerun", "--dry-run", first, check=False)
        assert refused.returncode == 2 and "--env TOKEN=VALUE" in refused.stderr
        plan = user.json("rerun", "--dry-run", "--env", "TOKEN=new", first)
        assert plan["dry_run"] and plan["commands"] == [["one"]] and plan["file_count"] == 2
        assert user("rerun", "run99999", check=False).returncode == 3


class TestRestart:
    def test_the_next_attempt_finds_what_the_first_left(self, user: Cli, learn: Path) -> None:
        name = user.json("run", "-d", "learn.py", "wait")["runs"][0]
        wait_until(lambda: user("logs", name).stdout)
        (done,) = user.json("restart", name)
        assert done["run"] == name and done["attempt"] == 1
        over(user, name)
        view = user.json("show", name)
        assert view["state"] == "completed" and view["attempts"] == 2
        events = [event["event"] for event in user.json("events", name)]
        assert events[events.index("restart_requested") :][:6] == [
            "restart_requested", "ended", "capture_after", "requeued", "started", "restarted",
        ]  # fmt: skip
        back = next(event for event in user.json("events", name) if event["event"] == "requeued")
        assert back["data"]["reason"] == "preempted"
        user("extract", name, str(learn / "got"))
        assert (learn / "got/after/output/seen.txt").read_text() == "1 False\n2 True\n"

    def test_a_node(self, user: Cli, learn: Path) -> None:
        name = user.json("run", "-d", "learn.py", "wait")["runs"][0]
        wait_until(lambda: user("logs", name).stdout)
        node = user.json("show", name)["node"]
        assert name in user("why", node).stdout
        assert name in [item["run"] for item in user.json("restart", node)]
        over(user, name)
        assert user.json("show", name)["attempts"] == 2

    def test_what_is_on_no_node(self, user: Cli, learn: Path) -> None:
        name = json.loads(user("run", "--wait", "--json", "true").stdout)["name"]
        refused = user("restart", name, check=False)
        assert refused.returncode == 4 and f"turnout rerun {name}" in refused.stderr
        assert user("restart", "nowhere", check=False).returncode == 3


class TestWhy:
    def test_a_job(self, user: Cli, project: Path) -> None:
        (project / "jobs.txt").write_text("sh -c 'exit 3'\nsh -c 'exit 3'\ntrue\n")
        job = user.json("run", "-d", "--multi", "jobs.txt")["job"]
        wait_until(lambda: user.json("status", job)["state"] in ("failed", "completed"))
        told = user("why", job).stdout
        assert f"{job} is failed." in told and "2 failed" in told and "failed with exit code 3" in told
        assert f"turnout list runs --filter 'job={job} and state=failed'" in told
        assert user.json("why", job)["job"] == job
        assert user("why", "job99999", check=False).returncode == 3
        assert user("why", "nowhere", check=False).returncode == 3


class TestUninstall:
    @pytest.fixture
    def there(self, user: Cli) -> Iterator[Cli]:
        home = user.home.parent / "gone"
        yield Cli(home=home, cwd=user.cwd)
        end_processes_of(home)
        shutil.rmtree(home, ignore_errors=True)

    def test_everything_ends_and_goes(self, there: Cli, project: Path) -> None:
        there.home.mkdir(mode=0o700)
        (there.home / "config.yaml").write_text("hub: {agents-listen: '127.0.0.1:0'}\n")  # it makes a certificate
        name = there.json("run", "-d", "sleep", "100")["runs"][0]
        wait_until(lambda: there.json("show", name)["state"] == "running")
        assert there("uninstall", check=False).returncode == 2, "nobody to ask"
        (there.home / "notes.txt").write_text("mine")
        done = there.json("uninstall", "--yes")
        assert done["runs_ended"] == 1 and done["left"] == [str(there.home / "notes.txt")]
        assert os.listdir(there.home) == ["notes.txt"]
        wait_until(lambda: not processes_of(there.home), 5.0)
        (there.home / "notes.txt").unlink()
        assert "nothing to remove" in there("uninstall", "--yes").stdout

    @pytest.mark.parametrize("part", ["prolog", "epilog"])
    def test_what_hangs_is_broken_off(self, there: Cli, project: Path, part: str) -> None:
        there.home.mkdir(mode=0o700)
        (there.home / "config.yaml").write_text(f"compute-targets: {{lab: {{{part}: ['sleep 1000']}}}}\n")
        there("run", "-d", "--target", "lab", "true")
        wait_until(lambda: part == "prolog" or there.json("show", "run1")["state"] == "completed", 30)
        wait_until(lambda: there.json("hub", "status")["agents"], 30)
        there("uninstall", "--yes", "--grace", "0.5")
        assert not there.home.exists()
        wait_until(lambda: not processes_of(there.home), 5.0)

    def test_an_agent_that_stays_is_named(self, there: Cli, project: Path) -> None:
        there("run", "--wait", "true")
        (agent,) = there.json("hub", "status")["agents"]
        os.kill(agent["pid"], signal.SIGSTOP)
        try:
            refused = there("uninstall", "--yes", "--grace", "0", check=False)
        finally:
            os.kill(agent["pid"], signal.SIGCONT)
        assert refused.returncode == 4 and there.home.exists()
        assert f"(process {agent['pid']}) could not be ended; nothing was removed" in refused.stderr
        assert f"kill -9 {agent['pid']}" in refused.stderr

    def test_settings_that_are_wrong_keep_nothing(self, there: Cli, project: Path) -> None:
        there("run", "-d", "sleep", "1000")
        there("hub", "stop")
        (there.home / "config.yaml").write_text("genral: {}\n")
        assert there("hub", "start", check=False).returncode == 2
        assert there("uninstall", check=False).returncode == 2, "nobody to ask"
        wait_until(lambda: "no hub is running" in there("hub", "status").stdout, 20, "it stays without its settings")
        assert there.json("uninstall", "--yes")["runs_ended"] == 1
        assert not there.home.exists()
        wait_until(lambda: not processes_of(there.home), 5.0)


def test_from_python(user: Cli, project: Path) -> None:
    client = turnout.Client(user.home)
    going = client.submit_command(["sleep", "100"], cwd=project)
    with pytest.raises(Conflict):
        client.delete(jobs=[going["job"]])
    client.cancel(job=going["job"])


class TestAttach:
    def test_a_job_with_several_listeners(self, user: Cli, project: Path) -> None:
        (project / "jobs.txt").write_text("sh -c 'echo one; sleep 1; echo two'\nsh -c 'echo three; printf four'\n")
        told = user.json("run", "-d", "--multi", "jobs.txt")
        first, second = told["runs"]
        listeners = [user.start("attach", told["job"]) for _ in range(3)]
        for listener in listeners:
            shown, said = listener.communicate(timeout=60)
            lines = shown.decode().splitlines()
            assert [line for line in lines if line.startswith(first)] == [f"{first} | one", f"{first} | two"]
            assert [line for line in lines if line.startswith(second)] == [f"{second} | three", f"{second} | four"]
            assert f"{told['job']}: 2 completed" in said.decode()

    def test_a_job_of_one_run_has_no_prefix(self, user: Cli, project: Path) -> None:
        assert user("attach", user.json("run", "-d", "echo", "plain")["job"]).stdout == "plain\n"


class TestNotify:
    def test_a_command_gets_the_job_when_it_is_over(self, user: Cli, project: Path) -> None:
        """Also when whoever submitted it left long ago."""
        file = user.home.parent / "notice.json"
        job = user.json("run", "-d", "--notify", 'cat > "$NOTICE"', "true", env={"NOTICE": str(file)})["job"]
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        view = json.loads(file.read_text())
        assert view["name"] == job and view["state"] == "completed"
        file.unlink()

    def test_one_that_fails_is_logged_and_harms_nothing(self, user: Cli, project: Path) -> None:
        job = user.json("run", "-d", "--notify", "echo no phone; exit 3", "true")["job"]
        wait_until(lambda: f"the notice of {job} ended with 3: no phone" in user("hub", "logs", "-n", "200").stdout)
        assert user.json("show", job)["state"] == "completed"

    def test_the_bell_is_for_a_terminal(self, user: Cli, project: Path) -> None:
        assert "\a" in at_terminal(user, "", "run", "--notify", "bell", "true")
        quiet = user("run", "--wait", "--notify", "bell", "true")
        assert "\a" not in quiet.stdout + quiet.stderr

    def test_a_word_that_is_nearly_bell_is_asked_about(self, user: Cli, project: Path) -> None:
        for word in ("bel", "Bell", "bells"):
            refused = user("run", "--notify", word, "true", check=False)
            assert refused.returncode == 2 and "did you mean bell?" in refused.stderr
