"""NVIDIA's GPUs by the driver's own program."""

from __future__ import annotations

import re
import subprocess
from typing import Dict, List, Optional

from turnout.agent.gpu_sources import CannotLook, Computing, Device, Sight, Source
from turnout.wire.gpus import GpuFacts

_SECONDS = 20.0
_MIB = 1 << 20
_WHOLE = re.compile(r"GPU \d+: .*\(UUID: (?P<uuid>[^)]+)\)")
_PART = re.compile(r"\s+MIG (?P<name>\S+)\s+Device\s+\d+:\s+\(UUID: (?P<uuid>[^)]+)\)")
_GIGABYTES = re.compile(r"\.(\d+)gb")


class Smi(Source):
    def __init__(self, program: str) -> None:
        self._program = program

    def devices(self) -> List[Device]:
        listed = parse_devices(self._ask("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits"))
        return with_parts(listed, self._ask("-L"))

    def look(self) -> Sight:
        used = parse_used(self._ask("--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits"))
        apps = self._ask("--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits")
        return Sight(used, parse_processes(apps))

    def _ask(self, *options: str) -> str:
        try:
            done = subprocess.run(
                [self._program, *options], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise CannotLook(f"nvidia-smi: {error}") from error
        text = done.stdout.decode("utf-8", "replace")
        if done.returncode != 0:  # it tells of its troubles on standard output
            raise CannotLook(f"nvidia-smi: exit code {done.returncode}: {text.strip()[:200]}")
        return text


def parse_devices(text: str) -> List[Device]:
    """Lines ``index, uuid, name, MiB``. A GPU that fell off its bus has a line that is none, and is left out."""
    found = []
    for fields in _rows(text):
        if len(fields) == 4 and fields[0].isdigit():
            index, uuid, name, total = fields
            found.append(Device(GpuFacts(id=index, uuid=uuid, name=name, memory=_bytes(total) or 0)))
    return found


def with_parts(devices: List[Device], listed: str) -> List[Device]:
    """`listed` is what ``-L`` says: a GPU that is cut into parts is used by those, under their names."""
    parts: Dict[str, List[Device]] = {}
    whole = ""
    for line in listed.splitlines():
        if head := _WHOLE.match(line):
            whole = head["uuid"]
        elif part := _PART.match(line):
            size = _GIGABYTES.search(part["name"])
            facts = GpuFacts(
                id=part["uuid"], uuid=part["uuid"], name=f"MIG {part['name']}",
                memory=int(size[1]) * 10**9 if size else 0,
            )  # fmt: skip
            parts.setdefault(whole, []).append(Device(facts, whole))
    return [each for device in devices for each in parts.get(device.facts.uuid, [device])]


def parse_used(text: str) -> Dict[str, int]:
    rows = [fields for fields in _rows(text) if len(fields) == 2]
    return {uuid: used for uuid, used in ((fields[0], _bytes(fields[1])) for fields in rows) if used is not None}


def parse_processes(text: str) -> List[Computing]:
    rows = [fields for fields in _rows(text) if len(fields) == 3 and fields[1].isdigit()]
    return [Computing(uuid, int(pid), _bytes(used)) for uuid, pid, used in rows]


def _rows(text: str) -> List[List[str]]:
    return [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]


def _bytes(mebibytes: str) -> Optional[int]:
    """None for ``[N/A]``, ``[Not Supported]`` and their like."""
    return int(mebibytes) * _MIB if mebibytes.isdigit() else None
