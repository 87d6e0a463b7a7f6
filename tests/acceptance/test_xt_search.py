"""Samplers that the settings name: classes written for XT's searches as they are, and ours, wherever they lie."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli
from turnout.client import Client

TRAIN = """
import turnout

turnout.log(gain=-abs(turnout.params()["x"] - 0.125))
"""
#: XT's own example, but for the line that imports the interface from where it is.
RANDOM = '''
# hp_search_random.py: perform a random search of the specified parameters
import hyperopt.pyll.stochastic as stochastic
from interface import implements

from xtlib import console
from xtlib.hparams.hp_search_interface import HpSearchInterface

class MyRandomSearch(implements(HpSearchInterface)):
    def __init__(self):
        pass

    def need_runs(self):
        return False

    def search(self, run_name, store, context, hp_records, runs):
        """
        sample from each HP record and build a dict of hp name/value pairs.
        """
        arg_dict = {}

        for record in hp_records:
            prop = record["name"]
            space = record["space_func"]

            # sample value now
            value = self.sample_space(space)
            arg_dict[prop] = value

        console.print("run", run_name, "of", len(hp_records), "parameters, runs:", runs)
        return arg_dict

    def sample_space(self, space):
        value = stochastic.sample(space)

        if isinstance(value, str):
            value = value.strip()
            if " " in value:
                # surround with quotes so it is treated as a single entity
                value = '"' + value + '"'

        return value
'''
#: Goes through the values from the best run so far downwards.
DOWN = """
class Down:
    def need_runs(self):
        return True

    def search(self, run_name, store, context, hp_records, runs):
        (record,) = hp_records
        values = sorted((float(text) for text in record["value"].split(",")), reverse=True)
        sign = 1 if context.maximize_metric else -1
        told = [run for run in runs if context.primary_metric in run["metrics"]]
        best = max(told, key=lambda run: sign * run["metrics"][context.primary_metric], default=None)
        at = 0 if best is None else values.index(best["hparams"][record["name"]]) + 1
        return {record["name"]: values[min(at, len(values) - 1)]}


class Half:
    def search(self, run_name):
        return {}
"""
OURS = """
from turnout.plugin.sampler import Proposal, Sampler

class Halves(Sampler):
    def ask(self, index):
        return Proposal({"x": 1 / 2**index})

    def tell(self, result):
        pass
"""
SETTINGS = """
providers:
    hp-search: {
        "myRandom": "extensions.my_random.MyRandomSearch",
        "down": "extensions.down.Down",
        "half": "extensions.down.Half"
    }
"""
HP = """
hyperparameter-distributions:
  x: $uniform(0.1, 0.9)
  units: [8, 16]
  seed: $randint()
  epochs: 20
"""
VALUES = "hyperparameter-distributions: {x: [0.5, 1.0, 0.25, 0.125, 0.0625]}\n"


@pytest.fixture
def search(user: Cli, project: Path) -> Path:
    """A project with XT's classes, and the files of a search."""
    (project / "train.py").write_text(TRAIN)
    (project / "hp.yaml").write_text(HP)
    (project / "values.yaml").write_text(VALUES)
    (project / "turnout.yaml").write_text(SETTINGS)
    extensions = project / "extensions"
    extensions.mkdir()
    for name, text in (("__init__", ""), ("my_random", RANDOM), ("down", DOWN)):
        (extensions / f"{name}.py").write_text(text)
    return project


def last(user: Cli) -> str:
    (job,) = Client(user.home).jobs(limit=1)
    return str(job["name"])


def proposed(user: Cli, *words: str, **where: Any) -> list[dict[str, Any]]:
    """The parameters of the runs of a search, in order."""
    user("run", "--wait", "--runs", "3", *words, **where)
    return [view["params"] for view in sorted(user.json("results", last(user)), key=lambda view: view["number"])]


def test_a_class_as_it_is_in_xts_document(user: Cli, search: Path) -> None:
    words = ("--search-type", "myRandom", "--hp-config", "hp.yaml", "--seed", "4", "train.py")
    found = proposed(user, *words)
    assert len({str(params) for params in found}) == 3
    for params in found:
        assert list(params) == ["x", "units", "seed", "epochs"]
        assert 0.1 <= params["x"] <= 0.9 and params["units"] in (8, 16) and params["epochs"] == 20
    assert proposed(user, *words) == found, "the same seed gives the same"
    assert Client(user.home).search(last(user))["sampler"] == "extensions.my_random:MyRandomSearch"


def test_one_is_told_what_came_of_the_runs_that_are_over(user: Cli, search: Path) -> None:
    words = ("--concurrent", "1", "--search-type", "down", "--hp-config", "values.yaml")
    assert [params["x"] for params in proposed(user, *words, "--maximize", "gain", "train.py")] == [1.0, 0.5, 0.25]
    (search / "job.yaml").write_text(
        "command: python train.py\n"
        "search: {hp-config: values.yaml, sampler: down, maximize: gain, runs: 5}\nconcurrent: 1\n"
    )
    user("search", "job.yaml", "--wait")
    assert [view["params"]["x"] for view in user.json("best", last(user), "--last", "2")] == [0.125, 0.0625]


def test_a_class_that_lies_beside_settings_further_up(user: Cli, search: Path) -> None:
    """Its package is not among the files that are frozen, and is brought along."""
    below = search / "below"
    below.mkdir()
    for name in ("train.py", "values.yaml"):
        (below / name).write_text((search / name).read_text())
    words = ("--search-type", "down", "--hp-config", "values.yaml", "--concurrent", "1", "--maximize", "gain")
    assert [params["x"] for params in proposed(user, *words, "train.py", cwd=below)] == [1.0, 0.5, 0.25]


def test_a_sampler_of_ours_in_a_file_on_the_python_path(user: Cli, search: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ours.py").write_text(OURS)
    (search / "turnout.yaml").write_text("providers: {hp-search: {halves: ours.Halves}}\n")
    words = ("--search-type", "halves", "train.py", "--x=[$uniform(0,1)]")
    found = proposed(user, *words, env={"PYTHONPATH": str(tmp_path / "elsewhere")})
    assert [params["x"] for params in found] == [0.5, 0.25, 0.125]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--search-type", "half"), 2, "has not all methods of XT's HpSearchInterface: need_runs"),
        (("--search-type", "down", "--sampler-option", "a=1"), 2, "extensions.down:Down takes no options"),
        (("--search-type", "down", "--minimize", "a", "--minimize", "b"), 2, "takes one objective, not 2"),
        (("--search-type", "down", "--no-snapshot"), 2, "is among your files, and none is frozen"),
        (("--search-type", "up"), 3, "no sampler 'up'"),
    ],
)
def test_what_cannot_be_is_told(words: tuple[str, ...], code: int, said: str, user: Cli, search: Path) -> None:
    done = user("run", "--runs", "2", "--hp-config", "values.yaml", *words, "true", check=False)
    assert done.returncode == code and said in done.stderr


def test_the_settings_are_checked(user: Cli, search: Path) -> None:
    assert user("config", "check").returncode == 0
    (search / "turnout.yaml").write_text("providers: {hp-search: {gone: nowhere.to.Be}}\n")
    done = user("config", "check", check=False)
    assert done.returncode == 2 and "no package 'nowhere' for nowhere.to.Be" in done.stdout + done.stderr
    for kind in ("storage", "command"):
        (search / "turnout.yaml").write_text(f"providers: {{{kind}: {{mine: extensions.down.Down}}}}\n")
        done = user("config", "check", check=False)
        assert done.returncode == 2 and re.search(f"unknown key '{kind}' in providers", done.stdout + done.stderr)


def test_the_tab_key_knows_their_names(user: Cli, search: Path) -> None:
    words = ["turnout", "run", "--search-type", "my"]
    env = {"_TURNOUT_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert user(env=env, check=False).stdout.splitlines() == ["plain,myRandom"]
