"""Machines that are reached by ssh, as cluster metadata has them (``machine_list``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turnout.compat.nni.keys import Written
from turnout.compat.nni.spelling import camel, twice_spelled
from turnout.errors import InvalidInput

_PORT = 22


@twice_spelled
@dataclass
class RemoteMachineMeta:
    """`gpu_reservation`: the number of a GPU -> the trial that has it. `gpu_indices`: those that trials may have; None
    are all. What opens the machine is never shown."""

    ip: str
    port: int = _PORT
    username: str = ""
    passwd: str | None = field(default=None, repr=False)
    ssh_key_path: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    gpu_summary: Any = None
    gpu_reservation: dict[int, str] = field(default_factory=dict)
    gpu_indices: list[int] | None = None
    max_trial_number_per_gpu: int | None = None
    use_active_gpu: bool | None = None

    @property
    def address(self) -> str:
        """As for ssh."""
        return f"{self.username}@{self.ip}" if self.username else self.ip


def read_machines(text: str) -> list[RemoteMachineMeta]:
    """The value of ``machine_list``. InvalidInput says which machine lacks what; it repeats no password."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("machine_list is no JSON", hint=_EXAMPLE) from error
    content = content.get("machineList", content) if isinstance(content, dict) else content
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise InvalidInput("machine_list is a list of machines", hint=_EXAMPLE)
    return [_machine(number, each) for number, each in enumerate(content, 1)]


_EXAMPLE = 'write [{"ip": "10.1.1.1", "port": 22, "username": "me", "sshKeyPath": "~/.ssh/id_ed25519"}]'
#: As NNI's documents spell them -> ours; NNI's second version has other words.
_KEYS = {
    "ip": "ip", "host": "ip", "port": "port", "username": "username", "user": "username", "passwd": "passwd",
    "password": "passwd", "sshKeyPath": "ssh_key_path", "sshKeyFile": "ssh_key_path", "passphrase": "passphrase",
    "sshPassphrase": "passphrase", "gpuIndices": "gpu_indices", "maxTrialNumPerGpu": "max_trial_number_per_gpu",
    "maxTrialNumberPerGpu": "max_trial_number_per_gpu", "useActiveGpu": "use_active_gpu",
}  # fmt: skip
#: A directory that NNI puts before the trial's PATH: its command can do the same.
_PASSED_OVER = frozenset({"pythonPath"})
_TEXTS = ("username", "passwd", "ssh_key_path", "passphrase")


def _machine(number: int, entry: dict[str, Any]) -> RemoteMachineMeta:
    unknown = sorted(entry.keys() - _KEYS.keys() - _PASSED_OVER)
    if unknown:
        raise InvalidInput(f"machine {number} of machine_list: unknown key {unknown[0]!r}", hint=_known(_KEYS))
    found = {_KEYS[key]: value for key, value in entry.items() if key in _KEYS and value is not None}
    if not isinstance(found.get("ip"), str) or not found["ip"]:
        raise InvalidInput(f"machine {number} of machine_list has no ip", hint=_EXAMPLE)
    try:
        found["port"] = int(found.get("port", _PORT))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"machine {number} of machine_list: the port is no number", hint=_EXAMPLE) from error
    for name in _TEXTS:
        if not isinstance(found.get(name, ""), str):
            raise InvalidInput(f"machine {number} of machine_list: {camel(name)} is no text", hint=_EXAMPLE)
    written = Written({name: (value, f"machine {number} of machine_list: {camel(name)}")
                       for name, value in found.items()})  # fmt: skip
    return RemoteMachineMeta(**{
        **found, "gpu_indices": written.indices("gpu_indices"), "use_active_gpu": written.flag("use_active_gpu"),
        "max_trial_number_per_gpu": written.whole("max_trial_number_per_gpu"),
    })  # fmt: skip


def _known(keys: Iterable[str]) -> str:
    return f"known keys: {', '.join(sorted(keys))}"
