"""A site that gives nodes: they wait in its queue, have their time, are taken away, and begin again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from turnout.plugin.provider import Capabilities, Failure, Handle, Launch, Observation, Phase
from turnout.testing.simulator.agent import Agent
from turnout.testing.simulator.node import Machine
from turnout.testing.simulator.world import LEASE
from turnout.testing.simulator.yard import Yard

#: Between the site's warning and the end of all that a job left.
_WARNING = LEASE / 2


@dataclass(slots=True)
class _Job:
    launch: Launch
    phase: Phase = Phase.PENDING
    reason: str = ""
    agent: Agent | None = None


class Siding(Yard):
    """What it has is gone with the job: nothing of a job outlives it."""

    name: ClassVar[str] = "siding"
    capabilities: ClassVar[Capabilities] = Capabilities(elastic=True)

    def __init__(self, machine: Machine, make: Callable[[Machine, str, str], Agent]) -> None:
        super().__init__(machine, make)
        self._jobs: dict[Handle, _Job] = {}

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        answers = [self._take(launch) for launch in launches]
        if self.machine.world.chance(self.failing):
            self.machine.world.sometimes("reply of a submit lost")
            raise Failure("no answer")
        return answers

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        world = self.machine.world
        if world.chance(self.failing):
            world.sometimes("could not look")
            raise Failure("could not look")
        for handle in handles:
            self._note_end(handle)
        return {handle: Observation(self._jobs[handle].phase, reason=self._jobs[handle].reason) for handle in handles}

    def cancel(self, handles: Sequence[Handle]) -> None:
        for handle in handles:
            self._end(handle, "cancelled")

    def find(self, token: str) -> Handle | None:
        found = [handle for handle, job in self._jobs.items() if job.launch.token == token]
        return found[-1] if found else None

    def preempt(self) -> None:
        """Somebody else gets the newest node that is busy: a warning, then the end; sometimes its job begins again."""
        world = self.machine.world
        busy = [handle for handle, job in self._jobs.items() if job.phase is Phase.ACTIVE]
        if not busy:
            return
        handle = busy[-1]
        agent = self._jobs[handle].agent
        world.sometimes("node taken away")
        if agent is not None and world.rng.random() < 0.7:
            agent.give_back()
        world.clock.after(_WARNING, partial(self._end, handle, "preempted"))
        if world.rng.random() < 0.5:
            world.clock.after(_WARNING + world.rng.uniform(0.1, 2.0), partial(self._begin_again, handle))

    def _take(self, launch: Launch) -> Handle | Failure:
        world = self.machine.world
        if world.chance(self.failing):
            world.sometimes("launch refused")
            return Failure("no room at the siding")
        handle = str(len(self._jobs) + 1)
        self._jobs[handle] = _Job(launch)
        world.note("siding", "queues", self.machine.name, "job", handle)
        wait = world.rng.choice((0.1, 0.1, 1.0, 3 * LEASE)) if world.faulty else 0.1
        world.clock.after(world.rng.uniform(0.0, wait), partial(self._begin, handle))
        return handle

    def _begin(self, handle: Handle) -> None:
        job = self._jobs[handle]
        if job.phase is not Phase.PENDING:
            return
        order = json.loads(job.launch.stdin)
        job.phase = Phase.ACTIVE
        job.agent = self.agents[handle] = self._make(self.machine, order["token"], order["directory"])
        self.machine.world.note("siding", "begins", self.machine.name, "job", handle)
        job.agent.begin()
        job.agent.after(self.machine.world.rng.uniform(0.02, 0.2), job.agent.start)

    def _begin_again(self, handle: Handle) -> None:
        """A job that the site put back into its queue, under the same number and with the same order."""
        job = self._jobs[handle]
        if job.phase is Phase.GONE and job.reason == "preempted":
            self.machine.world.sometimes("job requeued by its site")
            job.phase, job.reason = Phase.PENDING, ""
            self._begin(handle)

    def _note_end(self, handle: Handle) -> None:
        job = self._jobs[handle]
        if job.phase is Phase.ACTIVE and job.agent is not None and not job.agent.alive:
            self._end(handle, "")

    def _end(self, handle: Handle, reason: str) -> None:
        job = self._jobs[handle]
        if job.phase is Phase.GONE:
            return
        job.phase, job.reason = Phase.GONE, reason
        if job.agent is not None:
            job.agent.end_everything()
