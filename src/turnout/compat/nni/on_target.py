"""The other way round: any target of turnout, driven through NNI's TrainingService. A trial is a run."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import turnout
from turnout.compat.nni import errors
from turnout.compat.nni.cluster import Machines
from turnout.compat.nni.emitter import EventEmitter
from turnout.compat.nni.machines import RemoteMachineMeta, read_machines
from turnout.compat.nni.service import MetricListener, TrainingService
from turnout.compat.nni.spelling import read_either
from turnout.compat.nni.trials import (
    HyperParameters,
    JobApplicationForm,
    TrialJobDetail,
    TrialJobMetric,
)
from turnout.compat.nni.views import NUMBER, Measured, detail_of_run, form_of_run, status_of_run
from turnout.errors import InvalidInput, NotFound
from turnout.model.spec import Resources
from turnout.model.state import LIVE
from turnout.wire.nni import OBJECTIVE

T = TypeVar("T")
View = dict[str, Any]
_EXPERIMENT = "nni-experiment"
_METRIC = "metric"
_PAUSE = 0.2
_MOST = 100_000


@dataclass(frozen=True)
class Asked:
    """What the trials of a service have in common."""

    target: str
    command: str = ""
    code_directory: str = "."
    metric: str = OBJECTIVE
    experiment: str | None = None
    accept: Callable[[Any], bool] | None = None
    wishes: Mapping[str, Any] = field(default_factory=dict)
    ssh_options: Sequence[str] = ()


class TargetService(TrainingService):
    """Of any event loop; listeners are called in the one that `run`, or a question about a trial, is awaited in.

    All that was measured is told before a trial is shown as over. What is known of trials is with the hub: an instance
    that begins with the same experiment knows them all.
    """

    def __init__(self, asked: Asked, client: turnout.Client | None = None) -> None:
        self._asked = asked
        self._client = client or turnout.Client()
        self._one_at_a_time = threading.Lock()
        self._experiment = asked.experiment or f"nni-{secrets.token_hex(4)}"
        self._mine = f'tags.{_EXPERIMENT} = "{self._experiment}"'
        self._metadata: dict[str, str] = {}
        self._machines = Machines(self._client, asked.accept or (lambda _: False), asked.ssh_options)
        self._next: int | None = None
        self._forms: dict[str, JobApplicationForm] = {}
        self._measured: dict[str, Measured] = {}
        self._emitter = EventEmitter()
        self._is_stopping = False

    # --- trials -----------------------------------------------------------------------------------------------------

    async def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        """InvalidInput when it has no hyper parameters, or nobody said which command."""
        parameters = _parameters(form)
        if not self._asked.command:
            hint = 'TrainingService.on(…, command="python trial.py"), or cluster metadata trial_config'
            raise InvalidInput("no command for trials", hint=hint)
        return await self._ask(lambda: self._submit(form, parameters))

    def _submit(self, form: JobApplicationForm, parameters: dict[str, Any]) -> TrialJobDetail:
        asked, number = self._asked, self._number()
        target = self._machines.choose(self._views()) if self._machines else asked.target
        wishes = {"target": target, "experiment": asked.experiment, **asked.wishes}
        wishes["tags"] = {**asked.wishes.get("tags", {}), _EXPERIMENT: self._experiment, NUMBER: str(number)}
        # The run is one of its own to the hub; what it is among the trials, only its service knows.
        command = ["env", f"NNI_TRIAL_SEQ_ID={number}", "bash", "-c", asked.command]
        answer = self._client.submit_command(command, cwd=asked.code_directory, params=parameters, **wishes)
        (run,) = answer["runs"]
        self._forms[run], self._next = form, number + 1
        return self._detail(self._client.run(run))

    def _number(self) -> int:
        """Of the next trial: behind those that an earlier instance submitted."""
        if self._next is None:
            self._next = 1 + max((int(view["tags"].get(NUMBER, -1)) for view in self._views()), default=-1)
        return self._next

    async def update_trial_job(self, trial_job_id: str, form: JobApplicationForm) -> TrialJobDetail:
        """How it is now. A trial here has the parameters it was submitted with, and no others."""
        return await self.get_trial_job(trial_job_id)

    async def get_trial_job(self, trial_job_id: str) -> TrialJobDetail:
        view = await self._ask(lambda: self._view(trial_job_id))
        await self._tell(view)
        return self._detail(view)

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        views = await self._ask(self._views)
        for view in views:
            await self._tell(view)
        return [self._detail(view) for view in views]

    async def cancel_trial_job(self, trial_job_id: str, is_early_stopped: bool = False) -> None:
        await self._ask(lambda: self._cancel(trial_job_id, is_early_stopped))

    def _cancel(self, trial: str, is_early_stopped: bool) -> None:
        if status_of_run(self._view(trial)).is_final:
            return
        self._client.cancel([trial], stopped="stopped early" if is_early_stopped else None)

    @property
    def is_multi_phase_job_supported(self) -> bool:
        return False

    # --- metrics ----------------------------------------------------------------------------------------------------

    def add_trial_job_metric_listener(self, listener: MetricListener) -> None:
        self._emitter.on(_METRIC, listener)

    def remove_trial_job_metric_listener(self, listener: MetricListener) -> None:
        self._emitter.off(_METRIC, listener)

    async def _tell(self, view: View) -> None:
        """What the run has measured since it was last asked."""
        trial = view["name"]
        measured = self._measured.setdefault(
            trial, Measured(trial, int(view["tags"].get(NUMBER, 0)), self._asked.metric)
        )
        if measured.is_over or not self._emitter.listener_count(_METRIC):
            return
        points = await self._ask(lambda: self._client.metrics(trial)) if view["metrics"] else {}
        for text in measured.news(points, status_of_run(view)):
            self._emitter.emit(_METRIC, TrialJobMetric(id=trial, data=text))

    async def run(self) -> None:
        """Tells what trials measure, as it comes, until `clean_up`."""
        while not self._is_stopping:
            if self._emitter.listener_count(_METRIC):
                for view in await self._ask(self._unfinished):
                    await self._tell(view)
            await asyncio.sleep(_PAUSE)

    async def clean_up(self) -> None:
        """Cancels what is left. The runs and their metrics stay with the hub, and boxes in the settings."""
        self._is_stopping = True
        for view in await self._ask(self._views):
            if not status_of_run(view).is_final:
                await self.cancel_trial_job(view["name"])

    # --- the cluster ------------------------------------------------------------------------------------------------

    async def set_cluster_metadata(self, key: str, value: str) -> None:
        """``trial_config`` says `command`, `codeDir`, `gpuNum`, `cpuNum` and `memoryMB`; ``machine_list`` adds boxes,
        to which trials go from then on, each to the one with the fewest. The others are kept, and mean nothing here."""
        if key == "trial_config":
            self._asked = _with_config(self._asked, value)
        elif key == "machine_list":
            value = await self._ask(lambda: self._machines.add(read_machines(value)))
        self._metadata[key] = value

    async def get_cluster_metadata(self, key: str) -> str:
        """As it was set; passwords are not shown again."""
        return self._metadata.get(key, "")

    async def machines(self) -> list[RemoteMachineMeta]:
        """Those of ``machine_list``, with which trial has which of their GPUs now."""
        return await self._ask(lambda: self._machines.reserved(self._views()))

    # --- the hub ----------------------------------------------------------------------------------------------------

    async def _ask(self, question: Callable[[], T]) -> T:
        """A client is for one thread at a time, and makes whoever asks wait."""

        def one() -> T:
            with self._one_at_a_time:
                return question()

        return await asyncio.to_thread(one)

    def _views(self) -> list[View]:
        """Its runs, in the order of their numbers."""
        found = self._client.runs([self._mine], limit=_MOST)
        return sorted(found, key=lambda view: int(view["tags"].get(NUMBER, 0)))

    def _unfinished(self) -> list[View]:
        """The runs that are not over, and those of ours of which not all was told yet."""
        live = self._client.runs([self._mine, f"state in ({', '.join(LIVE)})"], limit=_MOST)
        seen = {view["name"] for view in live}
        over = {trial for trial, measured in self._measured.items() if measured.is_over}
        return [*live, *(self._client.run(trial) for trial in self._forms if trial not in seen | over)]

    def _view(self, trial: str) -> View:
        try:
            view = self._client.run(trial)
        except NotFound as error:
            raise errors.NotFound(f"no trial {trial!r}") from error
        if view["tags"].get(_EXPERIMENT) != self._experiment:
            raise errors.NotFound(f"no trial {trial!r}: that run is none of {self._experiment}")
        return view

    def _detail(self, view: View) -> TrialJobDetail:
        form = self._forms.get(view["name"]) or form_of_run(view)
        return detail_of_run(view, form, str(Path(self._asked.code_directory).absolute()))


def _parameters(form: JobApplicationForm) -> dict[str, Any]:
    given = read_either(form, "hyper_parameters")
    try:
        return HyperParameters(str(read_either(given, "value", "{}"))).parameters
    except ValueError as error:
        hint = "its hyper_parameters.value is JSON text: '{\"lr\": 0.1}'"
        raise InvalidInput("the form has no hyper parameters that can be read", hint=hint) from error


#: What a trial needs, as ``trial_config`` writes it: what it is called here, and how much one of it is.
_NEEDS = {"gpuNum": ("gpus", 1), "cpuNum": ("cpus", 1), "memoryMB": ("memory", 1 << 20)}


def _with_config(asked: Asked, value: str) -> Asked:
    """With what is written; the rest is as it was."""
    try:
        config = json.loads(value)
        command, directory = str(config.get("command") or asked.command), config.get("codeDir") or asked.code_directory
        needs = {
            name: _count(config[key]) * each for key, (name, each) in _NEEDS.items() if config.get(key) is not None
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        hint = 'write {"command": "python trial.py", "codeDir": ".", "gpuNum": 1, "cpuNum": 2, "memoryMB": 4096}'
        raise InvalidInput("trial_config cannot be read", hint=hint) from error
    wishes = dict(asked.wishes)
    if needs:
        told = {name: count if count or name == "gpus" else None for name, count in needs.items()}
        wishes["resources"] = replace(wishes.get("resources") or Resources(), **told)
    return replace(asked, command=command, code_directory=str(directory), wishes=wishes)


def _count(written: Any) -> int:
    count = int(written)
    if count < 0:
        raise ValueError(f"{count} is less than nothing")
    return count
