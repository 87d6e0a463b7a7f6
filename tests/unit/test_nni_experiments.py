"""Experiment files of NNI, in both forms, as searches of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnout.compat.nni.files import from_nni, is_nni
from turnout.errors import InvalidInput
from turnout.plugin.sampler import Goal, Objective, Task
from turnout.plugin.stopper import Watch
from turnout.search.samplers.grid import GridSampler
from turnout.search.samplers.optuna_samplers import GpSampler, Nsga2Sampler, TpeSampler
from turnout.search.samplers.random import RandomSampler
from turnout.search.spaces import read_space
from turnout.search.stoppers.curve import CurveStopper
from turnout.search.stoppers.hyperband import HyperbandStopper
from turnout.search.stoppers.median import MedianStopper
from turnout.search.stoppers.wall_time import WallTimeStopper

EXAMPLE = Path(__file__).parents[2] / "examples" / "nni"

V2 = """
experimentName: bowl
searchSpace: {lr: {_type: uniform, _value: [0, 1]}}
trialCommand: python3 trial.py --x 1
trialConcurrency: 3
maxTrialNumber: 20
tuner: {name: TPE, classArgs: {optimize_mode: maximize}}
trainingService: {platform: local}
"""
V1 = """
authorName: ada
experimentName: bowl
trialConcurrency: 3
maxExecDuration: 1.5h
maxTrialNum: 20
trainingServicePlatform: local
searchSpacePath: space.json
useAnnotation: false
tuner: {builtinTunerName: TPE, classArgs: {optimize_mode: maximize}}
trial: {command: python3 trial.py --x 1, codeDir: ., gpuNum: 0}
"""
SPACE = {"lr": {"_type": "uniform", "_value": [0, 1]}}


def changed(text: str = V2, **values: Any) -> dict[str, Any]:
    """The file with these keys; None = without."""
    content = {**yaml.safe_load(text), **values}
    return {key: value for key, value in content.items() if value is not None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    return tmp_path


def read(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    assert is_nni(content)
    return from_nni(content, folder)


def refused(content: dict[str, Any], folder: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        from_nni(content, folder)
    return f"{caught.value.message} / {caught.value.hint}"


# --- both forms -------------------------------------------------------------------------------------------------------


def test_a_file_of_version_2(folder: Path) -> None:
    found = read(changed(trialGpuNumber=0), folder)
    assert found == {
        "command": ["bash", "-c", "python3 trial.py --x 1"], "code": str(folder), "target": "local",
        "experiment": "bowl", "concurrent": 3, "gpus": 0,
        "search": {
            "space": SPACE, "sampler": {"name": "tpe"}, "maximize": "default", "of": "last", "runs": 20, "prefix": None,
        },
        "notes": [],
    }  # fmt: skip


def test_a_file_of_version_1_is_the_same(folder: Path) -> None:
    old, new = read(changed(V1), folder), read(changed(trialGpuNumber=0, maxExperimentDuration="5400s"), folder)
    assert old == new and old["search"]["max-time"] == "5400s"


@pytest.mark.parametrize("name", ["config.yml", "config_v1.yml"])
def test_the_examples_are_read(name: str) -> None:
    found = read(yaml.safe_load((EXAMPLE / name).read_text()), EXAMPLE)
    assert found["search"]["minimize"] == "default" and found["search"]["seed" if name == "config.yml" else "runs"]
    assert found["search"]["space"]["lr"]["_type"] == "loguniform"


def test_case_and_underscores_of_keys_do_not_count(folder: Path) -> None:
    content = {key.upper() if key != "trialCommand" else "trial_command": value for key, value in changed().items()}
    assert read(content, folder) == read(changed(), folder)


def test_a_search_of_our_own_is_none() -> None:
    assert not is_nni({"command": "x", "search": {"space": {}}})
    assert not is_nni({"lr": {"_type": "uniform", "_value": [0, 1]}})


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "seconds"), [("10m", 600), ("0.5h", 1800), ("2d", 172800), (90, 90), ("1.2s", 2)])
def test_spans_of_time(written: object, seconds: int, folder: Path) -> None:
    assert read(changed(maxExperimentDuration=written), folder)["search"]["max-time"] == f"{seconds}s"


def test_a_trial_over_its_time_is_stopped(folder: Path) -> None:
    assert read(changed(maxTrialDuration="1m"), folder)["search"]["stopper"] == {"name": "wall_time", "seconds": 60}


def test_with_an_assessor_it_has_a_time_limit(folder: Path) -> None:
    found = read(changed(maxTrialDuration="1m", assessor={"name": "Medianstop"}), folder)
    assert found["time"] == "60s" and found["search"]["stopper"]["name"] == "median"
    assert any("maxTrialDuration" in note for note in found["notes"])


@pytest.mark.parametrize("name", ["space.json", "space.yml"])
def test_a_space_in_a_file(name: str, folder: Path) -> None:
    (folder / "space.yml").write_text(yaml.safe_dump(SPACE))
    assert read(changed(searchSpace=None, searchSpaceFile=name), folder)["search"]["space"] == SPACE


def test_numbers_that_yaml_takes_for_text_are_numbers(folder: Path) -> None:
    space = yaml.safe_load("{lr: {_type: loguniform, _value: [1e-4, 1e-1]}, name: {_type: choice, _value: [1e-4]}}")
    found = read(changed(searchSpace=space), folder)["search"]["space"]
    assert found["lr"]["_value"] == [0.0001, 0.1] and found["name"]["_value"] == ["1e-4"]


def test_a_nested_choice_is_read_to_its_end(folder: Path) -> None:
    space = {"layer": {"_type": "choice", "_value": [
        {"_name": "none"}, {"_name": "conv", "width": {"_type": "loguniform", "_value": ["1e0", 9]}},
    ]}}  # fmt: skip
    found = read(changed(searchSpace=space), folder)["search"]["space"]
    assert found["layer"]["_value"][1] == {"_name": "conv", "width": {"_type": "loguniform", "_value": [1.0, 9]}}


def test_the_code_directory_is_found_from_the_file(folder: Path) -> None:
    (folder / "code").mkdir()
    assert read(changed(trialCodeDirectory="code"), folder)["code"] == str(folder / "code")


def test_a_name_becomes_one_that_is_allowed(folder: Path) -> None:
    found = read(changed(experimentName="my first / try"), folder)
    assert found["experiment"] == "my-first-try" and any("experimentName" in note for note in found["notes"])


def test_without_a_limit_it_goes_on_as_long_as_nni_would(folder: Path) -> None:
    found = read(changed(maxTrialNumber=None), folder)
    assert found["search"]["runs"] == 99999 and any("maxTrialNumber" in note for note in found["notes"])


def test_a_batch_has_as_many_trials_as_it_lists(folder: Path) -> None:
    space = {"all": {"_type": "choice", "_value": [{"x": 1}, {"x": 2}]}}
    assert read(changed(maxTrialNumber=None, tuner={"name": "Batch"}, searchSpace=space), folder)["search"]["runs"] == 2


# --- tuners and assessors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sampler", "goal"),
    [
        ("TPE", "tpe", "minimize"), ("tpe", "tpe", "minimize"), ("TPE_legacy", "tpe", "minimize"),
        ("Random", "random", "maximize"), ("GridSearch", "grid", "maximize"), ("Evolution", "nsga2", "maximize"),
        ("GP", "gp", "maximize"), ("GPTuner", "gp", "maximize"), ("BatchTuner", "batch", "maximize"),
    ],
)  # fmt: skip
def test_tuners_and_the_way_they_take_as_better(name: str, sampler: str, goal: str, folder: Path) -> None:
    found = read(changed(tuner={"name": name}), folder)
    assert found["search"]["sampler"]["name"] == sampler and found["search"][goal] == "default"
    assert any("optimize_mode" in note and goal in note for note in found["notes"])


MADE: dict[str, Any] = {
    "tpe": TpeSampler, "random": RandomSampler, "grid": GridSampler, "nsga2": Nsga2Sampler,
    "median": MedianStopper, "curve": CurveStopper, "hyperband": HyperbandStopper, "wall_time": WallTimeStopper,
}  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        {"tuner": {"name": "TPE", "classArgs": {"tpe_args": {"n_startup_jobs": 3, "n_ei_candidates": 9}}}},
        {"tuner": {"name": "Random", "classArgs": {"seed": 3}}},
        {"tuner": {"name": "GridSearch"}},
        {"tuner": {"name": "Evolution", "classArgs": {"population_size": 9}}},
        {"tuner": {"name": "GP", "classArgs": {"cold_start_num": 3}}},
        {"tuner": {"name": "Hyperband"}},
        {"tuner": {"name": "BOHB"}},
        {"assessor": {"name": "Medianstop", "classArgs": {"start_step": 3}}},
        {"assessor": {"name": "Curvefitting"}},
        {"assessor": {"name": "Curvefitting", "classArgs": {"epoch_num": 9, "start_step": 2, "gap": 2}}},
        {"maxTrialDuration": "1m"},
    ],
)
def test_samplers_and_stoppers_take_the_options_that_come_out(values: dict[str, Any], folder: Path) -> None:
    search = read(changed(**values), folder)["search"]
    objective = Objective("default", Goal("minimize" if "minimize" in search else "maximize"))
    name, options = search["sampler"].pop("name"), search["sampler"]
    if name == "gp":  # to make one takes torch
        assert options.keys() <= GpSampler.options.keys()
    else:
        MADE[name](Task(read_space(search["space"]), (objective,), 0, options))
    if "stopper" in search:
        MADE[search["stopper"].pop("name")](Watch(objective, search["stopper"]))


def test_arguments_of_tuners(folder: Path) -> None:
    args = {"optimize_mode": "minimize", "seed": 7, "tpe_args": {"n_startup_jobs": 5, "gamma": 0.5}}
    search = (found := read(changed(tuner={"name": "TPE", "classArgs": args}), folder))["search"]
    assert search["sampler"] == {"name": "tpe", "n_startup_trials": 5} and search["seed"] == 7
    assert any("gamma" in note for note in found["notes"])
    search = read(changed(tuner={"name": "Evolution", "classArgs": {"population_size": 9}}), folder)["search"]
    assert search["sampler"] == {"name": "nsga2", "population_size": 9}


def test_a_grid_is_as_fine_as_its_trials_allow(folder: Path) -> None:
    space = {"a": {"_type": "choice", "_value": [1, 2]}, **SPACE, "b": {"_type": "normal", "_value": [0, 1]}}
    found = read(changed(tuner={"name": "GridSearch"}, searchSpace=space), folder)
    assert found["search"]["sampler"] == {"name": "grid", "points": 4}  # 2 * 4 * 4 is the first above 20


@pytest.mark.parametrize(
    ("args", "options"),
    [({}, {"min_runs": 1}), ({"start_step": 5}, {"min_runs": 1, "start": 4})],
)
def test_medianstop(args: dict[str, Any], options: dict[str, Any], folder: Path) -> None:
    found = read(changed(assessor={"name": "Medianstop", "classArgs": args}), folder)
    assert found["search"]["stopper"] == {"name": "median", **options}


def test_curvefitting(folder: Path) -> None:
    args = {"epoch_num": 50, "threshold": 0.9}
    found = read(changed(assessor={"name": "Curvefitting", "classArgs": args}), folder)
    assert found["search"]["stopper"] == {"name": "curve", "epochs": 49, "start": 5, "threshold": 0.9}


def test_hyperband_is_a_sampler_and_a_stopper(folder: Path) -> None:
    found = read(changed(tuner={"name": "Hyperband", "classArgs": {"R": 27, "eta": 3}}), folder)["search"]
    assert found["sampler"] == {"name": "random"}
    assert found["stopper"] == {"name": "hyperband", "max_resource": 27, "eta": 3}
    assert found["space"]["TRIAL_BUDGET"] == {"_type": "choice", "_value": [27]}


def test_an_advisor_is_a_tuner(folder: Path) -> None:
    found = read(changed(tuner=None, advisor={"name": "BOHB", "classArgs": {"max_budget": 9}}), folder)["search"]
    assert found["sampler"]["name"] == "tpe" and found["stopper"]["min_resource"] == 1 and found["maximize"]


@pytest.mark.parametrize(
    ("place", "path"), [("", "mine:Mine"), ("algorithms", "algorithms/mine:Mine"), ("a/b", "a/b/mine:Mine")]
)
def test_a_tuner_of_ones_own(place: str, path: str, folder: Path) -> None:
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / "mine.py").write_text("")
    args = {"optimize_mode": "minimize", "width": 2}
    new = {"className": "mine.Mine", "codeDirectory": place or ".", "classArgs": args}
    old = {"className": "Mine", "classFileName": "mine.py", "codeDir": place or ".", "classArgs": args}
    for found in (read(changed(tuner=new), folder), read(changed(V1, tuner=old), folder)):
        assert found["search"]["sampler"] == {"name": path, **args} and found["search"]["minimize"] == "default"


def test_an_installed_class(folder: Path) -> None:
    tuner = {"className": "nni.algorithms.hpo.smac_tuner.SMACTuner"}
    assert read(changed(tuner=tuner), folder)["search"]["sampler"]["name"] == "nni.algorithms.hpo.smac_tuner:SMACTuner"


def test_the_tuner_says_which_way_is_better_unless_both_say_it(folder: Path) -> None:
    median = {"name": "Medianstop"}
    assert "minimize" in read(changed(tuner={"name": "TPE"}, assessor=median), folder)["search"]
    said = {"name": "Medianstop", "classArgs": {"optimize_mode": "minimize"}}
    assert "minimize" in read(changed(tuner={"name": "Random"}, assessor=said), folder)["search"]
    assert "optimize_mode" in refused(changed(assessor=said), folder)


# --- what is wrong is told --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"trialConcurency": 2}, "trialConcurency: NNI has no such key / did you mean 'trialConcurrency'?"),
        ({"trialConcurrency": None}, "trialConcurrency: it is missing"),
        ({"trialConcurrency": 0}, "trialConcurrency: 0"),
        ({"trialConcurrency": True}, "trialConcurrency: True"),
        ({"trialCommand": None}, "trialCommand: it is missing"),
        ({"trialCodeDirectory": "nowhere"}, "trialCodeDirectory: there is no directory 'nowhere'"),
        ({"maxTrialDuration": "ten"}, "maxTrialDuration: 'ten'"),
        ({"maxExperimentDuration": "0s"}, "maxExperimentDuration: '0s'"),
        ({"searchSpace": None}, "there is no search space / write either searchSpace or searchSpaceFile"),
        ({"searchSpaceFile": "space.json"}, "there are two search spaces"),
        ({"searchSpace": None, "searchSpaceFile": "no.json"}, "no.json cannot be read: No such file"),
        ({"searchSpace": {"lr": [1, 2]}}, "searchSpace: lr: it has no _type"),
        ({"searchSpace": {}}, "searchSpace: no parameter"),
        ({"tuner": None}, "tuner: it is missing"),
        ({"tuner": {"name": "TPF"}}, "tuner.name: NNI has no tuner 'TPF' / did you mean 'TPE'?"),
        ({"tuner": {"name": "SMAC"}}, "className: nni.algorithms.hpo.smac_tuner.SMACTuner"),
        ({"tuner": {"name": "PBT"}}, "checkpoints"),
        ({"tuner": {"name": "TPE", "classArgs": {"sed": 1}}}, "tuner.classArgs.sed: TPE has no such argument"),
        ({"tuner": {"name": "TPE", "classArgs": {"optimize_mode": "max"}}}, "write maximize or minimize"),
        ({"tuner": {"className": "mine.Mine", "codeDirectory": "."}}, "tuner.className: there is no module mine"),
        ({"assessor": {"name": "Median"}}, "did you mean 'Medianstop'?"),
        ({"assessor": {"name": "SMAC"}}, "NNI has no assessor 'SMAC'"),
        ({"tuner": {"name": "BOHB"}, "assessor": {"name": "Medianstop"}}, "this tuner ends trials itself"),
        ({"trainingService": None}, "trainingService: it is missing"),
        ({"trainingService": {"platform": "aml", "subscriptionId": 1}}, "'aml' is not served here"),
        ({"trainingService": {"platform": "local", "gpuIndex": 1}}, "trainingService.gpuIndex: NNI has no such key"),
        ({"trainingService": {"platform": "remote"}}, "machineList: there is no machine in it"),
        ({"trainingService": {"platform": "remote", "machineList": [{"user": "a"}]}}, "host of a machine is missing"),
        ({"useAnnotation": True}, "useAnnotation: annotations in code are not read"),
        ({"experimentType": "nas"}, "experimentType: only hpo"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_key(values: dict[str, Any], said: str, folder: Path) -> None:
    assert said in refused(changed(**values), folder)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"maxTrialNum": 0}, "maxTrialNum: 0"),
        ({"maxExecDuration": "x"}, "maxExecDuration: 'x'"),
        ({"searchSpacePath": "no.json"}, "searchSpacePath: "),
        ({"trial": {"comand": "x"}}, "trial.comand: NNI has no such key / did you mean 'command'?"),
        ({"trial": {"command": "x", "gpuNum": -1}}, "trial.gpuNum: -1"),
        ({"multiPhase": True}, "multiPhase: "),
        ({"trainingServicePlatform": "pai", "paiConfig": {}}, "trainingServicePlatform: 'pai' is not served here"),
    ],
)
def test_in_version_1_it_is_the_key_of_version_1(values: dict[str, Any], said: str, folder: Path) -> None:
    assert said in refused(changed(V1, **values), folder)


LARGE = 10**400
CYCLE: dict[str, Any] = {"_type": "choice", "_value": [{"_name": "deeper"}]}
CYCLE["_value"][0]["again"] = CYCLE


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"trialCodeDirectory": "~nosuchuser/x"}, "trialCodeDirectory: there is no directory '~nosuchuser/x'"),
        ({"trialCodeDirectory": "x" * 5000}, "trialCodeDirectory: there is no directory"),
        ({"trialCodeDirectory": "a\0b"}, "trialCodeDirectory: there is no directory"),
        ({"searchSpace": {"lr": {"_type": ["x"], "_value": [1]}}}, "searchSpace: lr: it has no _type"),
        ({"searchSpace": {"lr": CYCLE}}, "searchSpace: it has no end"),
        ({"searchSpace": None, "searchSpaceFile": "a\0b"}, "searchSpaceFile: "),
        ({"searchSpace": None, "searchSpaceFile": "x" * 5000}, "searchSpaceFile: "),
        ({"searchSpace": None, "searchSpaceFile": "~nosuchuser/x"}, "searchSpaceFile: ~nosuchuser/x cannot be read"),
        ({"maxExperimentDuration": "9" * 400 + "s"}, "maxExperimentDuration: '999"),
        ({"maxExperimentDuration": LARGE}, "maxExperimentDuration: 1000"),
        ({"maxTrialDuration": float("inf")}, "maxTrialDuration: inf"),
        ({"maxTrialDuration": float("nan")}, "maxTrialDuration: nan"),
        ({"tuner": {"name": "GridSearch"}, "maxTrialNumber": LARGE}, "maxTrialNumber: 1000"),
        ({"maxTrialNumber": LARGE**20}, "maxTrialNumber: a number of that length"),
        ({"trialConcurrency": LARGE}, "trialConcurrency: 1000"),
        ({"tuner": {"name": "Hyperband", "classArgs": {"R": LARGE}}}, "tuner.classArgs: max"),
        ({"trainingService": []}, "trainingService: it is missing"),
        ({"trialGpuNumber": 1, "trainingService": {"platform": "local", "gpuIndices": [float("inf")]}}, "gpuIndices: "),
        ({"tuner": {"className": "x" * 5000 + ".Mine", "codeDirectory": "."}}, "there is no module"),
        ({"tuner": {"className": "..Mine", "codeDirectory": "."}}, "is no module and class"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_as_well(values: dict[str, Any], said: str, folder: Path) -> None:
    assert said in refused(changed(**values), folder)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 3000], ids=["digits", "depth"])
def test_what_no_program_can_read_is_told(value: str, folder: Path) -> None:
    (folder / "space.yml").write_text(f"lr: {value}")
    assert "space.yml: it is neither JSON nor YAML" in refused(
        changed(searchSpace=None, searchSpaceFile="space.yml"), folder
    )


def test_the_line_of_a_broken_space_is_told(folder: Path) -> None:
    (folder / "space.yml").write_text("lr: {_type: uniform\nx: [")
    assert "space.yml:2:" in refused(changed(searchSpace=None, searchSpaceFile="space.yml"), folder)
