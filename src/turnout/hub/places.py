"""Targets as `why` needs to know them: which nodes there are, what they have, what of it is free."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from turnout.engine.sessions import Sessions
from turnout.engine.target import Target
from turnout.model.ids import job_name
from turnout.schedule.explain import Coming, Node, Place
from turnout.store.agents import AgentState, Observed, live_agents
from turnout.store.nodes import last_node_size, node_sizes
from turnout.store.store import Connection, Store


class Places:
    """Every method may be called from any thread."""

    def __init__(self, targets: Mapping[str, Target], store: Store, sessions: Sessions) -> None:
        self._targets = targets
        self._store = store
        self._sessions = sessions

    def look_at(self, target: str, job: int) -> Place | None:
        """As it is now, for a run of `job`; None when there is no such target."""
        if target not in self._targets:
            return None
        trouble, now = self._targets[target].complaint, time.monotonic()
        up = [session for session in self._sessions.all() if session.target == target and session.heard]
        with self._store.read() as connection:
            sizes = node_sizes(connection, [session.agent for session in up])
            last = last_node_size(connection, target) if not up else None
            coming = self._coming(connection, target, job)
        site = self._targets[target].site
        place = Place(
            trouble=trouble, coming=coming, is_elastic=site.is_elastic, most=site.most, max_runs=site.max_runs,
            restraint=self._targets[target].restraint,
        )  # fmt: skip
        if last is not None:
            most = self._targets[target].max_runs("", last.cpus)
            gone = Node(name=last.node, max_runs=most, memory=last.memory, gpus=last.gpus,
                        gpu_memory=last.gpu_memory, is_up=False)  # fmt: skip
            return replace(place, nodes=[gone])
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
                    gpu_memory=size.gpu_memory if size is not None else (), gpu_rooms=room.gpus,
                    siblings=room.running.get(job, 0), seconds=room.seconds,
                    is_silent=self._sessions.is_silent(session.agent, now), is_preparing=session.preparing,
                )
            )  # fmt: skip
        return replace(place, nodes=nodes)

    def _coming(self, connection: Connection, place: str, job: int) -> list[Coming]:
        """The nodes of a site's that were asked for and not heard of, for runs of `job`."""
        if not self._targets[place].is_elastic:
            return []
        own = f"{place}#{job_name(job)}."
        found = []
        for agent in live_agents(connection):
            session = self._sessions.get(agent.id)
            if agent.target != place or not (agent.queue == place or agent.queue.startswith(own)):
                continue
            if agent.state is AgentState.LAUNCHING and (session is None or not session.heard):
                seen = agent.observed or Observed(phase="pending")
                found.append(
                    Coming(
                        node=agent.node, id=seen.id or (agent.handle or ""), detail=seen.detail, url=seen.url,
                        since=max(0.0, time.time() - agent.created), has_begun=seen.phase == "active",
                    )
                )  # fmt: skip
        return found
