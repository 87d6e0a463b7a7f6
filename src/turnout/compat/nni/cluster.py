"""The machines of ``machine_list`` as boxes of turnout."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import turnout
from turnout.compat.nni.machines import RemoteMachineMeta
from turnout.compat.nni.views import View, status_of_run
from turnout.config import secrets
from turnout.errors import Conflict

#: What a secret is shown as.
_HIDDEN = "***"
_WORD = re.compile(r"[^A-Za-z0-9]+")
#: Of boxes, what the settings need not say.
_USUAL = {"ssh_options": [], "max_runs_per_gpu": 1, "avoid_foreign_gpus": True}


class Machines:
    """By the names of their boxes. For one thread at a time. `accept` says whether to believe the key of a machine that
    is not known."""

    def __init__(self, client: turnout.Client, accept: Callable[[Any], bool], ssh_options: Sequence[str] = ()) -> None:
        self._client = client
        self._options = list(ssh_options)
        self._accept = accept
        self._known: dict[str, RemoteMachineMeta] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, machines: Sequence[RemoteMachineMeta]) -> str:
        """Each becomes a box of the user's settings, once it is seen to work, if it is none yet; what may be shown of
        them, as JSON. Raising means that those before it are boxes."""
        for machine in machines:
            self._known[self._box(machine)] = machine
        return json.dumps([_shown(machine) for machine in machines])

    def choose(self, views: Sequence[View]) -> str:
        """The one with the fewest trials that are not over."""
        busy = [view["target"] for view in views if not status_of_run(view).is_final]
        return min(self._known, key=busy.count)

    def reserved(self, views: Sequence[View]) -> list[RemoteMachineMeta]:
        """All of them, each with the trials that have its GPUs."""
        for name, machine in self._known.items():
            running = [view["name"] for view in views if view["target"] == name and view["state"] == "running"]
            machine.gpu_reservation = {gpu: trial for trial in running for gpu in self._gpus(trial)}
        return list(self._known.values())

    def _gpus(self, trial: str) -> list[int]:
        told = [event["data"].get("gpus") or [] for event in self._client.events(trial) if event["event"] == "running"]
        return [int(each) for each in told[-1] if str(each).isdecimal()] if told else []

    def _box(self, machine: RemoteMachineMeta) -> str:
        """The name of its box. What opens it becomes a secret of the user's, to which the box refers. Conflict when
        there is one of that name, and it is another."""
        name = _WORD.sub("-", f"nni-{machine.ip}-{machine.port}-{machine.username}").strip("-")
        secret = {what: _secret(name, what) for what in ("password", "passphrase") if _opening(machine, what)}
        wanted = self._wanted(machine, {what: f"secret:{each}" for what, each in secret.items()})
        known = next((box for box in self._client.boxes() if box["name"] == name), None)
        if known is not None:
            _check_same(known, machine, wanted)
        with ExitStack() as undo:
            for what, each in secret.items():
                secrets.store(each, _opening(machine, what))
                undo.callback(secrets.remove, each)
            if known is None:
                self._client.add_box(name, machine.address, accept=self._accept, **wanted)
            undo.pop_all()
        return name

    def _wanted(self, machine: RemoteMachineMeta, opened: dict[str, str]) -> dict[str, Any]:
        """What is said of its box beside name and address."""
        key = ["-i", str(Path(machine.ssh_key_path).expanduser())] if machine.ssh_key_path else []
        told = {
            "port": machine.port, "ssh_options": [*key, *self._options], **opened, "gpu_indices": machine.gpu_indices,
            "max_runs_per_gpu": machine.max_trial_number_per_gpu,
            "avoid_foreign_gpus": None if machine.use_active_gpu is None else not machine.use_active_gpu,
        }  # fmt: skip
        return {name: value for name, value in told.items() if value is not None}


def _check_same(known: View, machine: RemoteMachineMeta, wanted: dict[str, Any]) -> None:
    """As far as ``machine_list`` says it: how many runs it takes, and more, is for who keeps the settings."""
    has = {"address": known["address"], **{key.replace("-", "_"): value for key, value in known["settings"].items()}}
    for name, value in {"address": machine.address, **wanted}.items():
        if has.get(name, _USUAL.get(name)) != value:
            hint = f"`turnout box remove {known['name']}` takes it out; then set machine_list again"
            raise Conflict(f"the box {known['name']} is there, with another {name.replace('_', '-')}", hint=hint)


def _secret(box: str, what: str) -> str:
    return f"{box}_{what}".upper().replace("-", "_")


def _opening(machine: RemoteMachineMeta, what: str) -> str:
    return (machine.passwd if what == "password" else machine.passphrase) or ""


def _shown(machine: RemoteMachineMeta) -> dict[str, Any]:
    told = {"ip": machine.ip, "port": machine.port, "username": machine.username, "sshKeyPath": machine.ssh_key_path}
    hidden = {"passwd": machine.passwd, "passphrase": machine.passphrase}
    of_gpus = {
        "gpuIndices": machine.gpu_indices, "maxTrialNumberPerGpu": machine.max_trial_number_per_gpu,
        "useActiveGpu": machine.use_active_gpu,
    }  # fmt: skip
    also = {name: value for name, value in of_gpus.items() if value is not None}
    return {**told, **{name: _HIDDEN for name, value in hidden.items() if value}, **also}
