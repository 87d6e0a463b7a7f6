"""What other systems call the launches that runs are or were in, and where they show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.model.ids import job_name, place_of, run_name
from turnout.store import schema
from turnout.store.agents import Agent, launches_of
from turnout.store.parts import in_parts

#: What is told of a run that no other system knows.
UNKNOWN: dict[str, str | None] = {"service_job_id": None, "monitor_url": None, "service_status": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A run where it was sent to. `node` is that of its launch, "" before there is one."""

    run: str
    job: str
    workspace: str
    experiment: str
    target: str
    place: str
    node: str
    command: list[str]
    is_over: bool


def native_of(connection: sa.Connection, runs: Sequence[int]) -> dict[int, dict[str, str | None]]:
    """By run, what a person needs to find it in the other system; `UNKNOWN` where it was in none. One that shares its
    queue with others is in none of its own."""
    queues = {run: queue for run, queue in _queues(connection, runs).items() if "#" in queue}
    launches = launches_of(connection, set(queues.values()))
    return {run: _told(launches.get(queues[run])) if run in queues else UNKNOWN for run in runs}


def native_of_job(connection: sa.Connection, job: int) -> dict[str, str | None]:
    """The same of a job: what is known of the first of its runs of which something is."""
    told = native_of(connection, runs_of_job(connection, job)).values()
    return next((each for each in told if each["service_job_id"] or each["monitor_url"]), UNKNOWN)


def sent(connection: sa.Connection, runs: Sequence[int]) -> list[Sent]:
    """Where these runs were sent to, in their order."""
    table = schema.runs
    found: dict[int, Sent] = {}
    for part in in_parts(runs):
        for row in connection.execute(sa.select(table).where(table.c.id.in_(part))):
            found[row.id] = Sent(
                run=run_name(row.number, row.child or None), job=job_name(row.job_id), workspace=row.workspace,
                experiment=row.experiment, target=row.target, place=place_of(row.queue),
                node=row.target + "".join(row.queue.partition("#")[1:]), is_over=row.ended is not None,
                command=json.loads(row.argv),
            )  # fmt: skip
    return [found[run] for run in runs if run in found]


def runs_of_job(connection: sa.Connection, job: int) -> list[int]:
    """Its outer runs: those that other systems are given."""
    table = schema.runs
    select = sa.select(table.c.id).where(table.c.job_id == job, table.c.child == 0).order_by(table.c.id)
    return list(connection.execute(select).scalars())


def _queues(connection: sa.Connection, runs: Sequence[int]) -> dict[int, str]:
    table = schema.runs
    found: dict[int, str] = {}
    for part in in_parts(runs):
        select = sa.select(table.c.id, table.c.queue).where(table.c.id.in_(part))
        found.update({row.id: row.queue for row in connection.execute(select)})
    return found


def _told(launch: Agent | None) -> dict[str, str | None]:
    seen = launch.observed if launch is not None else None
    if seen is None:
        return UNKNOWN
    return {
        "service_job_id": seen.id or None, "monitor_url": seen.url or None,
        "service_status": seen.native or seen.detail or None,
    }  # fmt: skip
