"""Targets as `why` needs to know them: which nodes there are, what they have, what of it is free."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from turnout.engine.sessions import Sessions
from turnout.engine.target import Target
from turnout.schedule.explain import Node, Place
from turnout.store.nodes import last_node_size, node_sizes
from turnout.store.store import Store


class Places:
    """Every method may be called from any thread. `max_runs` is what a node of so many processors takes at once."""

    def __init__(
        self, targets: Mapping[str, Target], store: Store, sessions: Sessions, max_runs: Callable[[str, int], int]
    ) -> None:
        self._targets = targets
        self._store = store
        self._sessions = sessions
        self._max_runs = max_runs

    def look_at(self, target: str, job: int) -> Place | None:
        """As it is now, for a run of `job`; None when there is no such target."""
        if target not in self._targets:
            return None
        trouble, now = self._targets[target].complaint, time.monotonic()
        up = [session for session in self._sessions.all() if session.target == target and session.heard]
        with self._store.read() as connection:
            sizes = node_sizes(connection, [session.agent for session in up])
            last = last_node_size(connection, target) if not up else None
        if last is not None:
            most = self._max_runs(target, last.cpus)
            gone = Node(name=last.node, max_runs=most, memory=last.memory, gpus=last.gpus, is_up=False)
            return Place(nodes=[gone], trouble=trouble)
        nodes = []
        for session in up:
            size = sizes.get(session.agent)
            with self._sessions.lock:
                room = session.room()
            nodes.append(
                Node(
                    name=session.node, max_runs=session.max_runs,
                    memory=size.memory if size is not None else None, gpus=size.gpus if size is not None else None,
                    free_slots=min(max(0.0, room.slots), session.max_runs), free_memory=max(0, room.memory),
                    free_gpus=max(0, room.gpus), siblings=room.running.get(job, 0),
                    is_silent=self._sessions.is_silent(session.agent, now), is_preparing=session.preparing,
                )
            )  # fmt: skip
        return Place(nodes=nodes, trouble=trouble)
