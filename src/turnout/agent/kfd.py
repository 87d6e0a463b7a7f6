"""AMD's GPUs by the kernel: what ROCm's own programs read, without them."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, NamedTuple

from turnout.agent.gpu_sources import Computing, Device, Sight, Source, read_text
from turnout.wire.gpus import GpuFacts


class _Node(NamedTuple):
    """`key` is the kernel's name of it in what it tells of processes, `card` its directory among graphics devices."""

    facts: GpuFacts
    key: str
    card: str
    minor: str


class Kfd(Source):
    def __init__(self, sys: str = "/sys") -> None:
        self._kfd = f"{sys}/class/kfd/kfd"
        self._drm = f"{sys}/class/drm"

    @classmethod
    def is_there(cls, sys: str = "/sys") -> bool:
        return os.path.isdir(f"{sys}/class/kfd/kfd/topology/nodes")

    def devices(self) -> List[Device]:
        return [Device(node.facts, nodes=("/dev/kfd", f"/dev/dri/renderD{node.minor}")) for node in self._nodes()]

    def look(self) -> Sight:
        nodes = list(self._nodes())
        used = {node.facts.uuid: _number(f"{node.card}/mem_info_vram_used") for node in nodes}
        processes = [
            Computing(node.facts.uuid, int(pid), memory)
            for pid in _listed(f"{self._kfd}/proc")
            for node in nodes
            if (memory := _number(f"{self._kfd}/proc/{pid}/vram_{node.key}"))
        ]
        return Sight(used, processes)

    def _nodes(self) -> Iterator[_Node]:
        """Processors are nodes, too, and have no units that compute for GPUs."""
        index = 0
        for number in sorted(_listed(f"{self._kfd}/topology/nodes"), key=int):
            where = f"{self._kfd}/topology/nodes/{number}"
            about = _properties(f"{where}/properties")
            if about.get("simd_count", "0") == "0":
                continue
            minor = about.get("drm_render_minor", "")
            card = f"{self._drm}/renderD{minor}/device"
            name = read_text(f"{card}/product_name") or read_text(f"{where}/name") or "AMD GPU"
            number_of_its_own = int(about.get("unique_id", "0"))
            uuid = f"GPU-{number_of_its_own:016x}" if number_of_its_own else f"node{number}"
            facts = GpuFacts(str(index), uuid, name, _number(f"{card}/mem_info_vram_total"), "amd")
            yield _Node(facts, read_text(f"{where}/gpu_id"), card, minor)
            index += 1


def _properties(path: str) -> Dict[str, str]:
    return dict(line.split(None, 1) for line in read_text(path).splitlines() if " " in line)


def _number(path: str) -> int:
    text = read_text(path)
    return int(text) if text.isdigit() else 0


def _listed(path: str) -> List[str]:
    try:
        return [name for name in os.listdir(path) if name.isdigit()]
    except OSError:
        return []
