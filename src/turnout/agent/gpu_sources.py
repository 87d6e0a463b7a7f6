"""Who tells of a node's GPUs: the driver's program or library, or the kernel. All say the same to us."""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from turnout.wire.gpus import GpuFacts

#: The variables that bound what a process may see, the strongest first.
_VISIBLE = {"nvidia": ("CUDA_VISIBLE_DEVICES",), "amd": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")}
_NAMED = re.compile(r"\d+|(GPU|MIG)-\S+")


class Device(NamedTuple):
    """A GPU, or a part of one that is used like one: then `whole` is the uuid of the whole. `nodes` are its files below
    /dev, where a container has to be told of them."""

    facts: GpuFacts
    whole: str = ""
    nodes: Tuple[str, ...] = ()


class Computing(NamedTuple):
    """A process that computes on the GPU of this uuid, with so many bytes there; None where that is not told."""

    uuid: str
    pid: int
    memory: Optional[int]


class Sight(NamedTuple):
    """What is going on now: bytes in use by uuid, as far as it is told, and who computes."""

    used: Dict[str, int]
    processes: List[Computing]


class CannotLook(Exception):
    """The driver does not answer, or not as it should."""


class Source(ABC):
    """Every method may take a while (a driver that sleeps takes seconds to wake), and raise CannotLook."""

    @abstractmethod
    def devices(self) -> List[Device]:
        """All that the driver has, in its order; `id` is the index there."""

    @abstractmethod
    def look(self) -> Sight: ...


def find_source() -> Optional[Source]:
    """None on a node without GPUs, which costs nothing to see."""
    from turnout.agent import kfd, nvidia_smi, nvml

    program = shutil.which("nvidia-smi")
    if program is not None:
        return nvidia_smi.Smi(program)
    library = nvml.find_library()
    if library is not None:
        return nvml.Nvml(library)
    return kfd.Kfd() if kfd.Kfd.is_there() else None


def visible(devices: List[Device], env: Mapping[str, str]) -> List[Device]:
    """Those that a process with this environment may use, called as the environment calls them.

    What an index or name stands for that the driver did not tell of is believed only when it told of none at all: it
    may be that nobody could be asked.
    """
    vendor = devices[0].facts.vendor if devices else "nvidia"
    said = next((env[name] for name in _VISIBLE[vendor] if name in env), None)
    if said is None:
        return devices
    found: List[Device] = []
    for word in map(str.strip, said.split(",")):
        device = _called(word, devices)
        if device is None:
            break  # as the drivers have it: what follows one that is not there does not count
        if device not in found:
            found.append(device)
    return found


def _called(word: str, devices: List[Device]) -> Optional[Device]:
    if not _NAMED.fullmatch(word):
        return None
    if not devices:
        return Device(GpuFacts(id=word, uuid="" if word.isdigit() else word))
    for device in devices:
        facts = device.facts
        if word == facts.id or (not word.isdigit() and facts.uuid.startswith(word)):
            return device._replace(facts=GpuFacts(word, facts.uuid, facts.name, facts.memory, facts.vendor))
    return None


def environment(vendor: str, ids: List[str], *, inside: bool = False) -> Dict[str, str]:
    """The variables with which a run sees these GPUs and no others; none of them when there are none. `inside` a
    container that was given only these, they are counted anew."""
    if inside and all(each.isdigit() for each in ids):
        ids = [str(number) for number in range(len(ids))]
    if vendor == "amd":
        # The second is counted among those that the first leaves.
        counted = ",".join(map(str, range(len(ids)))) or "-1"
        return {"ROCR_VISIBLE_DEVICES": ",".join(ids), "HIP_VISIBLE_DEVICES": counted}
    # By itself CUDA counts the fastest first, unlike the driver.
    return {"CUDA_VISIBLE_DEVICES": ",".join(ids), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def bounds(env: Mapping[str, str]) -> Dict[str, str]:
    """What this environment says of the GPUs that a process may see: a batch system may have given us only some."""
    return {name: env[name] for names in _VISIBLE.values() for name in names if name in env}


def read_text(path: str) -> str:
    """A file of the kernel's; empty when it is not there."""
    try:
        with open(os.path.join(path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
