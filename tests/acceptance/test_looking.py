"""Looking closely: events, why and status of many runs, everything about one."""

from __future__ import annotations

import re

import pytest

from tests.harness import Cli, at_terminal

pytestmark = pytest.mark.xdist_group("looking")


def test_numbers_are_true_of_however_many_runs(user: Cli) -> None:
    (user.cwd / "many.txt").write_text("true\n" * 12000)
    told = user.json("run", "--held", "--multi", "many.txt", timeout=120)
    job, first = told["job"], told["runs"][0]
    shown = user("status").stdout.splitlines()
    assert len(shown) == 52 and shown[-1].startswith("… and 11950 more")
    assert len(user.json("status")) == 12000
    why = user("why", job).stdout
    assert f"{first}, " in why and "and 11997 more are held; " in why
    user("cancel", "job", job, timeout=120)
    why = user("why", job).stdout
    assert "Of its 12000 runs: 12000 cancelled." in why and "and 11997 more cancelled: user" in why
    assert "Of the last" not in why


def test_one_held_run_is_spoken_of_as_one(user: Cli) -> None:
    told = user.json("run", "--held", "--repeat", "3", "true")
    assert f"{told['runs'][0]} is held; `turnout release {told['job']}` lets it go." in user("why", told["job"]).stdout
    assert "Of the last" not in user("why", told["job"]).stdout
    user("cancel", "job", told["job"])


def test_causes_are_counted_apart_and_parents_only_if_they_have_no_children(user: Cli) -> None:
    (user.cwd / "exits.txt").write_text("sh -c 'exit 3'\nsh -c 'exit 4'\nsh -c 'exit 3'\ntrue\n")
    user("run", "--wait", "--multi", "exits.txt", check=False)
    why = user("why", "@lastjob").stdout
    assert re.search(r"run\d+, run\d+ failed with exit code 3; ", why) and "failed with exit code 4" in why
    user("run", "--wait", "--repeat", "2", "sh", "-c", "exit 5", check=False)
    why = user("why", "@lastjob").stdout
    assert re.search(r"run(\d+)\.1, run\1\.2 failed with exit code 5; ", why)


class TestEvents:
    def test_what_happened_is_told_in_full_on_a_terminal_of_80_columns(self, user: Cli) -> None:
        user("run", "--wait", "--setup", "none", "sh", "-c", "exit 3", check=False)
        user("run", "--wait", "no-such-command-" + "x" * 60, check=False)
        name = user.json("list", "runs", "--last", "1")[0]["name"]
        lines = at_terminal(user, "", "events", name, columns=80).replace("\r", "").splitlines()
        assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
        told = "".join(line[lines[0].index("data") :] for line in lines).replace(" ", "")
        for event in user.json("events", name):
            for key, value in event["data"].items():
                if value not in (None, "", [], {}):
                    assert f"{key}={value}".replace(" ", "") in told

    def test_a_job_has_events_of_its_own(self, user: Cli) -> None:
        told = user.json("run", "-d", "--runs", "3", "--tag", "a=1", "true")
        user("attach", told["job"])
        user("set", "tags", told["job"], "b=2")
        events = user.json("events", told["job"])
        assert [event["event"] for event in events] == ["created", "capture_before", "tags"]
        shown = user("events", "@lastjob").stdout
        assert "capture_before" in shown and "its runs: 3 completed" in shown
        assert user("events", "job99999", check=False).returncode == 3


class TestShow:
    def test_what_there_is_not_takes_no_line(self, user: Cli) -> None:
        told = user.json("run", "-d", "true")
        user("attach", told["job"])
        assert "resources" not in user("show", told["job"]).stdout
        assert "remaining" not in user("show", told["runs"][0]).stdout
        told = user.json("run", "-d", "--cpus", "1", "true")
        assert re.search(r"^resources +cpus=1$", user("show", told["job"]).stdout, re.MULTILINE)

    def test_a_size_is_told_as_people_say_it(self, user: Cli) -> None:
        user("run", "--wait", "true")
        (node,) = user.json("list", "nodes")
        assert re.search(r" \d+(\.\d)? GB ", user("list", "nodes", "--table", "--columns", "name,memory,cpus").stdout)
        assert user("list", "nodes", "--names", "--filter", f"memory >= {node['memory']} and memory > 1M").stdout
        assert "not one" in user("list", "nodes", "--filter", "memory > much", check=False).stderr


class TestAttach:
    def test_it_speaks_of_the_run_that_was_meant(self, user: Cli) -> None:
        told = user.json("run", "-d", "sh", "-c", "seq 2000")
        job, (name,) = told["job"], told["runs"]
        for meant in ("@lastjob", "@lastrun", job):
            said = user("attach", "--tail", "3", meant).stderr
            assert (
                f"{name if meant == '@lastrun' else job}: completed" in said
                and f"`turnout logs {name}` has all" in said
                and "@last" not in said
            )

    @pytest.mark.parametrize("json", [(), ("--json",)])
    def test_it_exits_as_who_submitted_it_would_have(self, user: Cli, json: tuple[str, ...]) -> None:
        """With the run's own code, or that of the first that failed; with 1 for a search or a pipeline."""
        (user.cwd / "p.yaml").write_text("pipeline: {steps: {a: {command: exit 5}}}\n")
        (user.cwd / "bad.sh").write_text("exit 5\n")
        failing = ("sh", "-c", "exit 5")
        for code, command in (
            (0, ("run", "true")), (5, ("run", *failing)), (5, ("run", "--runs", "3", *failing)),
            (1, ("run", "--search-type", "grid", "bad.sh", "--x=[1,2]")), (1, ("pipeline", "p.yaml")),
        ):  # fmt: skip
            user(command[0], "-d", *command[1:])
            done = user("attach", *json, "@lastjob", check=False)
            assert done.returncode == code, (command, done)
        assert user("attach", *json, "@lastrun", check=False).returncode == 5, "a run of the pipeline"
        name = user.json("run", "-d", "sleep", "100")["runs"][0]
        user("cancel", "run", name)
        assert user("attach", *json, name, check=False).returncode == 128 + 15

    def test_it_ends_with_the_first_failures(self, user: Cli) -> None:
        told = user.json("run", "-d", "--runs", "7", "sh", "-c", "exit 5")
        said = user("attach", told["job"], check=False).stderr.splitlines()
        failed = [view["name"] for view in user.json("list", "runs", told["job"], "--sort", "created")][-7:]
        assert said[-8:] == [
            f"turnout: {told['job']} failed", *(f"  {name}: exit code 5" for name in failed[:5]), "  and 2 more",
            f"  `turnout why {told['job']}` tells more",
        ]  # fmt: skip

    def test_who_presses_ctrl_c_twice_is_told_what_becomes_of_the_run(self, user: Cli) -> None:
        shown = at_terminal(
            user, "y\n", "run", "sh", "-c", "echo going; sleep 100", interrupt_at=["going", "Ctrl-C again"]
        )
        assert "cancel run" in shown and "is being ended" in shown and "requested" not in shown


def test_of_boxes_one_is_a_box(user: Cli) -> None:
    assert "no box 'nope'" in user("list", "boxes", "nope", check=False).stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--filter", "tags. = 3"], "did you mean tags.NAME?"),
        (["--group", "nope"], "group, column 1: there is no column 'nope'"),
        (["--columns", "created:.3f"], ":%H:%M for a time"),
    ],
)
def test_a_mistake_in_a_list_is_told_with_what_to_write(user: Cli, args: list[str], said: str) -> None:
    done = user("list", "runs", *args, check=False)
    assert done.returncode == 2 and said in done.stderr
