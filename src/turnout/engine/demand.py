"""What the runs that wait for a place need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnout.engine.target import Target
from turnout.model.ids import parse_job_name
from turnout.model.spec import Resources
from turnout.schedule.staffing import Demand
from turnout.store.jobs import load_jobs
from turnout.store.queue import waiting_by_job
from turnout.store.store import Connection, Store

_REMEMBERED = 1000


@dataclass(slots=True)
class Needs:
    """Of jobs it remembers: what was submitted never changes."""

    store: Store
    target: Target
    _by_job: dict[int, Resources] = field(default_factory=dict)

    def of(self, queues: Sequence[str]) -> list[Demand]:
        """The demands of these queues, each of which has runs that wait. A place that has one agent whatever happens is
        not counted through."""
        able = self.target.provider.capabilities
        if not able.elastic and not self.target.provider.seats():
            return [Demand(queue=queue, runs=1) for queue in queues]
        with self.store.read() as connection:
            return [demand for queue in queues for demand in self._demands(connection, queue)]

    def _demands(self, connection: Connection, queue: str) -> list[Demand]:
        own = parse_job_name(queue.rpartition("#")[2].partition(".")[0])
        waiting = waiting_by_job(connection, queue) if own is None else {own: 1}
        self._learn(connection, set(waiting))
        return [
            Demand(queue=queue, runs=runs, need=self._by_job[job])
            for job, runs in waiting.items()
            if job in self._by_job
        ]

    def _learn(self, connection: Connection, jobs: set[int]) -> None:
        if len(self._by_job) > _REMEMBERED:
            self._by_job.clear()
        missing = jobs - self._by_job.keys()
        if missing:
            self._by_job |= {job.id: job.spec.resources for job in load_jobs(connection, missing).values()}
