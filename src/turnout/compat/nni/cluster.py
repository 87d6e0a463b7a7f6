"""The machines of ``machine_list`` as boxes of turnout."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import turnout
from turnout.compat.nni.machines import RemoteMachineMeta
from turnout.compat.nni.views import View, status_of_run
from turnout.config import secrets

#: What a secret is shown as.
_HIDDEN = "***"


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
        """The name of its box. What opens it becomes a secret of the user's, to which the box refers."""
        name = f"nni-{machine.ip}-{machine.port}".replace(".", "-").replace(":", "-")
        if name not in {box["name"] for box in self._client.boxes()}:
            key = ["-i", str(Path(machine.ssh_key_path).expanduser())] if machine.ssh_key_path else []
            secret = {"password": machine.passwd, "passphrase": machine.passphrase}
            opened = {what: _kept(name, what, value) for what, value in secret.items() if value}
            self._client.add_box(
                name,
                machine.address,
                accept=self._accept,
                port=machine.port,
                ssh_options=[*key, *self._options],
                **opened,
            )
        return name


def _kept(box: str, what: str, value: str) -> str:
    """The reference of a secret that is kept now."""
    name = f"{box}_{what}".upper().replace("-", "_")
    secrets.store(name, value)
    return f"secret:{name}"


def _shown(machine: RemoteMachineMeta) -> dict[str, Any]:
    told = {"ip": machine.ip, "port": machine.port, "username": machine.username, "sshKeyPath": machine.ssh_key_path}
    hidden = {"passwd": machine.passwd, "passphrase": machine.passphrase}
    return {**told, **{name: _HIDDEN for name, value in hidden.items() if value}}
