"""The hub is killed again and again while a search goes on: every run once, with its own parameters, told once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.scene import Scene
from tests.harness import wait_until

RUNS = 200
KILLS = 20

#: Proposes by number, and writes down beside turnout what it was asked and told, and by which of its lives.
SAMPLER = """\
import json, os
from turnout.plugin.sampler import Proposal, Sampler

class Noting(Sampler):
    def note(self, **said):
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps({"life": os.getpid(), **said}) + "\\n")

    def ask(self, index):
        self.note(asked=index)
        return Proposal({"x": index * 1.5, "life": os.getpid()})

    def tell(self, result):
        self.note(told=result.index, x=result.proposal.params["x"], value=result.values[0])

    def adopt(self, index, proposal):
        self.note(adopted=index)
"""
#: Says beside turnout which parameters it saw, and by which of three ways, and what it told.
TRIAL = """\
import json, os, sys, turnout
name, seen = os.environ["TURNOUT_RUN_NAME"], turnout.params()
by_file = json.load(open(os.environ["TURNOUT_PARAMS_FILE"]))
by_argument = dict(each.lstrip("-").split("=", 1) for each in sys.argv[2:])
assert by_file == seen and float(by_argument["x"]) == seen["x"], (by_file, seen, by_argument)
turnout.log(loss=seen["x"] * 2)
with open(sys.argv[1] + "/tried", "a") as file:
    file.write(json.dumps({"run": name, **seen, "loss": seen["x"] * 2}) + "\\n")
"""


@pytest.mark.timeout(240)
def test_a_search_goes_on_when_the_hub_is_killed_twenty_times(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(_installed(scene.side)))
    monkeypatch.setenv("NOTES", str(scene.side / "notes"))
    trial = scene.script("trial.py", TRIAL)
    space = scene.side / "space.yaml"
    space.write_text("x: {uniform: [0, 1000]}\n")
    parent = scene.submit(
        "--hp-config", str(space), "--search-type", "noting", "--runs", str(RUNS), "--concurrent", "4",
        "--minimize", "loss", "python3", trial, str(scene.side),
    )  # fmt: skip
    for kills in range(1, KILLS + 1):
        due = kills * RUNS // (KILLS + 2)
        wait_until(lambda: len(scene.lines("tried")) >= due, 60.0, f"{due} runs are over")  # noqa: B023
        scene.kill_hub()
        scene.start_hub()
    assert scene.wait_for(parent, timeout=90.0)["state"] == "completed"

    children = scene.children(parent)
    tried = {each["run"]: each for each in map(json.loads, scene.lines("tried"))}
    assert len(children) == len(tried) == len(scene.lines("tried")) == RUNS, "each run was made once"
    assert len({child["params"]["x"] for child in children}) == RUNS
    for child in children:
        seen = tried[child["name"]]
        assert child["state"] == "completed" and child["attempts"] == 1
        assert child["params"] == {"x": seen["x"], "life": seen["life"]}, "recorded is what the script saw"
        assert child["metrics"] == {"loss": seen["loss"]}
    _check_notes(scene)


def _check_notes(scene: Scene) -> None:
    """Nothing was told twice to one life of the sampler, or other than it was; the last one knows of all."""
    notes = [json.loads(line) for line in scene.lines("notes")]
    told = [note for note in notes if "told" in note]
    twice = [each for each, count in Counter((note["life"], note["told"]) for note in told).items() if count > 1]
    assert not twice
    assert all(note["value"] == note["x"] * 2 == note["told"] * 3 for note in told)
    last = wait_until(lambda: _told_last(scene), 10.0, "the last of its lives is told of all")
    assert last == set(range(1, RUNS + 1))
    assert len({note["life"] for note in notes}) > KILLS // 2, "hubs were killed while they had something to lose"


def _told_last(scene: Scene) -> set[int] | None:
    notes = [json.loads(line) for line in scene.lines("notes")]
    told = {note["told"] for note in notes if "told" in note and note["life"] == notes[-1]["life"]}
    return told if len(told) == RUNS else None


def _installed(side: Path) -> Path:
    """A directory with a package that has the sampler."""
    folder = side / "packages"
    about = folder / "noting-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: noting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[turnout.samplers]\nnoting = noting:Noting\n")
    (folder / "noting.py").write_text(SAMPLER)
    return folder
