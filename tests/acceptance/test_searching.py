"""Searches through the command line: asking for one in every form, living with it, and what becomes of its runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests import components
from tests.harness import Cli, at_terminal, wait_until
from tests.sshd import running_box
from turnout.client import Client

#: Logs what it is given as its loss; the file that GATE names lets it go, and "steps" are so many values.
TRAIN = """
import os, pathlib, time
import turnout

params = turnout.params()
for step in range(int(params.get("steps", 1))):
    turnout.log(loss=params["x"], gain=-params["x"], step=step)
gate = os.environ.get("GATE")
while gate and not pathlib.Path(gate).exists():
    time.sleep(0.02)
"""
#: Writes down in how many ways it has its parameters.
SEEN = """
import json, os, sys
import turnout

given = [sys.argv[1:], turnout.params(), json.loads(os.environ["TURNOUT_PARAMS"])]
with open(os.environ["TURNOUT_PARAMS_FILE"]) as file:
    given.append(json.load(file))
print(json.dumps(given))
"""
#: Proposes 1/2, 1/4, 1/8; or fails. Ends what has told its third value.
MINE = """
from turnout.plugin.sampler import Exhausted, Proposal, Sampler
from turnout.plugin.stopper import Stopper


class Halves(Sampler):
    def ask(self, index):
        if index > 3:
            raise Exhausted
        return Proposal({"x": 1 / 2**index, "steps": 5})

    def tell(self, result):
        pass


class Broken(Halves):
    def ask(self, index):
        raise ArithmeticError("no idea")


class Third(Stopper):
    def judge(self, run, points, seconds):
        return "that is enough" if len(points) > 2 else None
"""
#: Says that it is asked, and answers when it may.
SLEEPY = """

class Sleepy(Halves):
    def ask(self, index):
        from pathlib import Path
        from time import sleep

        Path(self.task.options["asked"]).touch()
        while not Path(self.task.options["gate"]).exists():
            sleep(0.02)
        return super().ask(index)
"""
LINE = {"x": {"uniform": [0, 1]}}


@pytest.fixture
def scripts(project: Path) -> Path:
    (project / "train.py").write_text(TRAIN)
    return project


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """What the runs of `TRAIN` wait for."""
    return tmp_path / "gate"


def job_file(project: Path, space: dict[str, Any] | None = None, command: str = "python train.py", **block: Any) -> str:
    search = {"space": space or LINE, "sampler": "random", "runs": 3, **block}
    (project / "job.yaml").write_text(yaml.safe_dump({"command": command, "search": search}))
    return "job.yaml"


def last_job(user: Cli) -> str:
    """The name of the newest job; nothing where there is none."""
    return "".join(str(job["name"]) for job in Client(user.home).jobs(limit=1))


def counts(user: Cli, job: str) -> dict[str, int]:
    found: dict[str, int] = Client(user.home).job(job)["counts"]
    return found


def children(user: Cli, job: str = "") -> list[dict[str, Any]]:
    """The runs of a search, of the last one unless another is named, in the order in which they were proposed."""
    found = Client(user.home).runs([f"job = {job or last_job(user)}"], limit=1000)
    return sorted((run for run in found if "." in run["name"]), key=lambda run: int(run["name"].split(".")[1]))


def params(user: Cli, *names: str, job: str = "") -> list[Any]:
    """What its runs had for these parameters, in order."""
    given = [tuple(run["params"].get(name) for name in names) for run in children(user, job)]
    return [each[0] for each in given] if len(names) == 1 else given


def run(user: Cli, *words: str) -> list[dict[str, Any]]:
    """``turnout run --wait``, and the runs that were made."""
    user("run", "--wait", *words)
    return children(user)


def going(user: Cli, project: Path, gate: Path, *options: str, **block: Any) -> str:
    """A search whose runs wait at the gate, once as many run as may."""
    name = job_file(project, minimize="loss", **block)
    user("run", "-d", "--env", f"GATE={gate}", "--concurrent", "2", *options, name)
    job = last_job(user)
    wait_until(lambda: counts(user, job).get("running") == 2, what="two runs are under way")
    return job


# --- how it is asked for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["grid", "random", "bayesian", "dgd", "cmaes", "nsga2", "qmc"])
def test_every_sampler_by_its_name(sampler: str, user: Cli, scripts: Path) -> None:
    (scripts / "hp.yaml").write_text("x: [0.1, 0.2, 0.3, 0.4]\n")
    words = ("--hp-config", "hp.yaml", "--search-type", sampler, "--runs", "2", "--minimize", "loss", "train.py")
    made = run(user, *words)
    assert [each["state"] for each in made] == ["completed"] * 2
    for each in made:
        assert each["metrics"]["loss"] == each["params"]["x"] in (0.1, 0.2, 0.3, 0.4)
        assert each["command"][-1] == f"--x={each['params']['x']}"


def test_values_in_the_command_take_their_own_place(user: Cli, scripts: Path) -> None:
    made = run(user, "--search-type", "grid", "train.py", "--x=[.1, .2]", "--opt", "[adam, sgd]", "last")
    assert [each["command"][1:] for each in made] == [
        [f"--x={x}", "--opt", opt, "last"] for x in (0.1, 0.2) for opt in ("adam", "sgd")
    ]
    assert params(user, "x", "opt") == [(x, opt) for x in (0.1, 0.2) for opt in ("adam", "sgd")]


def test_an_equals_sign_in_a_value_is_the_values(user: Cli, project: Path) -> None:
    (project / "seen.py").write_text(SEEN)
    made = run(user, "--search-type", "grid", "seen.py", "--filter", "['a=b', 'c=d']", "--by=['e=f']")
    seen = [json.loads(user("logs", each["name"]).stdout)[0] for each in made]
    assert seen == [["--filter", "a=b", "--by=e=f"], ["--filter", "c=d", "--by=e=f"]]


def test_words_as_of_hydra(user: Cli, scripts: Path) -> None:
    made = run(user, "--search-type", "grid", "train.py", "x=0.1,0.2", "+depth=range(1,3)", "data=a.txt", "n=[1,2]")
    assert [each["command"][1:3] for each in made] == [
        [f"x={x}", f"+depth={depth}"] for x in (0.1, 0.2) for depth in (1, 2)
    ]
    assert all(each["command"][3:] == ["data=a.txt", "n=[1,2]"] for each in made)


def test_a_comma_is_a_comma_where_a_file_names_the_parameters(user: Cli, scripts: Path) -> None:
    (scripts / "hp.yaml").write_text("x: [0.1, 0.2]\n")
    made = run(user, "--hp-config", "hp.yaml", "--search-type", "grid", "train.py", "files=a,b")
    assert [each["command"][1:] for each in made] == [["files=a,b", "--x=0.1"], ["files=a,b", "--x=0.2"]]


XT_FILE = """
hyperparameter-distributions:
  x: $linspace(0.1, 0.3, 3)
  seed: $randint()
  width: [8]
"""
NNI_FILE = {"x": {"_type": "choice", "_value": [0.1, {"_name": "fine", "step": {"_type": "choice", "_value": [2, 3]}}]}}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("hp.yaml", XT_FILE, [0.1, 0.2, 0.3]),
        ("space.json", json.dumps(NNI_FILE), [0.1, {"_name": "fine", "step": 2}, {"_name": "fine", "step": 3}]),
    ],
)
def test_files_of_others(name: str, text: str, found: list[Any], user: Cli, project: Path) -> None:
    (project / name).write_text(text)
    user("search", name, "--search-type", "grid", "--wait", "--", "true")
    assert params(user, "x") == found


def test_a_job_file_and_what_is_typed_over_it(user: Cli, scripts: Path) -> None:
    name = job_file(scripts, {"x": [0.1, 0.2, 0.3]}, sampler={"name": "grid", "shuffle": True}, minimize="loss")
    user("search", name, "--wait")
    assert sorted(params(user, "x")) == [0.1, 0.2, 0.3]
    typed = ("--runs", "2", "--search-type", "random", "--maximize", "gain", "--seed", "3", "--tag", "k=v")
    user("search", name, "--wait", *typed)
    shown = user.json("extend", last_job(user), "--runs", "2")
    assert (shown["sampler"], shown["sampler_options"], shown["runs"], shown["seed"]) == ("random", {}, 2, 3)
    assert shown["aims"] == [{"metric": "gain", "goal": "maximize", "of": "last"}]
    assert {each["tags"]["k"] for each in children(user)} == {"v"}


@pytest.mark.parametrize("command", ["run", "search"])
def test_what_holds_anyway_can_be_typed_over_a_file(command: str, user: Cli, scripts: Path) -> None:
    name = job_file(scripts, {"x": [0.1]}, sampler="grid", static=True, prefix="none")
    over = ("--schedule", "dynamic", "--option-prefix", "--", "--search-type", "Grid")
    told = user.json(command, "--dry-run", *over, name)["search"]
    assert (told["whole"], told["prefix"], told["sampler"]) == (False, "--", "grid")
    told = user.json(command, "--dry-run", name)["search"]
    assert (told["whole"], told["prefix"]) == (True, None)


def test_run_takes_job_files_too(user: Cli, project: Path) -> None:
    (project / "job.yml").write_text("command: echo hello\ntags: {who: file}\n")
    assert user("run", "--tag", "more=typed", "--env", "A=b", "job.yml").stdout == "hello\n"
    (made, *_) = user.json("list", "runs", "-n", "1")
    assert made["tags"] == {"who": "file", "more": "typed"}


def test_parameters_alone_with_a_command_behind_them(user: Cli, scripts: Path) -> None:
    (scripts / "below").mkdir()
    (scripts / "below" / "space.yaml").write_text("x: [0.5]\n")
    user("search", "below/space.yaml", "--search-type", "grid", "--wait", "--", "train.py", "--fast")
    (made,) = children(user)
    assert made["command"] == ["train.py", "--fast", "--x=0.5"]


def test_a_dry_run_shows_the_search_and_makes_none(user: Cli, scripts: Path) -> None:
    before = last_job(user)
    words = ("--search-type", "grid", "--minimize", "loss", "--stopper", "median", "train.py", "--x=[.1,.2]")
    shown = user("run", "--dry-run", *words).stdout
    assert "would submit a search of 2 runs to local" in shown
    for line in ("sampler   grid, seed 0", "parameter x: 0.1, 0.2", "objective minimize loss", "stopper   median"):
        assert line in shown
    told = user.json("run", "--dry-run", *words)
    assert told["runs"] == 2 and told["search"]["sampler"] == "grid"
    refused = user("run", "--dry-run", "--sampler-option", "speed=3", *words, check=False)
    assert refused.returncode == 2 and "grid has no option 'speed'" in refused.stderr
    assert last_job(user) == before


# --- what the script gets ---------------------------------------------------------------------------------------------


def test_parameters_arrive_in_every_way(user: Cli, project: Path) -> None:
    (project / "seen.py").write_text(SEEN)
    (project / "hp.yaml").write_text("layer: [{_name: conv, width: [8]}]\nname: ['two words']\n")
    (made,) = run(user, "--hp-config", "hp.yaml", "--search-type", "grid", "seen.py", "first")
    argv, *others = json.loads(user("logs", made["name"]).stdout)
    assert argv == ["first", "--layer=conv", "--layer.width=8", "--name=two words"]
    assert others == [{"layer": {"_name": "conv", "width": 8}, "name": "two words"}] * 3


@pytest.mark.parametrize(("prefix", "argv"), [("none", []), ("", ["x=0.5"]), ("+", ["+x=0.5"])])
def test_how_arguments_are_appended(prefix: str, argv: list[str], user: Cli, project: Path) -> None:
    (project / "seen.py").write_text(SEEN)
    (project / "hp.yaml").write_text("x: [0.5]\n")
    words = ("--hp-config", "hp.yaml", "--search-type", "grid", "--option-prefix", prefix, "seen.py")
    (made,) = run(user, *words)
    seen, *others = json.loads(user("logs", made["name"]).stdout)
    assert seen == argv and others == [{"x": 0.5}] * 3


def test_the_same_seed_gives_the_same(user: Cli, project: Path) -> None:
    def sequence(seed: int, *sampler: str) -> list[Any]:
        user("search", job_file(project, command="true", runs=4), "--wait", "--seed", str(seed), *sampler)
        return params(user, "x")

    first = sequence(7)
    assert sequence(7) == first != sequence(8)
    shuffled = sequence(7, "--search-type", "grid", "--sampler-option", "shuffle=true")
    assert sequence(7, "--search-type", "grid", "--sampler-option", "shuffle=true") == shuffled


# --- living with it ---------------------------------------------------------------------------------------------------


def test_paused_resumed_and_with_more_at_once(user: Cli, scripts: Path, gate: Path) -> None:
    job = going(user, scripts, gate, runs=6)
    said = user("pause", job).stdout
    assert "0 of 6 runs over; 2 under way" in said and "paused: a person paused it" in said
    why = user("why", job).stdout
    assert "Its search is paused: a person paused it." in why and f"`turnout resume {job}`" in why
    parent = children(user, job)[0]["name"].partition(".")[0]
    assert "Its search is paused" in user("why", parent).stdout
    gate.touch()
    wait_until(lambda: counts(user, job).get("completed") == 2)
    assert user.json("show", job)["state"] == "running", "a paused search is not over"
    gate.unlink()
    user("extend", job, "--concurrent", "4")
    assert user.json("resume", job)["state"] == "active"
    wait_until(lambda: counts(user, job).get("running") == 4, what="four at once")
    gate.touch()
    assert user.json("attach", job)["counts"] == {"completed": 6}


def test_one_that_waits_for_results_says_so(user: Cli, scripts: Path, gate: Path) -> None:
    job = going(user, scripts, gate, sampler="tpe", runs=5)
    wait_until(lambda: "are made. Its sampler is asked for the next when a result comes" in user("why", job).stdout)
    assert "2 are under way; at most 2 may be at once" in user("why", job).stdout
    gate.touch()
    user("attach", job)
    assert "Its search is over: all its runs are made." in user("why", job).stdout


def test_extended_while_it_runs_and_when_it_is_over(user: Cli, scripts: Path, gate: Path) -> None:
    job = going(user, scripts, gate, runs=2)
    assert user.json("extend", job, "--runs", "+1")["runs"] == 3
    gate.touch()
    user("attach", job)
    assert user.json("extend", job, "--runs", "+2", "--max-time", "+1h")["deadline"]
    assert user.json("attach", job)["counts"] == {"completed": 5}
    whole = params(user, "x", job=job)
    user("search", job_file(scripts, runs=5), "--wait")
    assert params(user, "x") == whole, "as if it had been asked for at once"


def test_the_tree_is_cancelled(user: Cli, scripts: Path, gate: Path) -> None:
    job = going(user, scripts, gate, runs=100)
    user("cancel", "job", job)
    done = user("attach", "--json", job, check=False)
    assert (done.returncode, json.loads(done.stdout)["state"]) == (1, "cancelled")
    assert {each["state"] for each in children(user, job)} == {"cancelled"} and len(children(user, job)) == 2


def test_best_show_and_lists(user: Cli, scripts: Path) -> None:
    name = job_file(scripts, {"x": [0.3, 0.1, 0.2]}, sampler="grid", minimize="loss")
    done = user("search", name, "--wait")
    job = last_job(user)
    assert re.match(rf"{job}: 3 of 3 runs over; best run\d+\.2 loss=0.1 \(x=0.1\); in ", done.stdout)
    ordered = [each["name"] for each in sorted(children(user), key=lambda each: each["params"]["x"])]
    assert [each["run"] for each in user.json("best", job)] == ordered
    assert user("best", job, "--last", "1").stdout.split() == ["run", "loss", "params", ordered[0], "0.1", "x=0.1"]
    listed = user.json("list", "runs", "--job", job, "--sort", "metrics.loss", "-n", "3")
    assert [each["name"] for each in listed] == ordered
    shown = user("show", job).stdout
    assert re.search(rf"search +3 of 3 runs over; best {ordered[0]} loss=0.1 \(x=0.1\)", shown)
    assert re.search(r"sampler +grid, seed 0", shown) and re.search(r"parameter +x: 0.3, 0.1, 0.2", shown)
    assert user.json("show", job)["search"] == "grid"


def test_several_objectives(user: Cli, scripts: Path) -> None:
    made = run(user, "--search-type", "grid", "--minimize", "loss", "--minimize", "gain", "train.py", "--x=[1,2,3]")
    best = user.json("best", last_job(user))
    assert {each["run"] for each in best} == {each["name"] for each in made}, "none of them beats another"
    assert [each["values"] for each in best] == [[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]]


def test_a_terminal_shows_how_it_goes(user: Cli, scripts: Path, gate: Path) -> None:
    name = job_file(scripts, runs=3, minimize="loss")
    words = ("run", "--env", f"GATE={gate}", "--concurrent", "1", name)
    shown = at_terminal(user, "", *words, columns=100, interrupt_at=["1 under way"])
    assert "0 of 3 runs over; 1 under way" in shown and "it goes on" in shown
    gate.touch()
    assert user.json("attach", last_job(user))["counts"] == {"completed": 3}


def test_held_until_it_is_released(user: Cli, scripts: Path) -> None:
    said = user("run", "--held", job_file(scripts)).stdout
    assert "held" in said
    job = last_job(user)
    assert "held" in user("why", job).stdout
    user("release", job)
    assert user.json("attach", job)["counts"] == {"completed": 3}


def test_one_run_again_and_all_of_it_again(user: Cli, scripts: Path) -> None:
    user("search", job_file(scripts), "--wait")
    first = children(user)
    user("rerun", first[1]["name"])
    (again,) = user.json("list", "runs", last_job(user))
    assert (again["params"], again["command"]) == (first[1]["params"], first[1]["command"])
    user("rerun", first[0]["name"].partition(".")[0])
    assert [each["params"] for each in children(user)] == [each["params"] for each in first]
    refused = user("rerun", first[0]["name"].partition(".")[0], "--other", check=False)
    assert refused.returncode == 2 and "a search is run again as it was" in refused.stderr


# --- when it is over --------------------------------------------------------------------------------------------------


def test_time_is_up(user: Cli, scripts: Path, gate: Path) -> None:
    name = job_file(scripts, runs=None)
    done = user("run", "--wait", "--env", f"GATE={gate}", "--max-time", "1s", name)
    assert "its time is up" in done.stdout
    made = children(user)
    assert {(each["state"], each["reason"]) for each in made} == {("stopped", "budget")}
    assert all(each["metrics"]["loss"] == each["params"]["x"] for each in made), "what they had told is kept"


def test_nothing_works_and_it_gives_up(user: Cli, project: Path) -> None:
    search = {"space": LINE, "sampler": "random", "runs": 100, "max-failures": 3}
    (project / "job.yaml").write_text(yaml.safe_dump({"command": "sh -c 'exit 3'", "concurrent": 1, "search": search}))
    done = user("search", "job.yaml", "--wait", check=False)
    assert done.returncode == 1 and re.search(r"none of its first \d+ runs completed", done.stdout)
    job = last_job(user)
    assert user.json("show", job)["state"] == "failed" and len(children(user)) < 20
    assert "Its search is over: none of its first" in user("why", job).stdout


def test_some_fail_and_the_search_does_not(user: Cli, project: Path) -> None:
    done = user("run", "--wait", "--search-type", "grid", "sh", "-c", 'exit "${0#--code=}"', "--code=[0,3]")
    assert "2 runs over (1 failed)" in done.stdout


def test_all_runs_are_made_at_once(user: Cli, scripts: Path, gate: Path) -> None:
    job = going(user, scripts, gate, "--schedule", "static", runs=5)
    made = children(user, job)
    assert [each["state"] for each in made] == ["running", "running", "queued", "queued", "queued"]
    assert all(each["params"] for each in made)
    assert "next on local" in user("why", made[2]["name"]).stdout
    assert f"{made[2]['name']}, {made[3]['name']}, {made[4]['name']} wait." in user("why", job).stdout
    gate.touch()
    assert user.json("attach", job)["counts"] == {"completed": 5}


def test_several_targets_at_once(user: Cli, scripts: Path, gate: Path) -> None:
    targets = {name: {"service": "local", "max-runs": 1} for name in ("one", "two")}
    (scripts / "turnout.yaml").write_text(yaml.safe_dump({"compute-targets": targets}))
    job = going(user, scripts, gate, "--target", "one,two", runs=6)
    assert {each["target"] for each in children(user, job)} == {"one", "two"}
    gate.touch()
    assert user.json("attach", job)["counts"] == {"completed": 6}
    assert len({each["params"]["x"] for each in children(user, job)}) == 6


@pytest.mark.xdist_group("sshd")
def test_here_and_over_there_at_once(cli: Cli) -> None:
    with running_box(components.sshd()) as box, TemporaryDirectory(prefix="to-gate-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)  # who runs over there is somebody else
        cli.home.mkdir(parents=True)
        targets = yaml.safe_dump({"compute-targets": {"here": {"service": "local", "max-runs": 1}}})
        (cli.home / "config.yaml").write_text(f"{targets}boxes:\n  far: {box.entry()}\n")
        (cli.cwd / "train.py").write_text(TRAIN)
        gate = Path(folder) / "gate"
        job = going(cli, cli.cwd, gate, "--target", "here,far", command="train.py", runs=4)
        assert {each["target"] for each in children(cli, job)} == {"here", "far"}
        gate.touch()
        assert cli.json("attach", job)["counts"] == {"completed": 4}
        assert all(each["metrics"]["loss"] == each["params"]["x"] for each in children(cli, job))


# --- stoppers ---------------------------------------------------------------------------------------------------------


def test_a_stopper_ends_what_leads_nowhere(user: Cli, scripts: Path, gate: Path) -> None:
    stopper = {"name": "threshold", "upper": 0.5}
    name = job_file(scripts, {"x": [0.1, 0.9], "steps": 3}, sampler="grid", minimize="loss", stopper=stopper)
    user("run", "-d", "--env", f"GATE={gate}", "--concurrent", "2", name)
    job = last_job(user)
    wait_until(lambda: counts(user, job).get("stopped") == 1)
    good, bad = (each["name"] for each in children(user, job))
    shown = user.json("show", bad)
    assert (shown["reason"], shown["metrics"]["loss"]) == ("pruned", 0.9)
    assert [each["value"] for each in user.json("metrics", bad)["loss"]] == [0.9] * 3
    assert "threshold: 0.9 is above 0.5 at step 0" in user("why", bad).stdout
    assert "stop_requested" in [each["event"] for each in user.json("events", bad)]
    gate.touch()
    assert user.json("attach", job)["counts"] == {"completed": 1, "stopped": 1}
    assert user.json("show", job)["state"] == "completed" and user.json("show", good)["state"] == "completed"
    assert [each["run"] for each in user.json("best", job)] == [good, bad]


@pytest.mark.parametrize(
    ("stopper", "words"),
    [
        ({"name": "patience", "steps": 2}, "patience: it is no better than"),
        ({"name": "wall_time", "seconds": 0.5}, "wall_time: it has been running for more than 0.5 s"),
    ],
)
def test_a_run_may_stop_by_itself(stopper: dict[str, Any], words: str, user: Cli, scripts: Path, gate: Path) -> None:
    block = job_file(scripts, {"x": [0.1], "steps": 4}, sampler="grid", minimize="loss", stopper=stopper)
    user("run", "--wait", "--env", f"GATE={gate}", block)
    (made,) = children(user)
    assert made["state"] == "stopped" and words in user("why", made["name"]).stdout


# --- code of one's own ------------------------------------------------------------------------------------------------


def test_a_sampler_and_a_stopper_of_the_project(user: Cli, scripts: Path, gate: Path) -> None:
    (scripts / "mine.py").write_text(MINE)
    name = job_file(scripts, sampler="mine:Halves", stopper="mine:Third", minimize="loss", runs=9)
    user("run", "--wait", "--env", f"GATE={gate}", name)
    assert [(each["params"]["x"], each["state"]) for each in children(user)] == [
        (x, "stopped") for x in (0.5, 0.25, 0.125)
    ]


def test_a_sampler_that_fails_pauses_its_search(user: Cli, scripts: Path) -> None:
    (scripts / "mine.py").write_text(MINE)
    user("search", job_file(scripts, sampler="mine:Broken"), "-d")
    job = last_job(user)
    wait_until(lambda: "paused" in user("why", job).stdout)
    assert "its sampler failed: mine:Broken, ask: ArithmeticError: no idea" in user("why", job).stdout
    user("cancel", "job", job)


# --- what is wrong ----------------------------------------------------------------------------------------------------

FILES = {
    "hp.yaml": "x: [0.1, 0.2]\n",
    "broken.yaml": "x: [1, 2\n",
    "empty.yaml": "\n",
    "nothing.yaml": "x: []\n",
    "backwards.yaml": "x:\n  - {_name: deep, width: {uniform: [2, 1]}}\n",
    "misspelt.yaml": "hyperparameter-distributions: {x: '$unform(0, 1)'}\n",
    "space.json": '{"x": {"_type": "uniform", "_value": [1]}}',
    "list.yaml": "- a\n",
    "job.yaml": "command: 'true'\nsearch: {space: {x: [1]}, sampler: grid}\n",
    "plain.yaml": "command: 'true'\n",
    "typo.yaml": "command: 'true'\nsearch: {spice: {x: [1]}}\n",
    "top.yaml": "comand: 'true'\nsearch: {space: {x: [1]}}\n",
    "value.yaml": "command: 'true'\nsearch: {space: {x: {uniform: [1, 0]}}}\n",
    "runs.yaml": "command: 'true'\nsearch: {space: {x: [1]}, runs: many}\n",
    "of.yaml": "command: 'true'\nsearch: {space: {x: [1]}, of: mean}\n",
    "name.yaml": "command: 'true'\nsearch: {space: {x: [1]}, sampler: [grid]}\n",
    "on.yaml": "command: 'true'\nsearch: {space: {x: [1]}, on: 1}\n",
    "date.yaml": "x: 2020-99-99\n",
    "deep.yaml": f"x: {'[' * 3000}\n",
    "infinite.yaml": "command: 'true'\npriority: .inf\nsearch: {space: {x: [1]}}\n",
    "mapping.yaml": "command: {a: b}\nsearch: {space: {x: [1]}}\n",
    "metric.yaml": "command: 'true'\nsearch: {space: {x: [1]}, minimize: {loss: 1}}\n",
    "env.yaml": "command: 'true'\nenv: {A: yes}\nsearch: {space: {x: [1]}}\n",
}
HP = ("run", "--hp-config", "hp.yaml", "--runs", "2")
OF = (*HP, "--minimize", "loss")
WRONG: dict[str, tuple[Sequence[str], str, str]] = {
    "no such sampler": ((*HP, "--search-type", "gird", "true"), "no sampler 'gird'", "installed: "),
    "no such stopper": ((*OF, "--stopper", "medan", "true"), "no stopper 'medan'", "installed: "),
    "an option of a sampler": ((*OF, "--sampler-option", "speed=1", "true"), "tpe has no option 'speed'", "n_startup"),
    "an option of a stopper": (
        (*OF, "--stopper", "median", "--stopper-option", "strt=1", "true"), "no option 'strt'", "did you mean start?",
    ),
    "an option that is missing": ((*OF, "--stopper", "hyperband", "true"), "hyperband needs max_resource", "help"),
    "an option without a value": ((*OF, "--sampler-option", "speed", "true"), "'speed' is no NAME=VALUE", "start=5"),
    "an option without a stopper": ((*OF, "--stopper-option", "start=1", "true"), "there is none", "--stopper NAME"),
    "a stopper without an objective": ((*HP, "--stopper", "median", "true"), "no metric to look at", "--minimize"),
    "a sampler without an objective": ((*HP, "--search-type", "tpe", "true"), "tpe needs an objective", "--minimize"),
    "too many objectives": (
        (*OF, "--minimize", "b", "--search-type", "cmaes", "true"), "cmaes takes one objective", "use tpe or nsga2",
    ),
    "an objective without a name": ((*HP, "--minimize", "", "true"), "has no name", "--minimize METRIC"),
    "an objective twice": ((*OF, "--maximize", "loss", "true"), "'loss' is an objective twice", "once"),
    "a grid, misspelt": (("run", "--search-type", "gird", "--hp-config", "hp.yaml", "true"), "'gird'", "mean 'grid'?"),
    "no end": (("run", "--hp-config", "hp.yaml", "true"), "goes on for ever", "--runs N or --max-time"),
    "at once without an end": (
        ("run", "--hp-config", "hp.yaml", "--max-time", "1h", "--schedule", "static", "true"), "no end", "--runs N",
    ),
    "no time": ((*HP, "--max-time", "soon", "true"), "--max-time 'soon'", "write 90s"),
    "nothing to vary": (("run", "--search-type", "grid", "true", "--x=1"), "nothing to search", "--hp-config FILE"),
    "a list that the shell split": (
        ("run", "--search-type", "grid", "true", "--x=[1,", "2]"), "the shell split", "put it in quotes",
    ),
    "a value in the command": (
        ("run", "--search-type", "grid", "true", "--x=[$uniform(1)]"), "parameter 'x'", "uniform(low, high)",
    ),
    "a word as of Hydra": (("run", "--search-type", "grid", "true", "x=range(5,1)"), "parameter 'x'", "range("),
    "no search at all": (("run", "--seed", "1", "true"), "--seed is for searches", "--hp-config FILE"),
    "several targets without a search": (("run", "--target", "local,local", "true"), "only a search", "--target"),
    "a target twice": ((*HP, "--target", "local,local", "true"), "each once", "leave some out"),
    "a file that is not there": (("run", "--hp-config", "gone.yaml", "true"), "gone.yaml", "check the path"),
    "a file that is no YAML": (("run", "--hp-config", "broken.yaml", "true"), "broken.yaml:2", "name: value"),
    "an empty file": (("run", "--hp-config", "empty.yaml", "true"), "empty.yaml has no names", "name: value"),
    "a list for a file": (("run", "--hp-config", "list.yaml", "true"), "list.yaml has no names", "name: value"),
    "no value": (("run", "--hp-config", "nothing.yaml", "true"), "nothing.yaml: parameter 'x'", "at least one"),
    "a parameter of a branch": (
        ("run", "--hp-config", "backwards.yaml", "true"), "parameter 'x/deep/width'", "lower bound first",
    ),
    "a function of XT": (("run", "--hp-config", "misspelt.yaml", "true"), "no function 'unform'", "uniform"),
    "a type of NNI": (("run", "--hp-config", "space.json", "true"), "uniform does not take 1 value", "low, high"),
    "with --nodes": ((*HP, "--nodes", "2", "true"), "--nodes and a search exclude", "leave --nodes out"),
    "with --repeat": ((*HP, "--repeat", "2", "true"), "--repeat and a search exclude", "leave --repeat out"),
    "no command": (("search", "hp.yaml", "--runs", "2"), "hp.yaml has no `command:`", "-- COMMAND"),
    "no search in a file": (("search", "plain.yaml"), "plain.yaml has no `search:`", "turnout run"),
    "no job in a file": (("run", "hp.yaml"), "hp.yaml is no job file", "--hp-config hp.yaml"),
    "arguments for a file": (("run", "job.yaml", "--fast"), "'--fast' stands behind", "turnout search job.yaml --"),
    "a key of the search": (("search", "typo.yaml"), "typo.yaml: nothing is called search.spice", "`space`"),
    "a key of the job": (("search", "top.yaml"), "top.yaml: nothing is called comand", "`command`"),
    "a space in a file": (("search", "value.yaml"), "value.yaml: search.space: parameter 'x'", "lower bound"),
    "a number in a file": (("search", "runs.yaml"), "runs.yaml: runs: 'many'", "runs: 1"),
    "a value that counts": (("search", "of.yaml"), "of.yaml: search.of: 'mean'", "last"),
    "a key that YAML reads as true": (("search", "on.yaml"), "on.yaml: nothing is called search.True", "space"),
    "a date that is none": (("run", "--hp-config", "date.yaml", "true"), "date.yaml:1: 2020-99-99 is", "name: value"),
    "brackets without end": (("run", "--hp-config", "deep.yaml", "true"), "too many brackets", "name: value"),
    "an option that is no date": (
        (*HP, "--search-type", "grid", "--sampler-option", "points=2020-99-99", "true"), "points must be", "2020-99-99",
    ),
    "an option that is a date": (
        (*HP, "--search-type", "grid", "--sampler-option", "points=2020-09-09", "true"), "option 'points'", "in quotes",
    ),
    "an endless priority": (("search", "infinite.yaml"), "priority: inf is not a whole number", "priority: 1"),
    "names for a command": (("search", "mapping.yaml"), "mapping.yaml: command: {'a': 'b'} is no text", "TEXT"),
    "names for a metric": (("search", "metric.yaml"), "minimize: {'loss': 1} is no text", "TEXT"),
    "a variable that YAML reads as true": (("search", "env.yaml"), "env.A: true is no text", "put it in quotes"),
    "a name that is none": (("search", "name.yaml"), "name.yaml: search.sampler is no name", "sampler: NAME"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_and_nothing_is_submitted(case: str, user: Cli, project: Path) -> None:
    words, said, hint = WRONG[case]
    for name, text in FILES.items():
        (project / name).write_text(text)
    before = last_job(user)
    done = user(*words, check=False)
    assert done.returncode in (2, 3) and said in done.stderr.partition("\n")[0], done.stderr
    assert hint in done.stderr and done.stderr.count("\n") > 1, done.stderr
    assert last_job(user) == before


def test_what_cannot_be_changed(user: Cli, project: Path) -> None:
    user("search", job_file(project, command="true"), "--wait")
    for words, code, said in (
        (("--runs", "many"), 2, "--runs 'many' is no number of runs"),
        (("--runs", "1"), 2, "it has made 3 runs already"),
        (("--runs", "+1", "--max-time", "1h"), 2, "one with +, one without"),
        ((), 2, "say what it may use"),
        (("--concurrent", "3"), 4, "is over, there is nothing to change"),
    ):
        done = user("extend", last_job(user), *words, check=False)
        assert done.returncode == code and said in done.stderr


def test_a_job_that_is_no_search(user: Cli, project: Path) -> None:
    user("run", "true")
    for command in ("pause", "resume", "best"):
        done = user(command, last_job(user), check=False)
        assert done.returncode == 4 and "is no search" in done.stderr


def test_the_tab_key_knows_who_proposes_and_who_stops(user: Cli, project: Path) -> None:
    def offered(*words: str) -> list[str]:
        env = {"_TURNOUT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [line.partition(",")[2] for line in user(env=env, check=False).stdout.splitlines()]

    assert offered("turnout", "run", "--search-type", "ra") == ["random"]
    assert offered("turnout", "search", "--stopper", "p") == ["patience", "percentile"]


class TestWhatItMayUse:
    """Limits, and what is held, extended and gave up."""

    def test_held_it_makes_no_run_although_all_are_made_at_once(self, user: Cli, scripts: Path) -> None:
        words = ("--search-type", "grid", "--schedule", "static", "train.py", "--x=[1,2]")
        assert "held: `turnout release" in user("run", "-d", "--held", *words).stdout
        job = last_job(user)
        user("search", job_file(scripts), "--wait")  # its runs have been made by now
        why = user("why", job).stdout
        assert children(user, job) == [] and "is held; `turnout release" in why and "Its sampler" not in why
        user("release", job)
        assert user.json("attach", job)["counts"] == {"completed": 2}

    def test_what_was_only_proposed_does_not_count(self, user: Cli, scripts: Path, gate: Path) -> None:
        job = going(user, scripts, gate, "--max-time", "1h", runs=None)
        assert user.json("extend", job, "--runs", "4")["runs"] == 4
        assert user.json("extend", job, "--runs", "+1")["runs"] == 5
        gate.touch()
        assert user.json("attach", job)["counts"] == {"completed": 5}

    def test_more_time_than_calendars_have(self, user: Cli, scripts: Path, gate: Path) -> None:
        before = last_job(user)
        done = user("run", "--max-time", "9000000d", job_file(scripts), check=False)
        assert done.returncode == 2 and "up to 100 years" in done.stderr and last_job(user) == before
        job = going(user, scripts, gate, runs=3)
        for words in (("--max-time", "9000000d"), ("--max-time", "+9000000d"), ("--runs", "+10000000")):
            refused = user("extend", job, *words, check=False)
            assert refused.returncode == 2 and "may have up to" in refused.stderr, refused.stderr
        gate.touch()
        assert user.json("attach", job)["counts"] == {"completed": 3}

    def test_more_than_can_be_made_at_once(self, user: Cli, project: Path) -> None:
        before = last_job(user)
        values = "[0,1,2,3,4,5,6,7,8,9]"
        grid = ("--search-type", "grid", "true", *(f"--{name}={values}" for name in "abcdefghij"))
        for words in (grid, ("--runs", "10001", *grid)):
            done = user("run", "-d", "--schedule", "static", *words, check=False)
            assert done.returncode == 2 and "made at once" in done.stderr and "as nodes get free" in done.stderr
        assert last_job(user) == before

    def test_one_that_gave_up_goes_on(self, user: Cli, project: Path) -> None:
        flag = project / "works"
        search = {"space": LINE, "sampler": "random", "runs": 9, "max-failures": 2, "prefix": "none"}
        job = {"command": f"test -e {flag}", "concurrent": 1, "search": search}
        (project / "job.yaml").write_text(yaml.safe_dump(job))
        assert user("search", "job.yaml", "--wait", check=False).returncode == 1
        flag.touch()
        user("extend", last_job(user), "--runs", str(len(children(user)) + 2))
        assert user.json("attach", last_job(user))["counts"]["completed"] == 2

    @pytest.mark.timeout(120)
    def test_a_hub_that_stops_does_not_wait_for_a_sampler(self, cli: Cli) -> None:
        (cli.cwd / "mine.py").write_text(f"{MINE}{SLEEPY}")
        (cli.cwd / "space.yaml").write_text("x: {uniform: [0, 1]}\n")
        asked, gate = cli.cwd / "asked", cli.cwd / "gate"
        options = ("--sampler-option", f"asked={asked}", "--sampler-option", f"gate={gate}", "--runs", "2")
        cli("run", "-d", "--hp-config", "space.yaml", "--search-type", "mine:Sleepy", *options, "true")
        wait_until(asked.exists, what="it thinks")
        cli("hub", "stop")
        gate.touch()
        assert cli.json("attach", last_job(cli))["counts"] == {"completed": 2}, "it was asked again"
