"""Agents on targets: started where runs wait, watched, started again when they died with runs in hand, or given up."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.leftovers import Leftovers
from turnout.engine.sessions import Session, Sessions
from turnout.model.state import Reason
from turnout.plugin.provider import Failure, Handle, Launch, Phase, Provider
from turnout.schedule.machine import Lost, Returned
from turnout.store import agents
from turnout.store.agents import Agent, AgentState
from turnout.store.queue import busy_nodes, queues_with_waiting_runs
from turnout.store.store import Store
from turnout.store.writer import Tx

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SLOWEST_RETRY = 60.0
#: What an agent process needs of the hub's environment; the runs get their submitter's instead.
_AGENT_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "TURNOUT_HOME", "TZ")


@dataclass(slots=True)
class Target:
    """A place to run (`name` is that of the place): its provider, how the last starts of an agent there went, and what
    is wrong there.

    Each start puts the next one off, twice as long as the last time, until an agent that was started is heard.
    """

    name: str
    provider: Provider
    max_runs: int | None = None
    starts: int = 0
    not_before: float = 0.0
    trouble: str = ""
    last_try: float = -1.0
    prolog: Sequence[str] = ()
    epilog: Sequence[str] = ()
    ailing: str = ""
    """what the last agent there said is wrong"""

    def tried(self, now: float, trouble: str = "") -> None:
        if now != self.last_try:
            self.not_before = now + min(0.25 * 2.0**self.starts, _SLOWEST_RETRY)
            self.starts += 1
            self.last_try = now
        self.trouble = trouble

    def heard(self) -> None:
        self.starts, self.trouble, self.ailing = 0, "", ""

    @property
    def complaint(self) -> str:
        """What is wrong with it, as far as anybody knows."""
        return self.trouble or self.ailing

    def ask(self, question: Callable[[Provider], T], trouble: str = "") -> T | Failure:
        """Asks the provider. It is code of others: whatever it raises is a failure of this target and stops nothing
        else. `trouble` is what a failure means here."""
        try:
            return question(self.provider)
        except Failure as error:
            failure = error
        except OSError as error:
            failure = Failure(str(error))
        except Exception as error:
            _log.exception("the provider of %s raised what it may not", self.name)
            failure = Failure(str(error) or type(error).__name__)
        if trouble:
            said = f"{trouble}: {failure.message}"
            if said != self.trouble:
                _log.warning("%s: %s", self.name, said)
            self.trouble = said
        return failure


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
    cache_size: int = 100 << 30
    _known: dict[int, Agent] = field(default_factory=dict)
    _is_ending: bool = False
    _leftovers: Leftovers = field(init=False)

    def __post_init__(self) -> None:
        self._leftovers = Leftovers(self.nodes_dir, self._look_here, self._clear_here)

    def recover(self) -> None:
        """After a start: take up with every agent the store knows; what was never really launched is forgotten."""
        with self.store.read() as connection:
            found = agents.live_agents(connection)
        for agent in found:
            target = self.targets.get(agent.target)
            if target is None:
                self._give_up(agent, f"no target {agent.target}")
                continue
            self._known[agent.id] = agent
            if agent.handle is None:
                self._find(target, agent)
            if agent.id in self._known:
                self.dispatch.recover(agent)
        self._leftovers.recover([agent.id for agent in found])

    def tend(self, now: float) -> None:
        """One round: give up the lost, look after the dead, start what is needed. What is wrong with one target or its
        provider stays there."""
        for agent_id in self.sessions.lost(now):
            agent = self._known.get(agent_id)
            if agent is not None:
                self._give_up(agent, f"no sign of life for {self.sessions.lease_seconds:g} s")
        self._lose_dropped()
        self._find_unanswered(now)
        self._observe(now)
        self._start_needed(now)
        self._send_home()
        self._end_asked()
        self._leftovers.tend(now)

    def agents(self) -> list[Agent]:
        return list(self._known.values())

    def serves(self, target: str) -> bool:
        """Whether there are agents on that target."""
        return any(agent.target == target for agent in self.agents())

    def is_idle(self) -> bool:
        return not self._known

    def end_all(self) -> None:
        """Has the providers end every agent, whatever it does, in the next round. From any thread; idempotent."""
        self._is_ending = True

    def _end_asked(self) -> None:
        if not self._is_ending:
            return
        self._is_ending = False
        for target in self.targets.values():
            mine = [a.handle for a in self._known.values() if a.target == target.name and a.handle is not None]
            if mine:
                _log.warning("%s: %d agents that do not leave are ended", target.name, len(mine))
                target.ask(lambda provider: provider.cancel(mine), "its agents cannot be ended")  # noqa: B023

    def _lose_dropped(self) -> None:
        """What an agent has no more, though nobody heard how it ended, is lost there."""
        for agent, attempts in self.sessions.dropped().items():
            _log.warning("agent %d let go of %s", agent, sorted(attempts))
            lost = Lost(reason=Reason.INFRA, message="its agent let go of it without a word")
            self.store.write(lambda tx: steer.lose(tx, agent, lost, only=attempts))  # noqa: B023
            self.sessions.release(agent, attempts)

    def _send_home(self) -> None:
        """Nodes of a job's own go when the job has nothing more for them."""
        own = [agent for agent in self._known.values() if "#" in agent.queue]
        if not own:
            return
        with self.store.read() as connection:
            busy = busy_nodes(connection, [agent.queue for agent in own])
        for agent in own:
            session = self.sessions.get(agent.id)
            if session is not None and not session.held and not session.kept and agent.queue not in busy:
                session.leaving = True

    def _find_unanswered(self, now: float) -> None:
        """Looks again for agents whose target could not tell whether they were started."""
        for agent in list(self._known.values()):
            target = self.targets[agent.target]
            if agent.handle is None and now >= target.not_before and not self._find(target, agent):
                target.tried(now, target.trouble)

    def _find(self, target: Target, agent: Agent) -> bool:
        """Learns the handle of an agent whose launch was not answered, or that it was never started and is given up.
        False when its target cannot tell: then it keeps its lease, and no other is started in its place."""
        trouble = "it cannot be asked for an agent that may be there"
        found = target.ask(lambda provider: provider.find(agent.launch_token), trouble)
        if isinstance(found, Failure):
            return False
        if found is None:
            self._give_up(agent, "it was never started")
        else:
            self._take_handle(agent, found)
        return True

    def _observe(self, now: float) -> None:
        for target in self.targets.values():
            mine = {a.handle: a for a in self._known.values() if a.target == target.name and a.handle is not None}
            if not mine:
                continue
            seen = target.ask(lambda provider: provider.observe(list(mine)), "its agents cannot be looked at")  # noqa: B023
            if isinstance(seen, Failure):
                continue
            for handle, agent in mine.items():
                session = self.sessions.get(agent.id)
                if session is not None and session.trouble:
                    target.ailing = session.trouble
                if handle not in seen or seen[handle].phase is Phase.GONE:
                    self._bury(target, agent, now)
                elif session is not None and session.heard and not session.preparing and not session.trouble:
                    target.heard()

    def _bury(self, target: Target, agent: Agent, now: float) -> None:
        """An agent's process is gone. With runs in hand, another takes its place there; else the agent is history."""
        session = self.sessions.get(agent.id)
        if session is not None and (session.held or session.kept) and agent.state is not AgentState.GONE:
            found = target.ask(
                lambda provider: provider.find(agent.launch_token), "its dead agent cannot be looked for"
            )
            if isinstance(found, Failure):
                return
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
            waiting = queues_with_waiting_runs(connection)
        served = {agent.queue for agent in self._known.values()}
        due = {place: target.not_before for place, target in self.targets.items()}  # all of a round is one try
        for queue in waiting:
            place = queue.partition("#")[0]
            target = self.targets.get(place)
            if target is not None and queue not in served and now >= due[place]:
                self._start(target, queue, now)

    def _start(self, target: Target, queue: str, now: float) -> None:
        """One more agent there, for the runs of this queue: the target's own, or that of one node of a job."""
        launch_token = secrets.token_hex(16)
        node = self.node_name + "".join(queue.partition("#")[1:])

        def intent(tx: Tx) -> int:
            return agents.insert_agent(
                tx, target=target.name, queue=queue, node=node, directory="", launch_token=launch_token,
                token_hash=agents.hash_token(secrets.token_hex(32)),
            )  # fmt: skip

        agent_id = self.store.write(intent)
        agent = Agent(
            id=agent_id, target=target.name, queue=queue, node=node, directory=str(self.nodes_dir / str(agent_id)),
            launch_token=launch_token, handle=None, state=AgentState.LAUNCHING, created=time.time(),
        )  # fmt: skip
        self.sessions.open(Session(agent.id, target.name, agent.node, 1, queue=queue), now)
        self._launch(target, agent, now)

    def _launch(self, target: Target, agent: Agent, now: float) -> None:
        """Starts the agent's process with a fresh token; the old token (a dead process's) opens nothing any more."""
        token = secrets.token_hex(32)
        self.store.write(lambda tx: agents.set_token(tx, agent.id, agents.hash_token(token)))
        self.on_token_change(agent.id)
        order = {
            "address": self.agent_address, "token": token, "launch_token": agent.launch_token,
            "directory": agent.directory or str(self.nodes_dir / str(agent.id)),
            "cache": str(self.nodes_dir.parent / "cache" / "blobs"), "node": agent.node, "quota": self.cache_size,
            "prolog": list(target.prolog), "epilog": list(target.epilog),
        }  # fmt: skip
        answer = _start(target, agent.launch_token, agent.node, order)
        if isinstance(answer, Failure):
            _log.warning("no agent on %s: %s", target.name, answer)
            target.tried(now, f"no agent could be started: {answer.message}")
            if not self._holds(agent):
                self._forget(agent)
            return
        target.tried(now)
        self._take_handle(agent, answer)

    def _take_handle(self, agent: Agent, handle: str) -> None:
        self.store.write(lambda tx: agents.set_handle(tx, agent.id, handle))
        self._known[agent.id] = replace(agent, handle=handle)

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
        self._leftovers.add(agent.id, agent.handle)

    def _here(self) -> Target | None:
        """A target whose provider starts processes on this machine."""
        return next((each for each in self.targets.values() if each.provider.capabilities.same_host), None)

    def _look_here(self, handles: list[Handle]) -> list[Handle] | None:
        target = self._here()
        seen = target.ask(lambda provider: provider.observe(handles)) if target is not None else None
        return None if seen is None or isinstance(seen, Failure) else list(seen)

    def _clear_here(self, directory: Path) -> Handle | None:
        target = self._here()
        if target is None:
            return None
        _log.warning("ending what an agent left in %s", directory)
        order = {"directory": str(directory), "clear": True}
        handle = _start(target, secrets.token_hex(16), self.node_name, order)
        return None if isinstance(handle, Failure) else handle


def _start(target: Target, token: str, node: str, order: Mapping[str, object]) -> Handle | Failure:
    """A process of the agent's program with this order."""
    launch = Launch(
        token=token, node=node, directory=str(order["directory"]), argv=(sys.executable, "-m", "turnout.agent"),
        stdin=json.dumps(order).encode(), env={name: os.environ[name] for name in _AGENT_ENV if name in os.environ},
    )  # fmt: skip

    def submit(provider: Provider) -> Handle | Failure:
        (answer,) = provider.submit([launch])
        return answer

    return target.ask(submit)
