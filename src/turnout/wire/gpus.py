"""The GPUs of a node as hub and agent speak of them, and which of them a run gets.

The hub asks `pick` whether a run would fit, the agent which GPUs it is given: both mean the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import List, Optional, Sequence


@dataclass(frozen=True)
class GpuFacts:
    """A GPU. `id` is what a run is told (its index, or a name where the node is told of it by name), `memory` its
    bytes, 0 where nobody knows. `vendor`: nvidia | amd."""

    id: str
    uuid: str = ""
    name: str = ""
    memory: int = 0
    vendor: str = "nvidia"


@dataclass(frozen=True)
class GpuRoom:
    """What a GPU has left: so many `runs` more may be put on it, and `memory` bytes are neither in use nor promised,
    None where nobody knows. `foreign`: others compute on it."""

    runs: int = 1
    memory: Optional[int] = None
    foreign: bool = False

    def fits(self, memory: int) -> bool:
        return self.runs > 0 and (self.memory is None or self.memory >= memory)


def free_gpus(count: int) -> List[GpuRoom]:
    """So many of which nothing is known but that they are free."""
    return [GpuRoom() for _ in range(count)]


def pick(rooms: Sequence[GpuRoom], count: int, memory: int = 0) -> Optional[List[int]]:
    """Where among `rooms` a run finds `count` GPUs that have `memory` bytes each; None when there are not so many.

    The least used come first, and of those the ones whose memory is just enough: the large ones stay for who needs
    them.
    """
    fit = [at for at, room in enumerate(rooms) if room.fits(memory)]
    if len(fit) < count:
        return None
    fit.sort(key=lambda at: (-rooms[at].runs, rooms[at].memory or 0, at))
    return sorted(fit[:count])


def reserve(rooms: Sequence[GpuRoom], count: int, memory: int = 0) -> List[GpuRoom]:
    """What is left when such a run is on its way. Where it does not fit by what is known now, it still takes its
    GPUs: nobody else may count on them."""
    places = pick(rooms, count, memory)
    if places is None:
        places = pick(rooms, count)
    if places is None:
        return [replace(room, runs=0) for room in rooms]
    return [_less(room, memory) if at in places else room for at, room in enumerate(rooms)]


def _less(room: GpuRoom, memory: int) -> GpuRoom:
    left = None if room.memory is None else max(0, room.memory - memory)
    return replace(room, runs=room.runs - 1, memory=left)
