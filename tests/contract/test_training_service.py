"""Every TrainingService keeps every promise of the contract: a target that is driven as one, the one that
``turnout provider new`` writes, and others that are written from NNI's document alone."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest

import pytest

from tests.harness import as_a_user
from turnout.compat.nni import TrainingService, TrialJobDetail, TrialJobStatus
from turnout.compat.nni.adapter import TrainingServiceProvider
from turnout.plugin.provider import Provider
from turnout.plugin.remote import Plugin
from turnout.testing import Lab, ProviderContract, TrainingServiceContract


@pytest.mark.xdist_group("target")
class TestATarget(TrainingServiceContract):
    """What `TrainingService.on` makes, with a hub of its own."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def user(cls) -> Iterator[None]:
        with as_a_user():
            yield

    def make_service(self) -> object:
        return TrainingService.on("local")

    steps: Iterator[int] = itertools.count()

    def tell_metric(self, value: float) -> str:
        """With its step: what several processes tell without is in no order."""
        return f"{sys.executable} -c 'import turnout; turnout.log(step={next(self.steps)}, default={value})'"

    def show_parameters(self) -> str:
        return 'printf %s "$TURNOUT_PARAMS"'


def skeleton() -> ModuleType:
    """The module that ``turnout provider new`` writes."""
    text = (files("turnout") / "client" / "skeletons" / "training_service.py.txt").read_text()
    spec = importlib.util.spec_from_loader("yard_service", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(text.replace("@Class@", "Yard").replace("@name@", "yard"), vars(module))
    return module


# A class of a module that is made of text has no type to mypy, and so has none that inherits from it.
# mypy: disable-error-code="misc"
Yard: Any = skeleton().YardService


class TestAsAProvider(ProviderContract):
    """The provider that is made of it keeps the promises of providers."""

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        plugin = Plugin(
            path="yard_service.YardService", target="yard", service="yard", settings=settings, definition={},
            username="me", records=f"{settings['nodes_directory']}.records",
        )  # fmt: skip
        return TrainingServiceProvider.around(Yard, plugin)

    def make_lab(self) -> Lab:
        return Lab()


class InNnisDirectory(TrainingServiceContract):
    """Where a trial finds its parameters in a file, and writes its metrics into another."""

    def show_parameters(self) -> str:
        return 'cat "$NNI_SYS_DIR/parameter.cfg"'

    def tell_metric(self, value: float) -> str:
        return f'echo {value} >> "$NNI_SYS_DIR/metrics"'


class TestTheSkeleton(InNnisDirectory):
    def make_service(self) -> object:
        return Yard()


class TestThePage(TrainingServiceContract):
    """The class that the page about them builds, as it stands there."""

    def make_service(self) -> object:
        page = (Path(__file__).parents[2] / "docs" / "howto" / "training-service.md").read_text()
        (text,) = re.findall(r"```python file=yard.py\n(.*?)```", page, re.DOTALL)
        module: dict[str, Any] = {}
        exec(text, module)
        return module["Yard"]()


class InNnisSpelling:
    """As NNI's document spells it, with plain methods, no base class, and a main loop that blocks. The status is found
    out by `updateTrialJob`, and nowhere else."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.listeners: list[Any] = []
        self.told: dict[str, int] = {}
        self.stopped = False

    def listTrialJobs(self) -> list[dict[str, Any]]:
        return list(self.jobs.values())

    def getTrialJob(self, trialJobId: str) -> dict[str, Any]:
        return self.jobs[trialJobId]

    def addTrialJobMetricListener(self, listener: Any) -> None:
        self.listeners.append(listener)

    def removeTrialJobMetricListener(self, listener: Any) -> None:
        self.listeners.remove(listener)

    def submitTrialJob(self, form: Any) -> dict[str, Any]:
        config = json.loads(self.metadata["trial_config"])
        identity = f"t{len(self.jobs)}"
        directory = tempfile.mkdtemp(prefix="to-nni-")
        Path(directory, "parameter.cfg").write_text(form.hyperParameters.value)
        self.processes[identity] = subprocess.Popen(
            ["bash", "-c", config["command"]], cwd=config["codeDir"], start_new_session=True,
            stderr=subprocess.DEVNULL, env={**os.environ, "NNI_SYS_DIR": directory},
        )  # fmt: skip
        now = time.time() * 1000
        self.jobs[identity] = {
            "id": identity, "status": "RUNNING", "submitTime": now, "startTime": now, "workingDirectory": directory,
            "form": form, "sequenceId": len(self.jobs),
        }  # fmt: skip
        return self.jobs[identity]

    def updateTrialJob(self, trialJobId: str, form: Any) -> dict[str, Any]:
        job, process = self.jobs[trialJobId], self.processes[trialJobId]
        code = process.poll()
        metrics = Path(job["workingDirectory"], "metrics")
        for line in metrics.read_text().splitlines()[self.told.get(trialJobId, 0) :] if metrics.exists() else ():
            self.told[trialJobId] = self.told.get(trialJobId, 0) + 1
            for listener in self.listeners:
                listener({"id": trialJobId, "data": line})
        if job["status"] == "RUNNING" and code is not None:
            job["endTime"] = time.time() * 1000
            job["status"] = "SUCCEED" if code == 0 else "FAILED"
        return job

    @property
    def isMultiPhaseJobSupported(self) -> bool:
        return False

    def cancelTrialJob(self, trialJobId: str, isEarlyStopped: bool | None = None) -> None:
        job = self.updateTrialJob(trialJobId, None)
        if job["status"] != "RUNNING":
            return
        os.killpg(self.processes[trialJobId].pid, signal.SIGKILL)
        self.processes[trialJobId].wait()
        job["isEarlyStopped"] = isEarlyStopped
        job["status"] = "EARLY_STOPPED" if isEarlyStopped else "USER_CANCELED"

    def setClusterMetadata(self, key: str, value: str) -> None:
        self.metadata[key] = value

    def getClusterMetadata(self, key: str) -> None: ...

    def cleanUp(self) -> None:
        self.stopped = True
        for job in self.jobs:
            self.cancelTrialJob(job)
            shutil.rmtree(self.jobs[job]["workingDirectory"])

    def run(self) -> None:
        while not self.stopped:
            time.sleep(0.01)


class TestNnisSpelling(InNnisDirectory):
    def make_service(self) -> object:
        return InNnisSpelling()


class Bare:
    """Has nothing but what it needs to begin and to end."""

    def add_trial_job_metric_listener(self, listener: Any) -> None: ...

    def remove_trial_job_metric_listener(self, listener: Any) -> None: ...

    def run(self) -> None: ...

    def clean_up(self) -> None: ...


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("metadata_can_be_set_and_asked_for", "it has no get_cluster_metadata"),
        ("it_says_whether_it_knows_phases", "it has no is_multi_phase_job_supported"),
        ("each_trial_gets_its_own_parameters", "show_parameters"), ("metrics_come_to_listeners", "tell_metric"),
    ],
)  # fmt: skip
def test_what_a_platform_need_not_have_is_skipped(check: str, said: str) -> None:
    class Kit(TrainingServiceContract):
        def make_service(self) -> object:
            return Bare()

    kit = Kit()
    kit.setup_method()
    try:
        with pytest.raises(SkipTest, match=said):
            getattr(kit, f"test_{check}")()
    finally:
        kit.teardown_method()


Status = TrialJobStatus


class LosesForms(Yard):
    async def submit_trial_job(self, form: Any) -> TrialJobDetail:
        trial: TrialJobDetail = await super().submit_trial_job(type(form)())
        return trial


class CountsNothing(Yard):
    async def submit_trial_job(self, form: Any) -> TrialJobDetail:
        trial: TrialJobDetail = await super().submit_trial_job(form)
        trial.sequence_id = 0
        return trial


class FirstForAll(Yard):
    def _start(self, trial: TrialJobDetail) -> Any:
        trial.form = next(iter(self._trials.values())).form
        return super()._start(trial)


class KnowsNoTime(Yard):
    def _end(self, trial: TrialJobDetail, status: Status) -> None:
        trial.status = status


class AllIsWell(Yard):
    def _end(self, trial: TrialJobDetail, status: Status) -> None:
        super()._end(trial, Status.SUCCEEDED if status is Status.FAILED else status)


class ListsTheLiving(Yard):
    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        return [each for each in await super().list_trial_jobs() if not each.status.is_final]


class StartsAgain(Yard):
    """As if each update were one more phase."""

    async def update_trial_job(self, trial_job_id: str, form: Any) -> TrialJobDetail:
        trial: TrialJobDetail = await super().update_trial_job(trial_job_id, form)
        if form is not None and trial.status is Status.RUNNING:
            self._processes[trial.id].kill()
        return trial


class KnowsAll(Yard):
    async def get_trial_job(self, trial_job_id: str) -> TrialJobDetail:
        return self._trials.get(trial_job_id) or TrialJobDetail(id=trial_job_id, status=Status.FAILED)


class KillsNobody(Yard):
    async def _kill(self, process: Any) -> None: ...


class NeverEarly(Yard):
    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        await super().cancel_trial_job(trial_job_id, False)


class LeavesTheQueue(Yard):
    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        if trial_job_id not in self._queue:
            await super().cancel_trial_job(trial_job_id, is_early_stopped)


class CancelsWhatIsOver(Yard):
    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        await super().cancel_trial_job(trial_job_id, is_early_stopped)
        self._trials[trial_job_id].status = Status.EARLY_STOPPED if is_early_stopped else Status.USER_CANCELED


class LeavesTrials(Yard):
    async def clean_up(self) -> None:
        self._is_stopping = True


class TellsTwice(Yard):
    def _tell_metrics(self, trial: TrialJobDetail) -> None:
        for _ in range(2):
            super()._tell_metrics(trial)
            self._read[trial.id] = 0


class NeverRemoves(Yard):
    def remove_trial_job_metric_listener(self, listener: Any) -> None: ...


class NoText(Yard):
    async def get_cluster_metadata(self, key: str) -> str:
        return f"no {key}"


class SaysNothing(Yard):
    is_multi_phase_job_supported = "perhaps"


#: a check -> who breaks it
MUTANTS: dict[str, Any] = {
    "a_trial_is_there_when_it_was_submitted": LosesForms,
    "trials_are_told_apart": CountsNothing,
    "each_trial_gets_its_own_parameters": FirstForAll,
    "a_trial_waits_runs_and_succeeds": KnowsNoTime,
    "a_trial_fails": AllIsWell,
    "all_trials_are_listed": ListsTheLiving,
    "updating_harms_nothing": StartsAgain,
    "an_unknown_trial_is_not_found": KnowsAll,
    "a_cancelled_trial_ends": KillsNobody,
    "a_trial_is_stopped_early": NeverEarly,
    "a_cancel_right_after_the_submit": LeavesTheQueue,
    "cancelling_what_is_over_changes_nothing": CancelsWhatIsOver,
    "cleaning_up_ends_all": LeavesTrials,
    "metrics_come_to_listeners": TellsTwice,
    "a_listener_that_was_removed_hears_nothing": NeverRemoves,
    "metadata_can_be_set_and_asked_for": NoText,
    "it_says_whether_it_knows_phases": SaysNothing,
}


@pytest.mark.parametrize("check", sorted(MUTANTS))
def test_the_kit_sees_what_is_wrong(check: str) -> None:
    class Kit(TestTheSkeleton):
        patience = 2.0

        def make_service(self) -> object:
            return MUTANTS[check]()

    kit = Kit()
    kit.setup_method()
    try:
        with pytest.raises(AssertionError):
            getattr(kit, f"test_{check}")()
    finally:
        kit.teardown_method()


def test_every_check_is_broken_by_somebody() -> None:
    checks = {name.removeprefix("test_") for name in vars(TrainingServiceContract) if name.startswith("test_")}
    assert checks == MUTANTS.keys()
