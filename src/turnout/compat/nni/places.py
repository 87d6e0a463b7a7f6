"""Where the trials of an experiment's file of NNI run: its services and machines as targets, and their GPUs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.compat.nni.keys import Written, read_machines
from turnout.errors import InvalidInput
from turnout.model.spec import UNMANAGED

_LOCAL = "local"
_PORT = 22
_COUNT = "trialGpuNumber"


@dataclass(frozen=True, slots=True)
class Place:
    """A target by its name, with what is written of it: of a machine, itself and then its service."""

    name: str
    written: tuple[Written, ...]

    def holder(self, key: str) -> Written:
        """Who says it; the first, if nobody does."""
        return next((each for each in self.written if key in each), self.written[0])


def as_label(text: str) -> str:
    """A text as a name here; "" when nothing is left of it."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^\w.@+-]+", "-", text)).strip("-_.@+")[:128]


def places_of(services: Sequence[Written], notes: list[str]) -> list[Place]:
    """Each once. What it takes to make a machine a box is told."""
    found: dict[tuple[str, str, int], Place] = {}
    for service in services:
        if service.get("platform") == _LOCAL:
            found[_LOCAL, "", 0] = Place(_LOCAL, (service,))
            continue
        for machine in read_machines(service):
            host, user, port = _host(machine), machine.text("user") or "", machine.whole("port") or _PORT
            if (host, user, port) not in found:
                name = _name(host, user, port, {each.name for each in found.values()})
                found[host, user, port] = Place(name, (machine, service))
                notes += _how_to_add(machine, name, host, user, port)
    return list(found.values())


def gpus_of(
    experiment: Written, services: Sequence[Written], places: Sequence[Place], notes: list[str]
) -> dict[str, Any]:
    """What of GPUs a search's file says. A setting that differs from machine to machine is each machine's own."""
    given = next((each for each in (experiment, *services) if _COUNT in each), None)
    count = None if given is None else given.whole(_COUNT, least=0)
    if count is None:
        notes.append(f"{_COUNT}: it is not written: trials see all GPUs, as in NNI; with 1, each has one of its own")
    found: dict[str, Any] = {"gpus": UNMANAGED if count is None else count}
    for key, (name, read, usual) in _SETTINGS.items():
        values = [read(place.holder(key), key) for place in places]
        if all(value == usual for value in values):
            continue
        written = [(place, value) for place, value in zip(places, values, strict=True) if value != usual]
        if not count:
            notes.append(f"{written[0][0].holder(key).where(key)}: it has no meaning without {_COUNT}")
        elif all(value == values[0] for value in values):
            found[name] = values[0]
        else:
            notes += [
                f"{place.holder(key).where(key)}: it is not the same for all machines: write `{name}: {_yaml(value)}` "
                f"for {place.name} in your settings"
                for place, value in written
            ]
    return found


def _sharing(written: Written, key: str) -> int:
    return written.whole(key) or 1


def _avoids_others(written: Written, key: str) -> bool:
    return not written.flag(key)


def _indices(written: Written, key: str) -> list[int]:
    return written.indices(key) or []


#: Keys of NNI: what each is called here, how it is read as that, and what it is when nothing is written.
_SETTINGS: dict[str, tuple[str, Callable[[Written, str], Any], Any]] = {
    "maxTrialNumberPerGpu": ("max-runs-per-gpu", _sharing, 1),
    "useActiveGpu": ("avoid-foreign-gpus", _avoids_others, True),
    "gpuIndices": ("gpu-indices", _indices, []),
}


def _yaml(value: Any) -> str:
    return str(value).lower()


def _host(machine: Written) -> str:
    host = machine.text("host")
    if not host or not as_label(host):
        raise InvalidInput(f"{machine.where('host')} of a machine is missing", hint="write its name, as for ssh")
    return host


def _name(host: str, user: str, port: int, taken: set[str]) -> str:
    """A machine is a box of its own name; several on one host are told apart."""
    label = as_label(host)
    names = (label, f"{label}-{port}", as_label(f"{user}@{label}-{port}"))
    return next((each for each in names if each not in taken), names[-1])


#: What opens a machine: the option that names the secret, and what the secret's name ends with.
_OPENING = {
    "password": ("--password-secret", "PASSWORD"),
    "sshPassphrase": ("--passphrase-secret", "PASSPHRASE"),
}


def _how_to_add(machine: Written, name: str, host: str, user: str, port: int) -> list[str]:
    command = ["turnout", "box", "add", *(["--port", str(port)] if port != _PORT else [])]
    if key := machine.text("sshKeyFile"):
        command += ["--ssh-option=-i", f"--ssh-option={key}"]
    notes = []
    for what, (option, end) in _OPENING.items():
        if what in machine:
            secret = f"NNI_{re.sub('[^A-Z0-9]', '_', name.upper())[:80]}_{end}"
            command += [option, secret]
            notes.append(f"{machine.where(what)}: it is not taken from here: `turnout secret set {secret}` asks for it")
    command += [name, f"{user}@{host}" if user else host]
    if "pythonPath" in machine:
        notes.append(f"{machine.where('pythonPath')}: it is not used: let the trial's command name its Python")
    notes.append(f"{machine.where('host')}: {host} has to be a box here: `{shlex.join(command)}`")
    return notes
