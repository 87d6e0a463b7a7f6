"""A TrainingService as a target, and a target as a TrainingService: through the command line, with real hubs and
agents. The service is the one that ``turnout provider new`` writes, which starts trials from a queue of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import turnout
from tests.harness import Cli, processes_of, wait_until
from turnout.compat.nni import NotFound, TrainingService, TrialJobApplicationForm, TrialJobMetric, TrialJobStatus

pytestmark = pytest.mark.timeout(120)

SETTINGS = """
compute-targets:
    yard: {service: yard, metadata: {machine_room: {number: 7}, local_config: "as it is"}}
providers:
    compute: {yard: "platform_of_mine.YardService"}
"""
#: Notes every call of the class beside what it does.
NOTED = """

def _noted(name, method):
    import functools, inspect
    def note(*given):
        with open(os.path.join(os.path.dirname(__file__), "calls.jsonl"), "a") as file:
            file.write(json.dumps([name, *map(str, given)]) + "\\n")
    @functools.wraps(method)
    async def later(self, *given):
        note(*given)
        return await method(self, *given)
    @functools.wraps(method)
    def at_once(self, *given):
        note(*given)
        return method(self, *given)
    return later if inspect.iscoroutinefunction(method) else at_once

for _name in ("submit_trial_job", "cancel_trial_job", "set_cluster_metadata", "clean_up", "run", "__init__"):
    setattr(YardService, _name, _noted(_name, getattr(YardService, _name)))
"""


@pytest.fixture
def project(cli: Cli) -> Path:
    text = (files("turnout") / "client" / "skeletons" / "training_service.py.txt").read_text()
    text = text.replace("@Class@", "Yard").replace("@name@", "yard")
    (cli.cwd / "platform_of_mine.py").write_text(text + NOTED)
    (cli.cwd / "turnout.yaml").write_text(SETTINGS)
    (cli.cwd / ".gitignore").write_text("calls.jsonl\n")
    return cli.cwd


def calls(cli: Cli, name: str) -> list[list[str]]:
    """What that method was called with, each time."""
    try:
        noted = [json.loads(line) for line in (cli.cwd / "calls.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return []
    return [given for called, *given in noted if called == name]


def test_a_run_from_submit_to_end(cli: Cli, project: Path) -> None:
    """Status, output, metrics, files and the exit code are the run's own, and its service's name for it is shown."""
    (project / "train.py").write_text(
        "import turnout\nprint('hello')\nturnout.log(loss=0.5)\n(turnout.output_dir() / 'model').write_text('w')\n"
    )
    view = cli.json("run", "--wait", "--target", "yard", "train.py")
    assert (view["state"], view["exit_code"], view["target"]) == ("completed", 0, "yard")
    assert view["metrics"] == {"loss": 0.5} and cli("logs", "run1").stdout == "hello\n"
    shown = cli.json("show", "run1")
    assert len(shown["service_job_id"]) == 8, "the trial's id"
    cli("extract", "run1", str(project.parent / "got"))
    assert list((project.parent / "got" / "after").rglob("model")), "what it left is kept"
    done = cli("run", "--wait", "--target", "yard", "bash", "-c", "exit 3", check=False)
    assert done.returncode == 3 and cli.json("show", "run2")["state"] == "failed"


def test_it_is_told_of_the_platform_before_the_first_trial(cli: Cli, project: Path) -> None:
    cli("run", "--wait", "--target", "yard", "true")
    told = dict(calls(cli, "set_cluster_metadata"))
    config = json.loads(told.pop("trial_config"))
    assert told == {
        "nni_manager_ip": '{"nniManagerIp": "127.0.0.1"}', "version_check": "false", "log_collection": "none",
        "multiPhase": "false", "machine_room": '{"number": 7}', "local_config": "as it is",
    }  # fmt: skip
    assert config["command"].endswith(" -- true") and config["gpuNum"] == 0 and os.path.isabs(config["codeDir"])
    assert [name for name, *_ in map(json.loads, (project / "calls.jsonl").read_text().splitlines())].index(
        "submit_trial_job"
    ) > 6


def test_each_run_is_a_trial_with_its_own_command(cli: Cli, project: Path) -> None:
    """Although all that this service knows of commands is what it was told last."""
    (project / "lines").write_text("".join(f"echo {each}\n" for each in range(5)))
    assert cli.json("run", "--wait", "--target", "yard", "--multi", "lines")["counts"] == {"completed": 5}
    assert [cli("logs", f"run{each + 1}").stdout for each in range(5)] == [f"{each}\n" for each in range(5)]
    assert len({cli.json("show", f"run{each + 1}")["service_job_id"] for each in range(5)}) == 5
    assert len(calls(cli, "submit_trial_job")) == 5


def test_a_person_cancels(cli: Cli, project: Path) -> None:
    """The service is asked for it, and its processes are gone; then it is cleaned up."""
    cli("run", "-d", "--target", "yard", "bash", "-c", f"touch {project}/begun; exec sleep 600")
    wait_until((project / "begun").exists)
    (told,) = cli.json("cancel", "run", "run1")
    assert told["run"] == "run1" and told["service"]["before_status"] in ("running", "failed")
    assert cli.json("show", "run1")["state"] == "cancelled" or wait_until(
        lambda: cli.json("show", "run1")["state"] == "cancelled"
    )
    wait_until(lambda: calls(cli, "clean_up"))
    assert not [each for each in processes_of(cli.home) if b"sleep" in Path(f"/proc/{each}/cmdline").read_bytes()]


def test_a_service_is_cleaned_up_when_nothing_is_left_and_made_anew(cli: Cli, project: Path) -> None:
    cli("run", "--wait", "--target", "yard", "true")
    wait_until(lambda: len(calls(cli, "clean_up")) == 1)
    cli("run", "--wait", "--target", "yard", "true")
    wait_until(lambda: len(calls(cli, "clean_up")) == 2)
    assert len(calls(cli, "run")) == 2


def test_runs_outlive_the_hub_and_the_process_of_their_service(cli: Cli, project: Path) -> None:
    """A service that keeps all it knows to itself knows nothing afterwards; what it started tells of itself."""
    waits = f"touch {project}/begun; until [ -e {project}/go ]; do sleep 0.1; done; echo on"
    cli("run", "-d", "--target", "yard", "bash", "-c", waits)
    wait_until((project / "begun").exists)
    os.kill(int(cli.json("hub", "status")["pid"]), signal.SIGKILL)
    assert cli.json("show", "run1")["state"] == "running"
    (project / "go").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed")
    assert cli("logs", "run1").stdout == "on\n" and cli.json("show", "run1")["attempts"] == 1


def test_what_waited_in_the_memory_of_a_service_is_tried_again_without_it(cli: Cli, project: Path) -> None:
    """It was in no queue but that of a process which is gone."""
    path = project / "platform_of_mine.py"
    closed = f"while os.path.exists('{project}/open') and self._queue and"
    path.write_text(path.read_text().replace("while self._queue and", closed, 1))
    cli("run", "-d", "--target", "yard", "echo", "on")
    wait_until(lambda: cli.json("show", "run1")["service_job_id"])
    os.kill(int(cli.json("hub", "status")["pid"]), signal.SIGKILL)
    wait_until(lambda: not processes_of(cli.home))
    (project / "open").touch()
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed")
    assert cli("logs", "run1").stdout == "on\n" and len(calls(cli, "submit_trial_job")) == 2


def test_a_status_is_that_of_the_service_which_has_the_trials(cli: Cli, project: Path) -> None:
    cli("run", "-d", "--target", "yard", "bash", "-c", f"touch {project}/begun; exec sleep 600")
    wait_until((project / "begun").exists)
    trial = wait_until(lambda: cli.json("show", "run1")["service_job_id"])
    assert cli("status", "--target", "yard").stdout.endswith(f"\n{trial}  RUNNING\n")
    assert len(calls(cli, "run")) == 1, "no other instance began"
    cli("cancel", "run", "run1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("async def clean_up", "async def tidy_up"), "has not all methods of NNI's TrainingService: clean_up"),
        (("self._most = most", "raise OSError('no licence')"), "cannot be made: OSError: no licence"),
        (("import asyncio", "import asyncio, nothing_of_that_name"), "No module named 'nothing_of_that_name'"),
    ],
)
def test_a_class_that_cannot_be_used_is_told_at_once(
    cli: Cli, project: Path, change: tuple[str, str], said: str
) -> None:
    path = project / "platform_of_mine.py"
    path.write_text(path.read_text().replace(*change, 1).replace(NOTED, ""))
    done = cli("run", "--target", "yard", "true", check=False)
    assert done.returncode == 7 and said in done.stderr, done.stderr


def test_a_trial_that_cannot_be_submitted_waits_and_says_why(cli: Cli, project: Path) -> None:
    path = project / "platform_of_mine.py"
    path.write_text(path.read_text().replace("trial = Trial", "raise OSError('no room')\n        trial = Trial", 1))
    cli("run", "-d", "--target", "yard", "true")
    wait_until(lambda: "no room" in cli("why", "run1").stdout)


def test_a_main_loop_that_breaks_is_told(cli: Cli, project: Path) -> None:
    path = project / "platform_of_mine.py"
    path.write_text(path.read_text().replace("running = [", "raise OSError('no platform')\n            running = [", 1))
    cli("run", "-d", "--target", "yard", "true")
    wait_until(lambda: "no platform" in cli("why", "run1").stdout)


@pytest.mark.slow
def test_new_writes_a_service_that_works_as_it_is(cli: Cli) -> None:
    """Its tests pass, and its README says how it becomes a target."""
    made = cli.json("provider", "new", "my-yard", "--training-service")
    directory = Path(made["directory"])
    assert made["class"] == "turnout_provider_my_yard.MyYardService"
    env = {**os.environ, "PYTHONPATH": str(directory / "src")}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "skipped" not in done.stdout, done.stdout
    settings = re.findall(r"```yaml\n(.*?)```", (directory / "README.md").read_text(), re.DOTALL)
    (cli.cwd / "turnout.yaml").write_text(*settings)
    view = cli.json("run", "--wait", "--target", "trial", "true", env={"PYTHONPATH": str(directory / "src")})
    assert view["state"] == "completed"
    done = cli("provider", "new", "other", "--batch", "--training-service", check=False)
    assert done.returncode == 2 and "exclude each other" in done.stderr


TRIAL = """
import json, turnout
for step, loss in enumerate([0.5, 0.25]):
    turnout.log(step=step, loss=loss * turnout.params()["scale"])
"""


def test_a_target_as_a_training_service(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trials are runs with parameters, and what they log comes to listeners as NNI's text; another instance of the
    same experiment knows them."""
    (cli.cwd / "trial.py").write_text(TRIAL)
    client = turnout.Client(cli.home)
    heard: list[TrialJobMetric] = []

    def service() -> TrainingService:
        return TrainingService.on(
            "local", command="python3 trial.py", code_directory=str(cli.cwd), metric="loss", experiment="one",
            client=client,
        )  # fmt: skip

    async def drive() -> list[str]:
        first = service()
        first.add_trial_job_metric_listener(heard.append)
        loop = asyncio.create_task(first.run())
        trials = [await first.submit_trial_job(TrialJobApplicationForm.of({"scale": scale})) for scale in (1, 2)]
        while {(await first.get_trial_job(each.id)).status for each in trials} != {TrialJobStatus.SUCCEEDED}:
            await asyncio.sleep(0.02)
        await first.clean_up()
        await loop
        return [each.id for each in trials]

    one, two = asyncio.run(drive())
    told = [json.loads(each.data) for each in heard if each.id == two]
    assert [(each["type"], each["sequence"], json.loads(each["value"])) for each in told] == [
        ("PERIODICAL", 0, {"default": 1.0, "loss": 1.0}),
        ("PERIODICAL", 1, {"default": 0.5, "loss": 0.5}),
        ("FINAL", 0, {"default": 0.5, "loss": 0.5}),
    ]
    assert [each["trial_job_id"] for each in told] == [two] * 3
    assert cli.json("show", two)["params"] == {"scale": 2} and cli.json("show", one)["experiment"] == "one"

    async def again() -> list[Any]:
        other = service()
        with pytest.raises(NotFound):
            await other.get_trial_job("run99")
        third = await other.submit_trial_job(TrialJobApplicationForm.of({"scale": 3}))
        await other.clean_up()
        return [(each.id, each.sequence_id) for each in await other.list_trial_jobs() if each.id != third.id]

    assert asyncio.run(again()) == [(one, 0), (two, 1)]
