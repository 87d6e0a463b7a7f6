"""What the runs that wait for a place need."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from turnout.engine.target import Target
from turnout.model.ids import parse_job_name
from turnout.model.spec import Resources
from turnout.schedule.staffing import Demand, Free
from turnout.store.agents import newest_on_seats
from turnout.store.jobs import load_jobs
from turnout.store.nodes import NodeSize, node_sizes
from turnout.store.queue import waiting_by_job
from turnout.store.store import Connection, Store
from turnout.wire.gpus import GpuRoom, free_gpus

_REMEMBERED = 1000
#: What a machine had is not known any more so many seconds after its last agent: somebody may have mended it.
_KNOWN_SECONDS = 600.0


@dataclass(slots=True)
class Needs:
    """Of jobs it remembers: what was submitted never changes."""

    store: Store
    target: Target
    _by_job: dict[int, Resources] = field(default_factory=dict)

    def of(self, queues: Sequence[str]) -> list[Demand]:
        """The demands of these queues, each of which has runs that wait. A place that has one agent whatever happens is
        not counted through."""
        able, seats = self.target.provider.capabilities, self.target.provider.seats()
        if not able.elastic and not seats:
            return [Demand(queue=queue, runs=1) for queue in queues]
        with self.store.read() as connection:
            machines = self._machines(connection, queues) if seats else {}
            return [demand for queue in queues for demand in self._demands(connection, queue, machines)]

    def _demands(self, connection: Connection, queue: str, machines: Mapping[str, Free]) -> list[Demand]:
        own = parse_job_name(queue.rpartition("#")[2].partition(".")[0])
        waiting = waiting_by_job(connection, queue) if own is None else {own: 1}
        self._learn(connection, set(waiting))
        return [
            Demand(queue=queue, runs=runs, need=self._by_job[job], unfit=_unfit(self._by_job[job], machines))
            for job, runs in waiting.items()
            if job in self._by_job
        ]

    def _machines(self, connection: Connection, queues: Sequence[str]) -> dict[str, Free]:
        """By seat, what there is in all on the machines that are known: those of agents of these queues, and of the
        one that all share."""
        newest = newest_on_seats(connection, {self.target.name, *queues}, since=time.time() - _KNOWN_SECONDS)
        sizes = node_sizes(connection, list(newest.values()))
        return {seat: self._whole(seat, sizes[agent]) for seat, agent in newest.items() if agent in sizes}

    def _whole(self, seat: str, size: NodeSize) -> Free:
        """What a machine of that size has for runs when it does nothing."""
        gpus = None
        if size.gpus is not None:
            gpus = [GpuRoom(memory=each or None) for each in size.gpu_memory] or free_gpus(size.gpus)
        return Free(slots=self.target.max_runs(seat, size.cpus), memory=size.memory, gpus=gpus)

    def _learn(self, connection: Connection, jobs: set[int]) -> None:
        if len(self._by_job) > _REMEMBERED:
            self._by_job.clear()
        missing = jobs - self._by_job.keys()
        if missing:
            self._by_job |= {job.id: job.spec.resources for job in load_jobs(connection, missing).values()}


def _unfit(need: Resources, machines: Mapping[str, Free]) -> frozenset[str]:
    """The seats whose machines would never take such a run."""
    return frozenset(seat for seat, machine in machines.items() if not machine.take(need, 1)[0])
