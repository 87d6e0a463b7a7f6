"""GPUs that other agents on this machine gave away: an agent's directory lies beside those of the others, and what
their runs have is in the runs' records."""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from contextlib import contextmanager
from typing import Counter as Counts
from typing import Iterator, List

from turnout.agent import record
from turnout.agent.rundir import RunDir, RunDirs
from turnout.agent.tree import boot_id

_LOCK = "gpus.lock"


class Neighbours:
    """`root` is the directory of this agent."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)
        self._above = os.path.dirname(self._root)

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """While this lasts, none of them gives any away. Where that cannot be had, it is done without."""
        how = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.open(os.path.join(self._above, _LOCK), how, 0o600)
        except OSError:
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass
        try:
            yield
        finally:
            os.close(lock)

    def taken(self) -> Counts[str]:
        """How many of their runs have each. Directories of agents on other machines may lie there, too."""
        found: Counts[str] = Counter()
        for name in self._names():
            other = os.path.join(self._above, name)
            if other != self._root:
                for directory in RunDirs(other).found():
                    found.update(_gpus_of(directory))
        return found

    def _names(self) -> List[str]:
        try:
            return [name for name in os.listdir(self._above) if os.path.isdir(os.path.join(self._above, name))]
        except OSError:
            return []


def _gpus_of(directory: RunDir) -> List[str]:
    """Those that a run has, here and now."""
    told = record.read(directory.ctl)
    if told.get("gpus_on") != boot_id() or record.read_exit(directory.ctl) is not None:
        return []
    return [str(gpu) for gpu in told.get("gpus", ())]
