"""All agents, by the place they are at. What is wrong with one place, or slow there, stays there."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turnout.engine.dispatch import Dispatch
from turnout.engine.launching import Yard, make_launch
from turnout.engine.leftovers import Leftovers
from turnout.engine.pool import Pool
from turnout.engine.program import build
from turnout.engine.quiet import ALL, Quiet
from turnout.engine.roster import Means, give_up
from turnout.engine.sessions import Sessions
from turnout.engine.target import Target
from turnout.engine.works import Works
from turnout.model.ids import place_of, target_of
from turnout.plugin.provider import Failure, Handle
from turnout.schedule.record import Lost
from turnout.store import agents
from turnout.store.agents import Agent
from turnout.store.queue import queues_with_waiting_runs
from turnout.store.store import Store

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Fleet:
    """Places on this machine are looked after in the engine's one thread; others each in their own, for to ask there
    may take long."""

    store: Store
    sessions: Sessions
    dispatch: Dispatch
    targets: Mapping[str, Target]
    nodes_dir: Path
    agent_address: str
    node_name: str
    on_token_change: Callable[[int], None]
    cache_size: int = 100 << 30
    far_address: str = ""
    program: Callable[[], Path] | None = None
    """gives the agent as one file; None = it is made beside `nodes_dir`"""
    works: Works | None = None
    """for providers that launch runs"""
    quiet: Quiet | None = None
    on_news: Callable[[Agent], None] = lambda agent: None
    """is called with agents that should hear something, and may wait for it long"""
    _pools: dict[str, Pool] = field(default_factory=dict)
    _under_way: dict[str, threading.Thread] = field(default_factory=dict)
    _leftovers: Leftovers = field(init=False)
    _means: Means = field(init=False)

    def __post_init__(self) -> None:
        self._leftovers = Leftovers(self.nodes_dir, self._look_here, self._clear_here)
        self._means = Means(
            store=self.store, sessions=self.sessions, dispatch=self.dispatch,
            yard=Yard(
                nodes_dir=self.nodes_dir, agent_address=self.agent_address, far_address=self.far_address,
                cache_size=self.cache_size,
                program=self.program or (lambda: build(self.nodes_dir.parent / "cache")), live=self._live,
            ),
            works=self.works, node_name=self.node_name, on_token_change=self.on_token_change, on_gone=self._is_gone,
            on_news=self.on_news,
        )  # fmt: skip

    def recover(self) -> None:
        """After a start: take up with every agent the store knows; what was never really launched is forgotten."""
        with self.store.read() as connection:
            found = agents.live_agents(connection)
        for agent in found:
            pool = self._pool(agent.target)
            if pool is None:
                give_up(self._means, agent, Lost(message=f"no target {agent.target}"))
            else:
                pool.recover(agent)
        self._leftovers.recover([agent.id for agent in found])
        if self.works is not None:
            self.works.clear()

    def tend(self, now: float) -> None:
        """One round."""
        lost = self.sessions.lost(now)
        for each in list(self._pools.values()) if lost else ():
            each.give_up_silent(lost)
        waiting: dict[str, list[str]] = {}
        for queue in self._waiting(now):
            waiting.setdefault(place_of(queue), []).append(queue)
        for place in sorted({*waiting, *(place for place, pool in self._pools.items() if pool.has_business)}):
            pool = self._pool(place)
            if pool is not None:
                self._tend(pool, now, waiting.get(place, []))
        self._leftovers.tend(now)

    def agents(self) -> list[Agent]:
        return [agent for pool in list(self._pools.values()) for agent in pool.agents()]

    def is_idle(self) -> bool:
        return not self.agents() and not any(thread.is_alive() for thread in list(self._under_way.values()))

    def is_busy_at(self, target: str) -> bool:
        """Whether there is something left to do at one of its places."""
        return any(pool.has_business for place, pool in list(self._pools.items()) if target_of(place) == target)

    def wait(self) -> None:
        """Until what is under way at places elsewhere is over."""
        for thread in list(self._under_way.values()):
            thread.join()

    def end_all(self) -> None:
        """Has the providers end every agent, whatever it does, in the next round. From any thread; idempotent."""
        for pool in list(self._pools.values()):
            pool.end_all()

    def _waiting(self, now: float) -> list[str]:
        """The queues in which runs wait."""
        quiet = self.quiet if self.quiet is not None else Quiet()
        if quiet.is_empty(ALL, now):
            return []
        stamp = quiet.stamp(ALL)
        with self.store.read() as connection:
            found = queues_with_waiting_runs(connection)
        if not found:
            quiet.found_empty(ALL, stamp, now)
        return found

    def _pool(self, place: str) -> Pool | None:
        """The place's agents; None where there is no such place (any more)."""
        target = self.targets.get(place)
        if target is None:
            return None
        pool = self._pools.get(place)
        if pool is None or pool.target is not target:
            pool = self._pools[place] = Pool(target, self._means)
        return pool

    def _tend(self, pool: Pool, now: float, waiting: list[str]) -> None:
        place = pool.target.name
        if place in self._under_way and self._under_way[place].is_alive():
            return
        if pool.target.is_quick:
            pool.tend(now, waiting)
            return
        if not pool.needs_round(now, waiting):
            return

        def tend() -> None:
            try:
                pool.tend(now, waiting)
            except Exception:
                _log.exception("a round of %s failed; the next one tries again", place)

        # A daemon: a place that does not answer keeps no hub from ending.
        self._under_way[place] = threading.Thread(target=tend, name=f"place {place}", daemon=True)
        self._under_way[place].start()

    def _live(self) -> list[int]:
        with self.store.read() as connection:
            return [agent.id for agent in agents.live_agents(connection)]

    def _is_gone(self, agent: Agent) -> None:
        target = self.targets.get(agent.target)
        if target is None or target.is_here or not target.is_served:
            self._leftovers.add(agent.id, agent.handle)

    def _here(self) -> Target | None:
        """A target whose provider starts processes on this machine."""
        return next((each for each in self.targets.values() if each.is_here), None)

    def _look_here(self, handles: list[Handle]) -> list[Handle] | None:
        target = self._here()
        seen = target.ask(lambda provider: provider.observe(handles)) if target is not None else None
        return None if seen is None or isinstance(seen, Failure) else list(seen)

    def _clear_here(self, directory: Path) -> Handle | None:
        target = self._here()
        if target is None:
            return None
        _log.warning("ending what an agent left in %s", directory)
        launch = make_launch(secrets.token_hex(16), self.node_name, {"directory": str(directory), "clear": True})
        answer = target.ask(lambda provider: provider.submit([launch])[0])
        return None if isinstance(answer, Failure) else answer
