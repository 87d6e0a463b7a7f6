"""The tuners and assessors of NNI itself, driven as samplers and stoppers, in the Python that has NNI."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.nni_library import nni_python

SOURCE = Path(__file__).parents[2] / "src"
HPO = "nni.algorithms.hpo"

#: Asks and tells for so many runs, two at once; in the middle, another instance takes over. Prints the parameters.
SEARCH = """
import importlib, json, sys
from turnout.compat.nni.tuners import tuner_sampler
from turnout.plugin.sampler import Exhausted, Objective, Outcome, Result, Task
from turnout.search.spaces.nni import read

asked = json.loads(sys.argv[1])
module, _, name = asked["class"].rpartition(".")
found = getattr(importlib.import_module(module), name)
task = Task(read(asked["space"]), (Objective("default"),), 3, asked["options"])
sampler, made, results = tuner_sampler(found, task), {}, {}

def told(index):
    value = float(len(json.dumps(made[index].params))) / index
    results[index] = Result(index, made[index], Outcome.COMPLETED, (value,))
    return results[index]

is_over = False
for index in range(1, asked["runs"] + 1):
    if index == asked["runs"] // 2:
        sampler = tuner_sampler(found, task)
        for result in results.values():
            sampler.tell(result)
        for one in made.keys() - results.keys():
            sampler.adopt(one, made[one])
    try:
        proposal = sampler.ask(index)
        while proposal is None and made.keys() - results.keys():
            sampler.tell(told(min(made.keys() - results.keys())))
            proposal = sampler.ask(index)
    except Exhausted:
        is_over = True
        break
    made[index] = proposal
    if index > 2:
        sampler.tell(told(index - 2) if index - 2 not in results else told(min(made.keys() - results.keys())))
print(json.dumps({"params": [dict(each.params) for each in made.values()], "is_over": is_over}))
"""
SPACE = {
    "a": {"_type": "choice", "_value": ["x", "y", "z"]},
    "b": {"_type": "randint", "_value": [1, 4]},
}
WIDE = {
    **SPACE,
    "c": {"_type": "uniform", "_value": [0, 1]}, "d": {"_type": "loguniform", "_value": [0.001, 1]},
    "e": {"_type": "quniform", "_value": [0, 1, 0.25]}, "f": {"_type": "normal", "_value": [0, 1]},
    "g": {"_type": "choice", "_value": [
        {"_name": "none"}, {"_name": "one", "h": {"_type": "uniform", "_value": [5, 6]}},
    ]},
}  # fmt: skip


def run(code: str, **asked: Any) -> Any:
    done = subprocess.run(
        [nni_python(), "-c", code, json.dumps(asked)], capture_output=True, text=True, timeout=100,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("random_tuner.RandomTuner", {}),
        ("tpe_tuner.TpeTuner", {"tpe_args": {"n_startup_jobs": 5}}),
        ("gridsearch_tuner.GridSearchTuner", {}),
        ("evolution_tuner.EvolutionTuner", {"population_size": 4}),
    ],
)
def test_a_tuner_of_nni_makes_all_runs_of_a_search(path: str, options: dict[str, Any]) -> None:
    found = run(SEARCH, **{"class": f"{HPO}.{path}"}, space=WIDE, options=options, runs=24)
    assert len(found["params"]) == 24 and not found["is_over"]
    for params in found["params"]:
        assert params["a"] in ("x", "y", "z") and params["b"] in (1, 2, 3) and 0 <= params["c"] <= 1
        assert 0.001 <= params["d"] <= 1 and params["e"] in (0, 0.25, 0.5, 0.75, 1)
        assert params["g"]["_name"] == "none" or 5 <= params["g"]["h"] <= 6


def test_a_grid_of_nni_tries_each_point_once_across_a_restart() -> None:
    found = run(SEARCH, **{"class": f"{HPO}.gridsearch_tuner.GridSearchTuner"}, space=SPACE, options={}, runs=20)
    assert found["is_over"] and len(found["params"]) == 9
    assert len({json.dumps(each, sort_keys=True) for each in found["params"]}) == 9


def test_a_batch_of_nni_is_tried_once_across_a_restart() -> None:
    listed = [{"x": number, "y": "text"} for number in range(8)]
    space = {"all": {"_type": "choice", "_value": listed}}
    found = run(SEARCH, **{"class": f"{HPO}.batch_tuner.BatchTuner"}, space=space, options={}, runs=10)
    assert found["is_over"] and sorted(each["x"] for each in found["params"]) == list(range(8))


ASSESS = """
import json, sys
from nni.algorithms.hpo.medianstop_assessor import MedianstopAssessor
from turnout.compat.nni.assessors import assessor_stopper
from turnout.plugin.sampler import Goal, Objective, Outcome
from turnout.plugin.stopper import Point, Watch

stopper = assessor_stopper(MedianstopAssessor, Watch(Objective("default", Goal.MINIMIZE), {"start_step": 2}))
for run in (1, 2, 3):
    points = [Point(step, run + 0.1 * step) for step in range(5)]
    for end in range(1, 6):
        stopper.judge(run, points[:end], 1.0)
    stopper.ended(run, points, Outcome.COMPLETED)
bad, good = [Point(0, 9.0), Point(1, 9.0)], [Point(0, 0.5), Point(1, 0.5)]
print(json.dumps([stopper.judge(4, bad[:1], 1.0), stopper.judge(4, bad, 1.0), stopper.judge(5, good, 1.0)]))
"""


def test_an_assessor_of_nni_ends_what_is_worse_than_the_others() -> None:
    early, bad, good = run(ASSESS)
    assert early is None and "MedianstopAssessor" in bad and good is None
