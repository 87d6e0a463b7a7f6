"""What agents that are gone left running here: cleared away by a process that does nothing else.

An agent that is told to go ends its runs itself, and one that died with runs in hand is started again. What remains is
the agent that was given up, for it was silent, and then died: its runs go on under their supervisors, and nobody will
ever ask for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from turnout.plugin.provider import Handle

_SLOWEST_RETRY = 300.0


@dataclass(slots=True)
class _Left:
    """`handle` is the process that is in charge: the agent itself, or one that clears away."""

    handle: Handle | None
    tries: int = 0
    not_before: float = 0.0


class Leftovers:
    """For the engine's one thread. The directories tell: a run's is there for as long as something of it may run.

    `look` gives those of some handles that are there, None when it cannot tell. `clear` starts a process that ends all
    that runs in such a directory, unless an agent is at work there, and gives its handle if it could.
    """

    def __init__(
        self,
        nodes_dir: Path,
        look: Callable[[list[Handle]], Collection[Handle] | None],
        clear: Callable[[Path], Handle | None],
    ) -> None:
        self._nodes_dir = nodes_dir
        self._look = look
        self._clear = clear
        self._left: dict[int, _Left] = {}

    def recover(self, live: Collection[int]) -> None:
        """After a start of the hub: finds what all agents but the `live` ones left."""
        names = os.listdir(self._nodes_dir) if self._nodes_dir.is_dir() else ()
        for agent in {int(name) for name in names if name.isdecimal()} - set(live):
            self.add(agent, None)

    def add(self, agent: int, handle: Handle | None) -> None:
        """This agent's runs are nobody's any more; its process may still be there and see to them."""
        if self._has_runs(agent):
            self._left[agent] = _Left(handle)

    def tend(self, now: float) -> None:
        """Has all cleared away that nobody is in charge of."""
        if not self._left:
            return
        there = self._look([left.handle for left in self._left.values() if left.handle is not None])
        if there is None:
            return
        for agent, left in list(self._left.items()):
            if left.handle in there:
                continue
            if not self._has_runs(agent):
                del self._left[agent]
            elif now >= left.not_before:
                left.handle = self._clear(self._nodes_dir / str(agent))
                left.not_before = now + min(2.0**left.tries, _SLOWEST_RETRY)
                left.tries += 1

    def _has_runs(self, agent: int) -> bool:
        try:
            return bool(os.listdir(self._nodes_dir / str(agent) / "runs"))
        except OSError:
            return False
