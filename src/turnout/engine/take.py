"""Waiting runs go to a node: claiming a run opens its next attempt; claiming a parent makes its next child."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.model.ids import job_name, run_name
from turnout.model.state import RunState
from turnout.schedule import machine
from turnout.schedule.machine import RunRecord
from turnout.schedule.place import Placed, Room, Waiting, choose, slots_of
from turnout.store import schema
from turnout.store.jobs import Job, environment_digests, load_environment, load_jobs, next_numbers
from turnout.store.ledger import Ledger
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt, Grant, JobOrder

_LOOK_AT_MOST = 2000
_GRANT_AT_MOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """The agent that takes, and what its node has free."""

    agent: int
    target: str
    node: str
    room: Room


def take(tx: Tx, taker: Taker) -> list[Grant]:
    """Gives the agent as many waiting runs as fit. What is returned is committed as its attempt."""
    placed = choose(_queue(tx, taker.target), taker.room, most=_GRANT_AT_MOST)
    if not placed:
        return []
    ledger = Ledger(tx)
    ledger.load(item.run for item in placed)
    claimed: set[int] = set()
    for item in placed:
        record = _next_run(tx, ledger, item)
        if record is not None:
            ledger.apply(machine.claim(record, node=taker.node, agent=taker.agent, now=tx.now))
            claimed.add(record.id)
    ledger.flush()
    grants = grants_of(tx, taker.agent, taker.room.max_runs, only=claimed)
    tx.touch("runs", *{f"job:{grant.job}" for grant in grants})
    return grants


def grants_of(tx: Tx, agent: int, max_runs: int, *, only: set[int] | None = None) -> list[Grant]:
    """The attempts that are this agent's (or `only` these runs), as it needs them to start them."""
    table = schema.runs
    columns = (table.c.id, table.c.number, table.c.child, table.c.attempt, table.c.job_id, table.c.argv, table.c.params, table.c.after)
    where = table.c.agent == agent if only is None else table.c.id.in_(sorted(only))
    rows = tx.connection.execute(sa.select(*columns).where(where).order_by(table.c.id)).all()
    jobs = load_jobs(tx.connection, {row.job_id for row in rows}) if rows else {}
    return [
        Grant(
            run=row.id, attempt=row.attempt, name=run_name(row.number, row.child or None), job=row.job_id,
            argv=json.loads(row.argv), params=json.loads(row.params),
            slots=slots_of(_waiting(row.id, jobs[row.job_id]), max_runs),
            memory=jobs[row.job_id].spec.resources.memory or 0, gpus=jobs[row.job_id].spec.resources.gpus or 0,
            carry=row.after,
        )  # fmt: skip
        for row in rows
    ]


def current_attempts(tx: Tx, agent: int) -> dict[Attempt, str | None]:
    """What the store says this agent has, and whether its end was asked for."""
    table = schema.runs
    select = sa.select(table.c.id, table.c.attempt, table.c.cancel).where(table.c.agent == agent)
    return {(row.id, row.attempt): row.cancel for row in tx.connection.execute(select)}


def job_orders(connection: sa.Connection, ids: set[int]) -> dict[int, JobOrder]:
    """What the runs of these jobs share, with the submitter's environment."""
    digests = environment_digests(connection, ids)
    jobs = load_jobs(connection, ids)
    return {job.id: _to_order(job, load_environment(connection, digests[job.id])) for job in jobs.values()}


def _queue(tx: Tx, target: str) -> Iterator[Waiting]:
    table = schema.runs
    select = (
        sa.select(table.c.id, table.c.job_id, table.c.children_planned, table.c.remaining)
        .where(table.c.waiting == 1, table.c.target == target)
        .order_by(table.c.priority.desc(), table.c.id)
        .limit(_LOOK_AT_MOST)
    )
    jobs: dict[int, Job] = {}
    with tx.connection.execute(select) as rows:
        for row in rows:
            if row.job_id not in jobs:
                jobs.update(load_jobs(tx.connection, {row.job_id}))
            yield _waiting(row.id, jobs[row.job_id], copies=row.remaining if row.children_planned else 1)


def _waiting(run: int, job: Job, *, copies: int = 1) -> Waiting:
    need = job.spec.resources
    return Waiting(
        run=run, job=job.id, cpus=need.cpus, memory=need.memory, gpus=need.gpus, concurrent=job.spec.concurrent,
        copies=copies,
    )  # fmt: skip


def _next_run(tx: Tx, ledger: Ledger, item: Placed) -> RunRecord | None:
    """The run to claim: the placed one itself, or the next child of a placed parent."""
    record = ledger.get(item.run)
    if record is None or record.is_terminal:
        return None
    if not record.is_parent:
        return record if record.state is RunState.QUEUED else None
    if record.remaining <= 0:
        return None
    index = record.children_planned - record.remaining + 1
    parent = tx.connection.execute(sa.select(schema.runs).where(schema.runs.c.id == record.id)).mappings().one()
    child = next_numbers(tx, "run_id", 1)
    shared = ("number", "job_id", "workspace", "experiment", "target", "label", "argv", "params", "priority")
    tx.connection.execute(
        schema.runs.insert(),
        {
            **{name: parent[name] for name in shared}, "id": child, "child": index, "parent": record.id,
            "state": str(RunState.CREATED), "created": tx.now, "failures_left": record.failures_left,
            "losses_left": record.losses_left,
        },  # fmt: skip
    )
    _inherit(tx, record.id, child)
    made = RunRecord(
        id=child, state=RunState.CREATED, parent=record.id,
        failures_left=record.failures_left, losses_left=record.losses_left,
    )  # fmt: skip
    ledger.add(made)
    ledger.apply(machine.make_child(record, index, run_name(parent["number"], index)))
    ledger.note(child, machine.EventName.CREATED, {})
    current = ledger.get(child)
    assert current is not None
    return ledger.apply(machine.enqueue(current, tx.now))


def _inherit(tx: Tx, parent: int, child: int) -> None:
    """A child has its parent's tags and parameters."""
    for table in (schema.tags, schema.params):
        columns = [column for column in table.c if column.name != "run_id"]
        source = sa.select(sa.literal(child, sa.BigInteger), *columns).where(table.c.run_id == parent)
        tx.connection.execute(table.insert().from_select([table.c.run_id, *columns], source))


def _to_order(job: Job, env: dict[str, str]) -> JobOrder:
    spec = job.spec
    return JobOrder(
        job=job.id, name=job_name(job.id), experiment=spec.experiment, workspace=spec.workspace, kind=str(spec.kind),
        script=spec.script, script_path=spec.script_path, before=spec.before, after=list(spec.after), env=env, seconds=spec.resources.seconds,
        grace=spec.grace, memory=spec.resources.memory,
    )  # fmt: skip
