"""A launch as a trial, and a trial as a launch: forms, metadata and handles."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from turnout.compat.launched import Told
from turnout.compat.nni.trials import TrialJobApplicationForm, TrialJobDetail, TrialJobStatus
from turnout.plugin.provider import Failure, Launch, Observation, Phase, Work
from turnout.plugin.remote import Plugin

#: Where what is ours lies among a run's files.
_OURS = ".turnout"
#: How a trial is -> how its launch is; of what is over, also the reason and the exit code, as far as they are known.
_PHASES: dict[TrialJobStatus, tuple[Phase, str, int | None]] = {
    TrialJobStatus.UNKNOWN: (Phase.UNKNOWN, "", None),
    TrialJobStatus.WAITING: (Phase.PENDING, "", None),
    TrialJobStatus.RUNNING: (Phase.ACTIVE, "", None),
    TrialJobStatus.SUCCEEDED: (Phase.GONE, "exit_code", 0),
    TrialJobStatus.FAILED: (Phase.GONE, "exit_code", 1),
    TrialJobStatus.USER_CANCELED: (Phase.GONE, "cancelled", None),
    TrialJobStatus.SYS_CANCELED: (Phase.GONE, "preempted", None),
    TrialJobStatus.EARLY_STOPPED: (Phase.GONE, "stopped", None),
}
#: What NNI tells every service before the first trial, besides what the target's settings say.
_USUAL = {
    "nni_manager_ip": '{"nniManagerIp": "127.0.0.1"}', "version_check": "false", "log_collection": "none",
    "multiPhase": "false",
}  # fmt: skip


@dataclass(frozen=True)
class Launched(Told):
    """What a handle says: the run, the service's `id` of the trial, and its form's parameters, which it is asked
    with."""

    token: str
    run: str
    id: str
    number: int
    value: str

    def form(self) -> TrialJobApplicationForm:
        form = TrialJobApplicationForm(sequence_id=self.number, token=self.token)
        form.hyper_parameters.value = self.value
        return form


def observation(detail: TrialJobDetail) -> Observation:
    """How its launch is."""
    phase, reason, code = _PHASES[detail.status]
    return Observation(
        phase, detail="" if phase is not Phase.GONE else f"{detail.status}, as its service says", reason=reason,
        exit_code=code, native=str(detail.status), id=detail.id, url=detail.url or "",
    )  # fmt: skip


def form_of(launch: Launch, work: Work, number: int) -> TrialJobApplicationForm:
    """Its command sets the run's variables itself: from a file beside its code, for a command can be read by others."""
    form = TrialJobApplicationForm.of(work.params, number=number)
    form.command, form.code_directory = f"exec {shlex.join(work.argv)}", work.files
    form.env, form.token = dict(work.env), launch.token
    if work.env:
        name = f"{_OURS}/{launch.token[:16]}.env"
        _keep_variables(Path(work.files, name), work.env)
        form.command = f". ./{shlex.quote(name)}; {form.command}"
    return form


def trial_config(launch: Launch, form: TrialJobApplicationForm) -> str:
    """As NNI writes it: what is not asked for is not in it."""
    need = launch.need
    asked = {
        "command": form.command, "codeDir": form.code_directory, "gpuNum": need.gpus or 0, "cpuNum": need.cpus,
        "memoryMB": need.memory and need.memory >> 20,
    }  # fmt: skip
    return json.dumps({name: value for name, value in asked.items() if value is not None})


def metadata_of(plugin: Plugin) -> dict[str, str]:
    """Keys and values of ``metadata`` in the target's settings, over what NNI itself tells."""
    given = plugin.definition.get("metadata") or {}
    if not isinstance(given, dict):
        raise Failure(f"metadata of target {plugin.target} has keys and values, not {given!r:.80}", kind="rejected")
    own = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}
    return {**_USUAL, **own}


def _keep_variables(path: Path, variables: Mapping[str, str]) -> None:
    """As lines for a shell, in a file that nobody else can read."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(lines)
