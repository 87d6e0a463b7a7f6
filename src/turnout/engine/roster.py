"""The agents of one place as the hub knows them: written down before they are started, and until they are history."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.launching import Yard
from turnout.engine.sessions import Session, Sessions
from turnout.engine.target import Target
from turnout.engine.works import Works
from turnout.model.ids import target_of
from turnout.model.spec import Resources
from turnout.plugin.provider import Handle
from turnout.schedule.record import Lost, Returned
from turnout.schedule.staffing import Free, Opening, Post, Site
from turnout.store import agents
from turnout.store.agents import Agent, AgentState, Observed
from turnout.store.store import Store
from turnout.store.writer import Tx

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What all places share. `works` is for providers that launch runs; `on_gone` is told of agents that are history
    here, `on_news` of those that should hear something, and wait."""

    store: Store
    sessions: Sessions
    dispatch: Dispatch
    yard: Yard
    works: Works | None
    node_name: str
    on_token_change: Callable[[int], None]
    on_gone: Callable[[Agent], None]
    on_news: Callable[[Agent], None]


@dataclass(slots=True)
class Roster:
    """For one thread at a time, but for `all`, `get` and `give_up`: another thread may give up whoever is here at any
    moment."""

    target: Target
    means: Means
    _known: dict[int, Agent] = field(default_factory=dict)
    _lock: AbstractContextManager[bool] = field(default_factory=threading.Lock)

    def all(self) -> list[Agent]:
        return list(self._known.values())

    def get(self, agent: int) -> Agent | None:
        return self._known.get(agent)

    def add(self, group: Iterable[Agent]) -> None:
        with self._lock:
            self._known.update({agent.id: agent for agent in group})

    def take_on(self, wanted: Sequence[Opening], now: float) -> list[Agent]:
        """Writes down that they are to be started. They are here from now on: one of which nothing more is heard, also
        because of a fault of ours, is looked for by its token."""
        tokens = [secrets.token_hex(16) for _ in wanted]

        def intent(tx: Tx) -> list[int]:
            return [
                agents.insert_agent(
                    tx, target=self.target.name, queue=each.queue, node=self._node(each), directory="",
                    launch_token=token, token_hash=agents.hash_token(secrets.token_hex(32)), number=each.number,
                    seat=each.seat, need=each.need,
                )
                for each, token in zip(wanted, tokens, strict=True)
            ]  # fmt: skip

        made = [
            Agent(
                id=number, target=self.target.name, queue=each.queue, node=self._node(each),
                directory=self.means.yard.directory(self.target, number), launch_token=token, handle=None,
                state=AgentState.LAUNCHING, created=time.time(), number=each.number, seat=each.seat, need=each.need,
            )
            for number, each, token in zip(self.means.store.write(intent), wanted, tokens, strict=True)
        ]  # fmt: skip
        for agent in made:
            session = Session(agent.id, self.target.name, agent.node, 1, queue=agent.queue)
            self.means.sessions.open(session, now, is_leased=self.target.is_here)
        self.add(made)
        return made

    def new_tokens(self, group: Sequence[Agent]) -> dict[int, str]:
        """For the next process of each; the old token (a dead process's) opens nothing any more."""
        tokens = {agent.id: secrets.token_hex(32) for agent in group}

        def work(tx: Tx) -> None:
            for agent, token in tokens.items():
                agents.set_token(tx, agent, agents.hash_token(token))

        self.means.store.write(work)
        for agent in tokens:
            self.means.on_token_change(agent)
        return tokens

    def set_handles(self, handles: Mapping[int, Handle]) -> list[int]:
        """Gives those that were given up meanwhile."""

        def work(tx: Tx) -> None:
            for agent, handle in handles.items():
                agents.set_handle(tx, agent, handle)

        self.means.store.write(work)
        return [agent for agent, handle in handles.items() if not self._change(agent, handle=handle)]

    def set_observed(self, seen: Mapping[int, Observed]) -> None:
        known = dict(self._known)
        changed = {agent: each for agent, each in seen.items() if agent in known and known[agent].observed != each}
        if changed:
            self.means.store.write(lambda tx: agents.set_observed(tx, changed))
            for agent, each in changed.items():
                self._change(agent, observed=each)

    def give_up(self, agent: Agent, fact: Lost) -> None:
        """The agent is lost: its token is worth nothing, its runs go back to the queue or end."""
        self._remove(agent)
        give_up(self.means, agent, fact)

    def forget(self, agent: Agent) -> None:
        """The agent is over. If it was granted something at the last moment, that goes back to the queue as well."""
        self._remove(agent)
        _drop(self.means, agent, Returned())

    def session(self, agent: Agent) -> Session | None:
        return self.means.sessions.get(agent.id)

    def is_heard(self, agent: Agent) -> bool:
        session = self.session(agent)
        return session is not None and session.heard

    def has_runs(self, agent: Agent) -> bool:
        session = self.session(agent)
        return session is not None and bool(session.held)

    def posts(self) -> list[Post]:
        """All of them, as who decides on more sees them."""
        site = self.target.site
        return [self._post(agent, site) for agent in self.all()]

    def _change(self, agent: int, **changed: Any) -> bool:
        """False when it is not here any more."""
        with self._lock:
            if agent in self._known:
                self._known[agent] = replace(self._known[agent], **changed)
            return agent in self._known

    def _remove(self, agent: Agent) -> None:
        with self._lock:
            self._known.pop(agent.id, None)

    def _post(self, agent: Agent, site: Site) -> Post:
        session = self.session(agent)
        post = Post(queue=agent.queue, number=agent.number, seat=agent.seat, size=site.room(agent.need))
        if session is None or not session.heard:
            phase = agent.observed.phase if agent.observed is not None else "pending"
            is_begun = phase not in ("pending", "unknown") and not self.target.launches_runs
            has_run = session is not None and bool(session.held)  # as its provider tells
            is_pending = agent.state is AgentState.LAUNCHING and not is_begun and not has_run
            # Nobody counts on a machine that does not answer, where there are others.
            is_in_doubt = bool(agent.seat) and (agent.handle is None or phase == "unknown")
            return replace(post, is_pending=is_pending, free=Free() if is_in_doubt else None)
        with self.means.sessions.lock:
            seconds = post.size.seconds if session.seconds is None else session.seconds
            # What a machine is asked for is what the run needed for which its agent was started: it has more.
            size = Resources(seconds=seconds) if agent.seat else replace(post.size, seconds=seconds)
            return replace(post, size=size, free=_free(session, agent, site))

    def _node(self, opening: Opening) -> str:
        if opening.seat:
            here = opening.seat
        elif self.target.is_here:
            here = self.means.node_name
        else:
            here = target_of(self.target.name)
        if "#" not in opening.queue and self.target.is_elastic:
            return f"{here}.{opening.number}"
        return here + "".join(opening.queue.partition("#")[1:])


def _free(session: Session, agent: Agent, site: Site) -> Free:
    """What an agent that was heard has left. If a site gave less to one that does nothing than it was asked for, the
    next would get no more: what was asked for counts there."""
    if session.is_closed or session.departing or session.seconds == 0.0:
        return Free()
    if session.preparing:
        return site.free(agent.need, agent.seat)
    room, gpus = session.room(), site.free(agent.need, agent.seat).gpus
    if session.held or gpus is None or len(gpus) < len(room.gpus):
        gpus = room.gpus
    return Free(slots=max(0.0, room.slots), memory=room.memory, gpus=gpus)


def give_up(means: Means, agent: Agent, fact: Lost) -> None:
    """The agent is lost, and with it what it had."""
    _log.warning("agent %d on %s is lost: %s", agent.id, agent.node, fact.message)
    _drop(means, agent, fact)


def _drop(means: Means, agent: Agent, fact: Lost | Returned) -> None:
    def work(tx: Tx) -> None:
        agents.set_gone(tx, agent.id)
        steer.lose(tx, agent.id, fact)

    means.store.write(work)
    means.on_token_change(agent.id)
    means.sessions.drop(agent.id)
    means.on_gone(agent)
