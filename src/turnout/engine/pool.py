"""The agents of one place: started where runs wait, watched, started again when they died with runs in hand, or given
up."""

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

from turnout.engine import steer
from turnout.engine.dispatch import Dispatch
from turnout.engine.sessions import Session, Sessions
from turnout.engine.target import Target
from turnout.model.ids import place_of, target_of
from turnout.model.state import Reason
from turnout.plugin.provider import Failure, Handle, Launch, Phase, Provider
from turnout.schedule.machine import Lost, Returned
from turnout.store import agents
from turnout.store.agents import Agent, AgentState
from turnout.store.queue import busy_nodes, queues_with_waiting_runs
from turnout.store.store import Store
from turnout.store.writer import Tx

_log = logging.getLogger(__name__)
#: What an agent process needs of the hub's environment; the runs get their submitter's instead.
_AGENT_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "TURNOUT_HOME", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What all pools share. `program` gives the agent as one file, for other machines; `on_gone` is told of agents that
    are history, here."""

    store: Store
    sessions: Sessions
    dispatch: Dispatch
    nodes_dir: Path
    agent_address: str
    node_name: str
    on_token_change: Callable[[int], None]
    on_gone: Callable[[Agent], None]
    program: Callable[[], Path]
    cache_size: int


@dataclass(slots=True)
class Pool:
    """For one thread at a time, but for `agents`."""

    target: Target
    means: Means
    _known: dict[int, Agent] = field(default_factory=dict)
    _is_ending: bool = False

    @property
    def is_here(self) -> bool:
        """Whether its provider is asked on this machine, and so never for long."""
        return self.target.provider.capabilities.same_host

    def agents(self) -> list[Agent]:
        return list(self._known.values())

    def recover(self, agent: Agent) -> None:
        """After a start of the hub: takes up with an agent that the store knows."""
        self._known[agent.id] = agent
        if agent.handle is None and self.is_here:
            self._find(agent)
        if agent.id in self._known:
            self.means.dispatch.recover(agent)

    def end_all(self) -> None:
        """Has the provider end every agent, whatever it does, in the next round. Idempotent."""
        self._is_ending = True

    def tend(self, now: float, waiting: Sequence[str]) -> None:
        """One round: give up the lost, look after the dead, start what the queues of this place need. `waiting` are
        those in which runs waited when it began."""
        before = len(self._known)
        sessions = self.means.sessions
        for agent_id in sessions.lost(now):
            agent = self._known.get(agent_id)
            if agent is not None:
                self._give_up(agent, f"no sign of life for {sessions.lease_seconds:g} s")
        self._lose_dropped()
        self._find_unanswered(now)
        self._observe(now)
        self._start_needed(now, waiting if len(self._known) == before else self._waiting())
        self._send_home()
        self._end_asked()
        if not self._known:
            self.target.ask(lambda provider: provider.rest())

    def _end_asked(self) -> None:
        if not self._is_ending:
            return
        self._is_ending = False
        mine = [agent.handle for agent in self._known.values() if agent.handle is not None]
        if mine:
            _log.warning("%s: %d agents that do not leave are ended", self.target.name, len(mine))
            self.target.ask(lambda provider: provider.cancel(mine), "its agents cannot be ended")

    def _lose_dropped(self) -> None:
        """What an agent has no more, though nobody heard how it ended, is lost there."""
        for agent, attempts in self.means.sessions.dropped().items():
            if agent not in self._known:
                continue
            _log.warning("agent %d let go of %s", agent, sorted(attempts))
            lost = Lost(reason=Reason.INFRA, message="its agent let go of it without a word")
            self.means.store.write(lambda tx: steer.lose(tx, agent, lost, only=attempts))  # noqa: B023
            self.means.sessions.release(agent, attempts)

    def _send_home(self) -> None:
        """Nodes of a job's own go when the job has nothing more for them."""
        own = [agent for agent in self._known.values() if "#" in agent.queue]
        if not own:
            return
        with self.means.store.read() as connection:
            busy = busy_nodes(connection, [agent.queue for agent in own])
        for agent in own:
            session = self.means.sessions.get(agent.id)
            if session is not None and not session.held and not session.kept and agent.queue not in busy:
                session.leaving = True

    def _find_unanswered(self, now: float) -> None:
        """Looks again for agents whose target could not tell whether they were started."""
        for agent in self.agents():
            if agent.handle is None and now >= self.target.not_before and not self._find(agent):
                self.target.tried(now, self.target.trouble)

    def _find(self, agent: Agent) -> bool:
        """Learns the handle of an agent whose launch was not answered, or that it was never started and is given up.
        False when its target cannot tell: then it keeps its lease, and no other is started in its place."""
        trouble = "it cannot be asked for an agent that may be there"
        found = self.target.ask(lambda provider: provider.find(agent.launch_token), trouble)
        if isinstance(found, Failure):
            return False
        if found is None:
            self._give_up(agent, "it was never started")
        else:
            self._take_handle(agent, found)
        return True

    def _observe(self, now: float) -> None:
        mine = {agent.handle: agent for agent in self._known.values() if agent.handle is not None}
        if not mine:
            return
        seen = self.target.ask(lambda provider: provider.observe(list(mine)), "its agents cannot be looked at")
        if isinstance(seen, Failure):
            return
        for handle, agent in mine.items():
            session = self.means.sessions.get(agent.id)
            if session is not None and session.trouble:
                self.target.ailing = session.trouble
            if handle not in seen or seen[handle].phase is Phase.GONE:
                self._bury(agent, now)
            elif session is not None and session.heard and not session.preparing and not session.trouble:
                self.target.heard()

    def _bury(self, agent: Agent, now: float) -> None:
        """An agent's process is gone. With runs in hand, another takes its place there; else the agent is history."""
        session = self.means.sessions.get(agent.id)
        if session is not None and (session.held or session.kept) and agent.state is not AgentState.GONE:
            trouble = "its dead agent cannot be looked for"
            found = self.target.ask(lambda provider: provider.find(agent.launch_token), trouble)
            if isinstance(found, Failure):
                return
            if found is not None and found != agent.handle:  # an earlier hub started it again and could not say so
                self._take_handle(agent, found)
            elif now >= self.target.not_before:
                _log.warning("agent %d died with %d runs in hand; starting it again", agent.id, len(session.held))
                was_heard, session.heard = session.heard, False
                self._launch(agent, now)
                if was_heard:
                    self.means.sessions.renew(agent.id, now)
            return
        self._forget(agent)

    def _waiting(self) -> list[str]:
        """The queues of this place in which runs wait now: what an agent had that is gone may be among them."""
        with self.means.store.read() as connection:
            return [queue for queue in queues_with_waiting_runs(connection) if place_of(queue) == self.target.name]

    def _start_needed(self, now: float, waiting: Sequence[str]) -> None:
        if now < self.target.not_before:  # all of a round is one try
            return
        served = {agent.queue for agent in self._known.values()}
        for queue in waiting:
            if queue not in served:
                self._start(queue, now)

    def _start(self, queue: str, now: float) -> None:
        """One more agent there, for the runs of this queue: the place's own, or that of one node of a job."""
        launch_token = secrets.token_hex(16)
        here = self.means.node_name if self.is_here else target_of(self.target.name)
        node = here + "".join(queue.partition("#")[1:])

        def intent(tx: Tx) -> int:
            return agents.insert_agent(
                tx, target=self.target.name, queue=queue, node=node, directory="", launch_token=launch_token,
                token_hash=agents.hash_token(secrets.token_hex(32)),
            )  # fmt: skip

        agent_id = self.means.store.write(intent)
        agent = Agent(
            id=agent_id, target=self.target.name, queue=queue, node=node, directory=self._directory(agent_id),
            launch_token=launch_token, handle=None, state=AgentState.LAUNCHING, created=time.time(),
        )  # fmt: skip
        self.means.sessions.open(Session(agent.id, self.target.name, agent.node, 1, queue=queue), now)
        self._launch(agent, now)

    def _directory(self, agent: int) -> str:
        return str(self.means.nodes_dir / str(agent)) if self.is_here else f"nodes/{agent}"

    def _launch(self, agent: Agent, now: float) -> None:
        """Starts the agent's process with a fresh token; the old token (a dead process's) opens nothing any more."""
        token = secrets.token_hex(32)
        self.means.store.write(lambda tx: agents.set_token(tx, agent.id, agents.hash_token(token)))
        self.means.on_token_change(agent.id)
        places = {
            "address": self.means.agent_address, "cache": str(self.means.nodes_dir.parent / "cache" / "blobs"),
        } if self.is_here else {"address": "agent.sock", "cache": "cache/blobs"}  # fmt: skip
        order = {
            **places, "token": token, "launch_token": agent.launch_token,
            "directory": agent.directory or self._directory(agent.id), "node": agent.node,
            "quota": self.means.cache_size, "prolog": list(self.target.prolog), "epilog": list(self.target.epilog),
        }  # fmt: skip
        answer = self._submit(agent, order)
        if isinstance(answer, Failure):
            _log.warning("no agent on %s: %s", self.target.name, answer)
            self.target.tried(now, f"no agent could be started: {answer.message}")
            if not self._holds(agent):
                self._forget(agent)
            return
        self.target.tried(now)
        self._take_handle(agent, answer)

    def _submit(self, agent: Agent, order: Mapping[str, object]) -> Handle | Failure:
        def submit(provider: Provider) -> Handle | Failure:
            program = "" if self.is_here else str(self.means.program())
            (answer,) = provider.submit(
                [make_launch(agent.launch_token, agent.node, order, program, self.target.python)]
            )
            return answer

        return self.target.ask(submit)

    def _take_handle(self, agent: Agent, handle: str) -> None:
        self.means.store.write(lambda tx: agents.set_handle(tx, agent.id, handle))
        self._known[agent.id] = replace(agent, handle=handle)

    def _holds(self, agent: Agent) -> bool:
        session = self.means.sessions.get(agent.id)
        return session is not None and bool(session.held)

    def _give_up(self, agent: Agent, why: str) -> None:
        """The agent is lost: its token is worth nothing, its runs go back to the queue or end."""
        self._known.pop(agent.id, None)
        give_up(self.means, agent, why)

    def _forget(self, agent: Agent) -> None:
        """The agent is over. If it was granted something at the last moment, that goes back to the queue as well."""
        self._known.pop(agent.id, None)
        _drop(self.means, agent, Returned())


def give_up(means: Means, agent: Agent, why: str) -> None:
    """The agent is lost, and with it what it had."""
    _log.warning("agent %d on %s is lost: %s", agent.id, agent.node, why)
    _drop(means, agent, Lost(message=why))


def _drop(means: Means, agent: Agent, fact: Lost | Returned) -> None:
    def work(tx: Tx) -> None:
        agents.set_gone(tx, agent.id)
        steer.lose(tx, agent.id, fact)

    means.store.write(work)
    means.on_token_change(agent.id)
    means.sessions.drop(agent.id)
    means.on_gone(agent)


def make_launch(token: str, node: str, order: Mapping[str, object], program: str = "", python: str = "") -> Launch:
    """A process of the agent's program with this order: of the one that is installed here, or of the file `program`."""
    env = {name: os.environ[name] for name in _AGENT_ENV if name in os.environ}
    return Launch(
        token=token, node=node, directory=str(order["directory"]), stdin=json.dumps(order).encode(),
        argv=() if program else (sys.executable, "-m", "turnout.agent"), env={} if program else env,
        program=program, python=python,
    )  # fmt: skip
