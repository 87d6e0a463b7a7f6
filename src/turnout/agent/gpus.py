"""Which GPU has which runs, and what each has left."""

from __future__ import annotations

from types import MappingProxyType
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from turnout.agent.attempt import Attempt
from turnout.wire.gpus import GpuFacts, GpuRoom, pick, reserve


class Seen(NamedTuple):
    """What the last look told, by id: bytes in use, bytes by run there (None: it computes, and nobody tells with how
    much), the GPUs on which others compute, and how many runs of other agents on this machine have each."""

    used: Dict[str, int]
    runs: Dict[Tuple[str, str], Optional[int]]
    foreign: Set[str]
    neighbours: Mapping[str, int] = MappingProxyType({})


NOTHING_SEEN = Seen({}, {}, set())


class Gpus:
    """For the main thread. At most `most` runs share one; unless `shares_with_others`, one on which others compute is
    given to nobody."""

    def __init__(
        self, facts: Sequence[GpuFacts] = (), *, most: int = 1, shares_with_others: bool = False,
        nodes: Optional[Mapping[str, Sequence[str]]] = None,
    ) -> None:  # fmt: skip
        self.facts = list(facts)
        self.nodes = nodes or {}
        """the files of each below /dev, where a container has to be told of them"""
        self._most = most
        self._shares_with_others = shares_with_others
        self._runs: Dict[str, List[Attempt]] = {each.id: [] for each in facts}
        self._seen = NOTHING_SEEN

    @property
    def vendor(self) -> str:
        return self.facts[0].vendor if self.facts else ""

    def rooms(self, coming: Iterable[Attempt] = ()) -> List[GpuRoom]:
        """What each has left beside the runs that are `coming`, which were not given theirs yet."""
        rooms = [self._room(each) for each in self.facts]
        for attempt in coming:
            if attempt.grant.gpus:
                rooms = reserve(rooms, attempt.grant.gpus, attempt.grant.gpu_memory)
        return rooms

    def take(self, attempt: Attempt) -> bool:
        """Gives it as many as it was granted; False, and nothing, when they are not to be had now."""
        places = pick(self.rooms(), attempt.grant.gpus, attempt.grant.gpu_memory)
        if places is None:
            return False
        self.claim(attempt, [self.facts[at].id for at in places])
        return True

    def claim(self, attempt: Attempt, ids: List[str]) -> None:
        """These are its own; an earlier agent may have given them."""
        attempt.gpus = ids
        for each in ids:
            self._runs.setdefault(each, []).append(attempt)

    def free(self, attempt: Attempt) -> None:
        """Idempotent."""
        for each in attempt.gpus:
            self._runs[each].remove(attempt)
        attempt.gpus = []

    def learn(self, seen: Seen) -> bool:
        """Whether any has more or less left than before."""
        before = self.rooms()
        self._seen = seen
        return self.rooms() != before

    def learn_of_neighbours(self, taken: Mapping[str, int]) -> None:
        """What other agents on this machine gave away, by now."""
        self._seen = self._seen._replace(neighbours=taken)

    def _room(self, gpu: GpuFacts) -> GpuRoom:
        runs = self._runs[gpu.id]
        is_foreign = gpu.id in self._seen.foreign
        free = self._most - len(runs) - self._seen.neighbours.get(gpu.id, 0)
        if is_foreign and not self._shares_with_others:
            free = 0
        return GpuRoom(max(0, free), self._memory(gpu, runs), is_foreign)

    def _memory(self, gpu: GpuFacts, runs: Sequence[Attempt]) -> Optional[int]:
        """What was promised to a run is not free, whether or not the run has begun to use it."""
        if not gpu.memory:
            return None
        unused = sum(self._unused_promise(gpu.id, attempt) for attempt in runs)
        return max(0, gpu.memory - self._seen.used.get(gpu.id, 0) - unused)

    def _unused_promise(self, gpu: str, attempt: Attempt) -> int:
        promised = attempt.grant.gpu_memory
        used = self._seen.runs.get((gpu, attempt.key), 0)
        return 0 if used is None else max(0, promised - used)
