"""Looking at the GPUs again while somebody wants them: who computes there, with how much memory."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, List, Optional, Tuple, Union

from turnout.agent import tree
from turnout.agent.attempt import Phase
from turnout.agent.carrier import Carrier
from turnout.agent.gpu_neighbours import Neighbours
from turnout.agent.gpu_sources import CannotLook, Device, Sight, Source
from turnout.agent.gpus import Seen
from turnout.agent.holding import Holding
from turnout.agent.log import say

_EVERY = 5.0  # seconds between looks while GPUs are in use or wanted
_FRESH = 1.0  # what was seen so long ago is good enough to start a run by
_MARK = b"TURNOUT_SPOOL="


class GpuWatch:
    """For the main thread; the looking itself is done by `carrier`. `runs` is where the directories of runs are,
    `launcher` the process whose descendants are all ours. `on_change` hears that there is more or less to give."""

    def __init__(
        self, source: Source, devices: List[Device], holding: Holding, carrier: Carrier, *, runs: str, launcher: int,
        neighbours: Neighbours, on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        self._source = source
        self._devices = devices
        self._holding = holding
        self._carrier = carrier
        self._runs = runs
        self._launcher = launcher
        self._neighbours = neighbours
        self._on_change = on_change
        self._looked: Optional[float] = None
        self._is_awaited = False
        self._trouble = ""

    def knows(self) -> bool:
        """Whether a run may be started by what was seen; if not, the next look is not put off."""
        self._is_awaited = self._looked is None or time.monotonic() - self._looked > _FRESH
        return not self._is_awaited

    def tend(self) -> None:
        """Has them looked at when it is time and anybody cares."""
        if self._carrier.is_busy or not self._devices or not self._is_wanted():
            return
        if self._is_awaited or self._looked is None or time.monotonic() - self._looked >= _EVERY:
            supervisors = {
                attempt.supervisor.pid: attempt.key
                for attempt in self._holding.attempts.values()
                if attempt.supervisor is not None and attempt.phase < Phase.ENDED
            }
            self._carrier.do(lambda: self._look(supervisors), self._see)

    def _is_wanted(self) -> bool:
        held = self._holding.attempts.values()
        return self._holding.is_gpu_wanted or any(each.grant.gpus and each.phase < Phase.ENDED for each in held)

    def _look(self, supervisors: Dict[int, str]) -> Seen:
        seen = attribute(
            self._source.look(), self._devices, lambda pid: owner_of(pid, self._runs, supervisors, self._launcher)
        )
        return seen._replace(neighbours=self._neighbours.taken())

    def _see(self, outcome: Union[Seen, Exception]) -> None:
        """What cannot be looked at is taken to be as it was."""
        self._looked, self._is_awaited = time.monotonic(), False
        if isinstance(outcome, CannotLook):
            if str(outcome) != self._trouble:
                say(f"the GPUs cannot be looked at: {outcome}")
            self._trouble = str(outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            self._trouble = ""
            if self._holding.gpus.learn(outcome):
                self._on_change()


#: Whose process it is: a run's key, "" of ours but nobody knows which, None a stranger's.
OwnerOf = Callable[[int], Optional[str]]


def attribute(sight: Sight, devices: List[Device], owner_of: OwnerOf) -> Seen:
    """The same by GPU and run. What happens on a GPU that is cut into parts cannot be told of one of them."""
    by_uuid = {device.facts.uuid: device.facts.id for device in devices if not device.whole}
    used = {by_uuid[uuid]: amount for uuid, amount in sight.used.items() if uuid in by_uuid}
    runs: Dict[Tuple[str, str], Optional[int]] = {}
    foreign = set()
    for process in sight.processes:
        gpu = by_uuid.get(process.uuid)
        if gpu is None or not _exists(process.pid):
            continue
        owner = owner_of(process.pid)
        if owner is None:
            foreign.add(gpu)
        elif owner:
            before = runs.get((gpu, owner), 0)
            runs[gpu, owner] = None if before is None or process.memory is None else before + process.memory
    return Seen(used, runs, foreign)


def owner_of(pid: int, runs: str, supervisors: Dict[int, str], launcher: int) -> Optional[str]:
    """By its environment (in a container it has other ancestors), or by its ancestors (it may have wiped that)."""
    try:
        given = tree.read_whole(f"/proc/{pid}/environ").split(b"\0")
    except OSError:
        given = []
    mine, ours = os.fsencode(f"{runs}/"), os.fsencode(f"{os.path.dirname(os.path.dirname(runs))}/")
    for entry in given:
        where = entry[len(_MARK) :] if entry.startswith(_MARK) else b""
        if where.startswith(mine):
            return os.fsdecode(where[len(mine) :]).partition("/")[0]
        if where.startswith(ours):  # of another agent beside us, who sees to it
            return ""
    seen = set()
    while pid > 1 and pid not in seen:
        if pid in supervisors:
            return supervisors[pid]
        if pid == launcher:
            return ""
        seen.add(pid)
        stat = tree.read_stat(pid)
        pid = stat.parent if stat is not None else 0
    return None


def _exists(pid: int) -> bool:
    """Also where processes of others are hidden."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
