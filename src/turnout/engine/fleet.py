"""Agents on targets: started where runs wait, watched, started again when they died with runs in hand, or given up."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.sessions import Session, Sessions
from turnout.plugin.provider import Failure, Launch, Phase, Provider
from turnout.schedule.machine import Lost, Returned
from turnout.store import agents
from turnout.store.agents import Agent, AgentState
from turnout.store.queue import targets_with_waiting_runs
from turnout.store.store import Store
from turnout.store.writer import Tx

_log = logging.getLogger(__name__)
_SLOWEST_RETRY = 60.0
#: What an agent process needs of the hub's environment; the runs get their submitter's instead.
_AGENT_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "TURNOUT_HOME", "TZ")


@dataclass(slots=True)
class Target:
    """A named place to run: its provider, and how the last starts of an agent there went.

    Each start puts the next one off, twice as long as the last time, until an agent that was started is heard.
    """

    name: str
    provider: Provider
    max_runs: int | None = None
    starts: int = 0
    not_before: float = 0.0
    trouble: str = ""

    def tried(self, now: float, trouble: str = "") -> None:
        self.not_before = now + min(0.25 * 2.0**self.starts, _SLOWEST_RETRY)
        self.starts += 1
        self.trouble = trouble

    def heard(self) -> None:
        self.starts, self.trouble = 0, ""


@dataclass(slots=True)
class Fleet:
    """All of it runs in the engine's one thread."""

    store: Store
    sessions: Sessions
    dispatch: Dispatch
    targets: Mapping[str, Target]
    nodes_dir: Path
    agent_address: str
    node_name: str
    on_token_change: Callable[[int], None]
    _known: dict[int, Agent] = field(default_factory=dict)

    def recover(self) -> None:
        """After a start: take up with every agent the store knows; what was never really launched is forgotten."""
        with self.store.read() as connection:
            found = agents.live_agents(connection)
        for agent in found:
            target = self.targets.get(agent.target)
            handle = agent.handle
            if target is not None and handle is None:
                handle = target.provider.find(agent.launch_token)
            if target is None or handle is None:
                self._give_up(agent, "it was never started" if target is not None else f"no target {agent.target}")
                continue
            if agent.handle is None:
                self.store.write(lambda tx, a=agent.id, h=handle: agents.set_handle(tx, a, h))  # type: ignore[misc]
            self._known[agent.id] = _with_handle(agent, handle)
            self.dispatch.recover(agent)

    def tend(self, now: float) -> None:
        """One round: give up the lost, look after the dead, start what is needed."""
        for agent_id in self.sessions.lost(now):
            agent = self._known.get(agent_id)
            if agent is not None:
                self._give_up(agent, f"no sign of life for {self.sessions.lease_seconds:g} s")
        self._observe(now)
        self._start_needed(now)

    def agents(self) -> list[Agent]:
        return list(self._known.values())

    def is_idle(self) -> bool:
        return not self._known

    def _observe(self, now: float) -> None:
        for target in self.targets.values():
            mine = {a.handle: a for a in self._known.values() if a.target == target.name and a.handle is not None}
            if not mine:
                continue
            try:
                seen = target.provider.observe(list(mine))
            except (Failure, OSError) as error:
                _log.warning("could not look at %s: %s", target.name, error)
                continue
            for handle, agent in mine.items():
                session = self.sessions.get(agent.id)
                if handle not in seen or seen[handle].phase is Phase.GONE:
                    self._bury(target, agent, now)
                elif session is not None and session.heard:
                    target.heard()

    def _bury(self, target: Target, agent: Agent, now: float) -> None:
        """An agent's process is gone. With runs in hand, another takes its place there; else the agent is history."""
        session = self.sessions.get(agent.id)
        if session is not None and session.held and agent.state is not AgentState.GONE:
            found = target.provider.find(agent.launch_token)
            if found is not None and found != agent.handle:  # an earlier hub started it again and could not say so
                self._take_handle(agent, found)
            elif now >= target.not_before:
                _log.warning("agent %d died with %d runs in hand; starting it again", agent.id, len(session.held))
                was_heard, session.heard = session.heard, False
                self._launch(target, agent, now)
                if was_heard:
                    self.sessions.renew(agent.id, now)
            return
        self._forget(agent)

    def _start_needed(self, now: float) -> None:
        with self.store.read() as connection:
            waiting = targets_with_waiting_runs(connection, self.targets)
        for name in waiting:
            target = self.targets.get(name)
            if target is None or now < target.not_before or any(a.target == name for a in self._known.values()):
                continue
            launch_token = secrets.token_hex(16)

            def intent(tx: Tx, name: str = name, launch_token: str = launch_token) -> int:
                return agents.insert_agent(
                    tx, target=name, node=self.node_name, directory="", launch_token=launch_token,
                    token_hash=agents.hash_token(secrets.token_hex(32)),
                )  # fmt: skip

            agent_id = self.store.write(intent)
            agent = Agent(
                id=agent_id, target=name, node=self.node_name, directory=str(self.nodes_dir / str(agent_id)),
                launch_token=launch_token, handle=None, state=AgentState.LAUNCHING, created=time.time(),
            )  # fmt: skip
            self.sessions.open(Session(agent.id, name, agent.node, 1), now)
            self._launch(target, agent, now)

    def _launch(self, target: Target, agent: Agent, now: float) -> None:
        """Starts the agent's process with a fresh token; the old token (a dead process's) opens nothing any more."""
        token = secrets.token_hex(32)
        self.store.write(lambda tx: agents.set_token(tx, agent.id, agents.hash_token(token)))
        self.on_token_change(agent.id)
        order = {
            "address": self.agent_address, "token": token, "launch_token": agent.launch_token,
            "directory": agent.directory or str(self.nodes_dir / str(agent.id)),
            "cache": str(self.nodes_dir.parent / "cache" / "blobs"),
        }  # fmt: skip
        launch = Launch(
            token=agent.launch_token, node=agent.node, directory=order["directory"],
            argv=(sys.executable, "-m", "turnout.agent"), stdin=json.dumps(order).encode(),
            env={name: os.environ[name] for name in _AGENT_ENV if name in os.environ},
        )  # fmt: skip
        try:
            (answer,) = target.provider.submit([launch])
        except (Failure, OSError) as error:
            answer = error if isinstance(error, Failure) else Failure(str(error))
        if isinstance(answer, Failure):
            _log.warning("no agent on %s: %s", target.name, answer)
            target.tried(now, answer.message)
            if not self._holds(agent):
                self._forget(agent)
            return
        target.tried(now)
        self._take_handle(agent, answer)

    def _take_handle(self, agent: Agent, handle: str) -> None:
        self.store.write(lambda tx: agents.set_handle(tx, agent.id, handle))
        self._known[agent.id] = _with_handle(agent, handle)

    def _holds(self, agent: Agent) -> bool:
        session = self.sessions.get(agent.id)
        return session is not None and bool(session.held)

    def _give_up(self, agent: Agent, why: str) -> None:
        """The agent is lost: its token is worth nothing, its runs go back to the queue or end."""
        _log.warning("agent %d on %s is lost: %s", agent.id, agent.node, why)
        self._drop(agent, Lost(message=why))

    def _forget(self, agent: Agent) -> None:
        """The agent is over. If it was granted something at the last moment, that goes back to the queue as well."""
        self._drop(agent, Returned())

    def _drop(self, agent: Agent, fact: Lost | Returned) -> None:
        def work(tx: Tx) -> None:
            agents.set_gone(tx, agent.id)
            steer.lose(tx, agent.id, fact)

        self.store.write(work)
        self.on_token_change(agent.id)
        self.sessions.drop(agent.id)
        self._known.pop(agent.id, None)


def _with_handle(agent: Agent, handle: str) -> Agent:
    return Agent(
        id=agent.id, target=agent.target, node=agent.node, directory=agent.directory,
        launch_token=agent.launch_token, handle=handle, state=agent.state, created=agent.created, cpus=agent.cpus,
    )  # fmt: skip
