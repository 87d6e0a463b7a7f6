"""Experiments of NNI through the command line: files in both forms, trials as they are, tuners of one's own."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import turnout
from tests.harness import Cli, user_environment
from tests.nni_library import nni_python
from turnout.compat.nni import TrainingService, TrialJobApplicationForm

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "nni"

#: Writes beside the runs what it saw, then reports its numbers; "wait" has it stay until somebody ends it.
TRIAL = """
import json, os, pathlib, time
import nni

params = nni.get_next_parameter()
seen = {
    "params": params, "id": nni.get_trial_id(), "sequence": nni.get_sequence_id(),
    "cwd": os.getcwd(), "env": {key: value for key, value in os.environ.items() if key.startswith("NNI_")},
}
(pathlib.Path(os.environ["SEEN"]) / nni.get_trial_id()).write_text(json.dumps(seen))
for value in params.get("reports", [params.get("x", 0.0)]):
    nni.report_intermediate_result(value)
print("reported")
while params.get("wait"):
    time.sleep(0.05)
pathlib.Path(os.environ["NNI_OUTPUT_DIR"], "done.txt").write_text("done")
nni.report_final_result({"default": params.get("x", 0.0), "twice": 2 * params.get("x", 0.0)})
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """Where trials write what they saw."""
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def with_library(project: Path) -> str:
    """The command of a trial that finds NNI's library, or what stands in for it."""
    (project / "library").mkdir()
    shutil.copyfile(ROOT / "tests" / "nni_stand_in.py", project / "library" / "nni.py")
    return f"PYTHONPATH=library {sys.executable}"


def experiment(project: Path, seen: Path, **values: Any) -> Path:
    (project / "trial.py").write_text(TRIAL)
    content = {
        "experimentName": "lab", "trialCommand": f"SEEN={seen} {with_library(project)} trial.py",
        "trialConcurrency": 2, "trialGpuNumber": 0, "trainingService": {"platform": "local"}, **values,
    }  # fmt: skip
    path = project / "nni.yml"
    path.write_text(yaml.safe_dump(content))
    return path


def batch(*params: dict[str, Any]) -> dict[str, Any]:
    """Trials with exactly these parameters."""
    return {"searchSpace": {"all": {"_type": "choice", "_value": list(params)}}, "tuner": {"name": "Batch"}}


def children(user: Cli, job: str) -> list[dict[str, Any]]:
    found = user.json("list", "runs", job, "-n", "1000")
    return sorted((each for each in found if "." in each["name"]), key=lambda each: int(each["name"].split(".")[1]))


def search(user: Cli, path: Path, *options: str) -> list[dict[str, Any]]:
    """Its runs, once they are over."""
    user("search", str(path), "--wait", *options, timeout=100)
    (job, *_) = user.json("list", "jobs", "-n", "1")
    return children(user, job["name"])


# --- trials as they are -----------------------------------------------------------------------------------------------


def test_a_trial_gets_its_parameters_and_its_reports_are_metrics(user: Cli, project: Path, seen: Path) -> None:
    runs = search(user, experiment(project, seen, **batch({"x": 1.5, "reports": [3, 2.5]}, {"x": 4.0})))
    assert [run["state"] for run in runs] == ["completed", "completed"]
    for number, run in enumerate(runs):
        told = json.loads((seen / run["name"]).read_text())
        assert told["params"] == user.json("show", run["name"])["params"]
        assert (told["id"], told["sequence"]) == (run["name"], number)
    points = user.json("metrics", runs[0]["name"])
    assert [(each["step"], each["value"]) for each in points["default"]] == [(0, 3.0), (1, 2.5), (2, 1.5)]
    assert [each["value"] for each in points["twice"]] == [3.0]


def test_a_trial_is_where_its_files_are_and_what_it_prints_is_its_output(user: Cli, project: Path, seen: Path) -> None:
    (run,) = search(user, experiment(project, seen, **batch({"x": 1.0})))
    told = json.loads((seen / run["name"]).read_text())
    assert told["env"]["NNI_CODE_DIR"] == told["cwd"] and told["env"]["NNI_PLATFORM"] == "local"
    assert user("logs", run["name"]).stdout == "reported\n"
    user("extract", run["name"], str(project / "kept"))
    assert [path.read_text() for path in (project / "kept").rglob("done.txt")] == ["done"]


def test_many_trials_keep_to_their_own_parameters(user: Cli, project: Path, seen: Path) -> None:
    values = {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "Random"}}
    runs = search(user, experiment(project, seen, **values, maxTrialNumber=20, trialConcurrency=4))
    assert len(runs) == 20
    for run in runs:
        x = json.loads((seen / run["name"]).read_text())["params"]["x"]
        assert user.json("show", run["name"])["params"] == {"x": x}
        assert user.json("metrics", run["name"])["default"][-1]["value"] == x
    assert len({(seen / run["name"]).read_text() for run in runs}) == 20


def test_a_trial_that_is_run_again_gets_its_parameters_and_its_reports_are_metrics(
    user: Cli, project: Path, seen: Path
) -> None:
    runs = search(user, experiment(project, seen, **batch({"x": 1.5}, {"x": 4.0, "reports": [7.0]})))
    again = user.json("rerun", runs[1]["name"], "--wait")["name"]
    assert json.loads((seen / again).read_text())["params"] == {"x": 4.0, "reports": [7.0]}
    points = user.json("metrics", again)["default"]
    assert [(each["step"], each["value"]) for each in points] == [(0, 7.0), (1, 4.0)]


def test_trials_of_a_target_that_is_driven_through_the_interface(
    user: Cli, project: Path, seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each knows which it is, and what its script reports is what listeners hear."""
    for name, value in user_environment(user.home).items():
        monkeypatch.setenv(name, value)
    (project / "trial.py").write_text(TRIAL)
    command = f"SEEN={seen} {with_library(project)} trial.py"
    heard = drive(user, project, command, {"x": 1.5}, {"x": 2.5})
    for number, (trial, told) in enumerate(heard.items()):
        saw = json.loads((seen / trial).read_text())
        assert saw["params"] == {"x": number + 1.5} and saw["sequence"] == number
        assert [(each["type"], json.loads(each["value"])) for each in told][-1] == (
            "FINAL", {"default": number + 1.5, "twice": 2 * number + 3.0},
        )  # fmt: skip


def drive(user: Cli, code: Path, command: str, *params: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Trials through a service of the target ``local``, to their ends, and what was heard of each."""
    service = TrainingService.on("local", command=command, code_directory=str(code), client=turnout.Client(user.home))
    heard: dict[str, list[dict[str, Any]]] = {}

    async def main() -> None:
        service.add_trial_job_metric_listener(lambda metric: heard[metric.id].append(json.loads(metric.data)))
        for each in params:
            heard[(await service.submit_trial_job(TrialJobApplicationForm.of(each))).id] = []
        while not all(each.status.is_final for each in await service.list_trial_jobs()):
            await asyncio.sleep(0.05)

    asyncio.run(main())
    return heard


# --- early ends -------------------------------------------------------------------------------------------------------


def test_an_assessor_ends_a_trial_and_its_metrics_are_kept(user: Cli, project: Path, seen: Path) -> None:
    good = {"x": 1.0, "reports": [1.0, 1.0]}
    values = batch(good, good, {"x": 9.0, "reports": [9.0, 9.0], "wait": True})
    median = {"name": "Medianstop", "classArgs": {"optimize_mode": "minimize", "start_step": 1}}
    runs = search(user, experiment(project, seen, **values, assessor=median, trialConcurrency=1))
    assert [run["state"] for run in runs] == ["completed", "completed", "stopped"]
    assert [each["value"] for each in user.json("metrics", runs[2]["name"])["default"]] == [9.0, 9.0]


def test_a_trial_over_its_time_is_stopped(user: Cli, project: Path, seen: Path) -> None:
    runs = search(user, experiment(project, seen, **batch({"x": 1.0, "wait": True}), maxTrialDuration="1s"))
    assert [run["state"] for run in runs] == ["stopped"]


# --- files ------------------------------------------------------------------------------------------------------------


def example(project: Path, name: str, command: str) -> Path:
    """A copy of the example whose trials are this command."""
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
    path = project / name
    path.write_text(path.read_text().replace("python3 trial.py", f"{command} trial.py"))
    return path


@pytest.mark.parametrize("name", ["config.yml", "config_v1.yml"])
def test_the_example_runs_in_both_forms(name: str, user: Cli, project: Path) -> None:
    runs = search(user, example(project, name, with_library(project)))
    assert len(runs) == 8 and {run["state"] for run in runs} <= {"completed", "stopped"}
    (job, *_) = user.json("list", "jobs", "-n", "1")
    (top, *_) = user.json("best", job["name"])
    values = [user.json("metrics", run["name"])["default"][-1]["value"] for run in runs]
    assert top["values"] == [min(values)]


def test_what_was_chosen_for_want_of_a_word_is_told(user: Cli, project: Path, seen: Path) -> None:
    values = {"searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, "tuner": {"name": "TPE"}}
    done = user("search", str(experiment(project, seen, **values, maxTrialNumber=1)), "--dry-run")
    assert "optimize_mode" in done.stdout + done.stderr and "minimize" in done.stdout + done.stderr


def test_a_mistake_is_told_with_file_and_key(user: Cli, project: Path, seen: Path) -> None:
    path = experiment(project, seen, **batch({"x": 1}), trialConcurency=2)
    done = user("search", str(path), check=False)
    assert done.returncode == 2 and "nni.yml" in done.stderr and "did you mean 'trialConcurrency'?" in done.stderr


# --- NNI itself -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_trials_with_nni_itself(user: Cli, project: Path) -> None:
    runs = search(user, example(project, "config.yml", nni_python()), "--runs", "2")
    assert len(runs) == 2 and {run["state"] for run in runs} == {"completed"}
    for run in runs:
        points = user.json("metrics", run["name"])
        assert len(points["default"]) == 21 and points["steps"][0]["value"] == 20
        assert "ended at" in user("logs", run["name"]).stdout, "what it prints is its output"
    again = user.json("rerun", runs[0]["name"], "--wait", timeout=100)["name"]
    assert values_of(user, again) == values_of(user, runs[0]["name"])


@pytest.mark.slow
def test_trials_with_nni_itself_through_the_interface(
    user: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in user_environment(user.home).items():
        monkeypatch.setenv(name, value)
    shutil.copytree(EXAMPLE, project, dirs_exist_ok=True)
    heard = drive(user, project, f"{nni_python()} trial.py", {"lr": 0.1, "momentum": 0.5, "decay": "linear"})
    ((trial, told),) = heard.items()
    assert len(values_of(user, trial)) == 21 and told[-1]["type"] == "FINAL"
    assert json.loads(told[-1]["value"]) == {"default": values_of(user, trial)[-1], "steps": 20}


def values_of(user: Cli, run: str) -> list[float]:
    return [each["value"] for each in user.json("metrics", run)["default"]]
