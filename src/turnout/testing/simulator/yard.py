"""A provider whose machines are simulated: it starts agents, and tells which of them live."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import ClassVar

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.testing.simulator.agent import Agent
from turnout.testing.simulator.node import Machine


class Yard(Provider):
    """One machine. `make` gives the agent of a launch, not begun; `failing` is the chance that a launch fails."""

    name: ClassVar[str] = "yard"
    capabilities: ClassVar[Capabilities] = Capabilities(same_host=True)

    def __init__(self, machine: Machine, make: Callable[[Machine, str, str], Agent]) -> None:
        super().__init__({})
        self.machine = machine
        self.agents: dict[Handle, Agent] = {}
        self.failing = 0.0
        self._make = make
        self._tokens: dict[str, Handle] = {}

    @property
    def agent(self) -> Agent | None:
        """The newest, if it lives."""
        newest = self.agents[max(self.agents, key=int)] if self.agents else None
        return newest if newest is not None and newest.alive else None

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._start(launch) for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        world = self.machine.world
        if world.chance(self.failing):
            world.sometimes("could not look")
            raise Failure("could not look")
        alive = (handle for handle in handles if self.agents[handle].alive)
        return {handle: Observation(Phase.ACTIVE) for handle in alive}

    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in handles:
            self.agents[handle].kill()

    def find(self, token: str) -> Handle | None:
        return self._tokens.get(token)

    def check(self) -> list[Finding]:
        return []

    def _start(self, launch: Launch) -> Handle | Failure:
        world = self.machine.world
        if world.chance(self.failing):
            world.sometimes("launch failed")
            return Failure("no room in the yard")
        handle = str(len(self.agents) + 1)
        order = json.loads(launch.stdin)
        agent = self.agents[handle] = self._make(self.machine, order["token"], order["directory"])
        self._tokens[launch.token] = handle
        world.note("yard", "launches", self.machine.name, "agent", handle)
        agent.begin()  # the process is there; its program begins a little later
        agent.after(world.rng.uniform(0.02, 0.2), agent.start)
        if world.chance(self.failing):
            world.sometimes("agent died at its start")
            agent.after(world.rng.uniform(0.0, 0.4), agent.kill)
        return handle
