"""An agent as its provider gets it: the order it begins with, and the program that reads it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from turnout.engine.target import Target
from turnout.plugin.provider import Launch, Need, Work
from turnout.schedule.walltime import usable
from turnout.store.agents import Agent

#: What an agent process needs of the hub's environment; the runs get their submitter's instead.
_AGENT_ENV = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "TURNOUT_HOME", "TZ", "XDG_RUNTIME_DIR", "DOCKER_HOST",
    "DOCKER_CONTEXT", "DOCKER_CONFIG", "CONTAINER_HOST", "CONTAINERS_CONF", "REGISTRY_AUTH_FILE",
)  # fmt: skip
#: What a site was asked for, and gave after who knows how long, waits so many seconds for a hub that is not there.
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Yard:
    """Where agents on this machine live, how they reach the hub, and the program of those elsewhere. `far_address` is
    where the hub can be reached from other machines, "" = nowhere. `live` are the agents that are not gone, by what is
    on the disk."""

    nodes_dir: Path
    agent_address: str
    far_address: str
    program: Callable[[], Path]
    cache_size: int
    live: Callable[[], Collection[int]] = tuple

    def directory(self, target: Target, agent: int) -> str:
        return str(self.nodes_dir / str(agent)) if target.is_here else f"nodes/{agent}"

    def launch(self, target: Target, agent: Agent, token: str, work: Work | None = None) -> Launch:
        """A process for this agent, which makes itself known by `token`."""
        order = self._order(target, agent, token)
        program = "" if target.is_here else str(self.program())
        made = make_launch(agent.launch_token, agent.node, order, program, target.terms.python)
        need = agent.need
        wanted = Need(cpus=need.cpus, memory=need.memory, gpus=need.gpus, seconds=need.seconds)
        return replace(made, need=wanted, seat=agent.seat, work=work)

    def clearing(self, target: Target, agent: Agent, token: str) -> Launch:
        """A process that only ends what this agent, who is gone, left on another machine."""
        order = {"directory": agent.directory or self.directory(target, agent.id), "clear": True}
        made = make_launch(token, agent.node, order, str(self.program()), target.terms.python)
        return replace(made, seat=agent.seat)

    def _ways_back(self, target: Target) -> list[str]:
        """How an agent elsewhere may reach the hub, the first that works first."""
        near = self.agent_address if target.launches_runs else "agent.sock"
        return [near, "file:relay.address", *([self.far_address] if self.far_address else [])]

    def _order(self, target: Target, agent: Agent, token: str) -> dict[str, object]:
        places = {
            "address": self.agent_address, "cache": str(self.nodes_dir.parent / "cache" / "blobs"),
        } if target.is_here else {"address": self._ways_back(target), "cache": "cache/blobs"}  # fmt: skip
        order: dict[str, object] = {
            **places, "token": token, "launch_token": agent.launch_token,
            "directory": agent.directory or self.directory(target, agent.id), "node": agent.node,
            "quota": self.cache_size, "prolog": list(target.terms.prolog), "epilog": list(target.terms.epilog),
            "max_runs_per_gpu": target.terms.max_runs_per_gpu, "avoid_foreign_gpus": target.terms.avoid_foreign_gpus,
            "gpu_indices": list(target.terms.gpu_indices), "contained": target.provider.capabilities.containers,
        }  # fmt: skip
        able, seconds = target.provider.capabilities, agent.need.seconds
        if not target.is_here and not able.elastic:  # a machine that stays: earlier agents may have left something
            order["live"] = sorted(self.live())
        if target.is_elastic:  # it has what it was given of its machine, and goes when the site wants that back
            order["given"] = {name: value for name, value in asdict(agent.need).items() if name != "seconds"}
            order["yields"] = True
        if able.elastic and not target.launches_runs:
            order["patience"] = _PATIENCE
        if able.wall_time and seconds is not None:
            order["seconds"] = usable(seconds, target.terms.drain)
        return order


def make_launch(token: str, node: str, order: Mapping[str, object], program: str = "", python: str = "") -> Launch:
    """A process of the agent's program with this order: of the one that is installed here, or of the file `program`."""
    env = {name: os.environ[name] for name in _AGENT_ENV if name in os.environ}
    return Launch(
        token=token, node=node, directory=str(order["directory"]), stdin=json.dumps(order).encode(),
        argv=() if program else (sys.executable, "-m", "turnout.agent"), env={} if program else env,
        program=program, python=python,
    )  # fmt: skip
