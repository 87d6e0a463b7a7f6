"""The queue of runs: rows that wait, read with all that is needed to decide on them and to grant them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import job_name, parse_job_name, place_of, run_name
from turnout.model.spec import Retry, RunSpec
from turnout.model.state import LIVE, ON_NODE, RunState
from turnout.schedule.record import RunRecord
from turnout.store import schema
from turnout.store.belonging import of_job
from turnout.store.jobs import next_numbers
from turnout.store.ledger import RECORD_COLUMNS, Birth, Ledger, to_record
from turnout.store.parts import in_parts
from turnout.store.values import inherit
from turnout.store.writer import Tx

_RUNS = schema.runs
_LIVE = [str(state) for state in LIVE]
_ON_NODE = [str(state) for state in ON_NODE]
_SHARED = Birth._fields[3:]
_SHARED_OF = sa.select(*(_RUNS.c[name] for name in _SHARED)).where(_RUNS.c.id == sa.bindparam("run"))
_EXTRA = tuple(_RUNS.c[name] for name in ("number", "child", "job_id", "argv", "params", "after", "outer", "outputs"))

_WAITING = (
    sa.select(*RECORD_COLUMNS, *_EXTRA)
    .where(_RUNS.c.waiting.is_not(None), _RUNS.c.queue == sa.bindparam("queue"))
    .order_by(_RUNS.c.waiting, _RUNS.c.id)
    .limit(sa.bindparam("most"))
    .with_for_update(skip_locked=True)
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A run with what its grant needs."""

    record: RunRecord
    name: str
    number: int
    job: int
    argv: list[str]
    params: dict[str, Any]
    after: str | None
    outer: int | None
    outputs: list[str]


def waiting_runs(
    tx: Tx, queue: str, *, most: int, behind: RunRecord | None = None, besides: Collection[int] = ()
) -> Iterator[Entry]:
    """Runs in a queue, highest priority and oldest first. Rows that another hub holds are passed over.

    `behind` begins after that one, `besides` leaves the runs of these jobs out.
    """
    select = _WAITING
    if behind is not None:
        place = sa.tuple_(sa.literal(-behind.priority), sa.literal(behind.id, sa.BigInteger))
        select = select.where(sa.tuple_(_RUNS.c.waiting, _RUNS.c.id) > place)
    if besides:
        select = select.where(_RUNS.c.job_id.not_in(sorted(besides)))
    with tx.connection.execute(select, {"queue": queue, "most": most}) as rows:
        for row in rows:
            yield _entry(row)


def next_in(connection: sa.Connection, queue: str) -> Entry | None:
    """The first run that waits in this queue."""
    select = sa.select(*RECORD_COLUMNS, *_EXTRA).where(_RUNS.c.waiting.is_not(None), _RUNS.c.queue == queue)
    row = connection.execute(select.order_by(_RUNS.c.waiting, _RUNS.c.id).limit(1)).first()
    return _entry(row) if row is not None else None


def held_runs(tx: Tx, agent: int) -> list[Entry]:
    """The runs whose current attempt is this agent's."""
    select = sa.select(*RECORD_COLUMNS, *_EXTRA).where(_RUNS.c.agent == agent).order_by(_RUNS.c.id)
    return [_entry(row) for row in tx.connection.execute(select)]


def entries_of(tx: Tx, runs: Collection[int]) -> list[Entry]:
    """These runs, in order."""
    select = sa.select(*RECORD_COLUMNS, *_EXTRA).where(_RUNS.c.id.in_(runs)).order_by(_RUNS.c.id)
    return [_entry(row) for row in tx.connection.execute(select)]


def bear_children(
    tx: Tx, ledger: Ledger, parent: Entry, children: Sequence[tuple[int, RunSpec | None]], retry: Retry, *,
    own_queues: bool = False,
) -> list[Entry]:  # fmt: skip
    """New runs with these numbers, with their parent's tags and parameters; created, not yet queued, and to be inserted
    with the ledger. Each has a command of its own, or (None) its parent's; with `own_queues`, also a queue."""
    first = next_numbers(tx, "run_id", len(children))
    shared = tx.connection.execute(_SHARED_OF, {"run": parent.record.id}).one()
    born, params = [], []
    for run, (index, command) in enumerate(children, first):
        argv, own = (parent.argv, parent.params) if command is None else (list(command.argv), command.params)
        record = RunRecord(
            id=run, state=RunState.CREATED, priority=parent.record.priority, parent=parent.record.id,
            failures_left=retry.failures, losses_left=retry.losses,
        )  # fmt: skip
        birth = Birth(index, json.dumps(argv), json.dumps(own), *shared)
        if own_queues:
            birth = birth._replace(queue=f"{birth.queue}#{job_name(parent.job)}.{index}")
        ledger.add(record, birth)
        name = run_name(parent.number, index)
        born.append(Entry(record, name, parent.number, parent.job, argv, own, None, parent.outer, parent.outputs))
        params.append((run, {} if command is None else command.params))
    inherit(tx, parent.record.id, params)
    return born


def queues_with_waiting_runs(connection: sa.Connection) -> list[str]:
    """The queues that are not empty. Goes from one to the next in the index, whatever they hold."""
    found: list[str] = []
    while True:
        select = sa.select(_RUNS.c.queue).where(_RUNS.c.waiting.is_not(None)).limit(1)
        if found:
            select = select.where(_RUNS.c.queue > found[-1])
        queue = connection.execute(select.order_by(_RUNS.c.queue)).scalar()
        if queue is None:
            return found
        found.append(queue)


def waiting_by_job(connection: sa.Connection, queue: str, most: int = 2000) -> dict[int, int]:
    """How many runs of each job wait in this queue, the first job first; of a long queue, only the beginning is read. A
    parent counts for the children it may still make."""
    ordered = (
        sa.select(_RUNS.c.job_id, _RUNS.c.remaining)
        .where(_RUNS.c.waiting.is_not(None), _RUNS.c.queue == queue)
        .order_by(_RUNS.c.waiting, _RUNS.c.id)
        .limit(most)
    )
    found: dict[int, int] = {}
    for job, remaining in connection.execute(ordered):
        found[job] = found.get(job, 0) + max(1, remaining)
    return found


def places_in_use(connection: sa.Connection) -> set[str]:
    """The places to which runs that are not over were sent, or where agents are."""
    agents = schema.agents
    queues = sa.select(_RUNS.c.queue).where(_RUNS.c.state.in_(_LIVE)).distinct()
    held = sa.select(agents.c.target).where(agents.c.state != "gone").distinct()
    return {place_of(queue) for queue in connection.execute(queues.union(held)).scalars()}


def busy_nodes(connection: sa.Connection, queues: Iterable[str]) -> set[str]:
    """Those of these queues, each of one node of a job's own, that have runs which are not over."""
    jobs = {parse_job_name(queue.rpartition("#")[2].partition(".")[0]) for queue in queues}
    select = sa.select(_RUNS.c.queue).where(_RUNS.c.job_id.in_(jobs), _RUNS.c.state.in_(_LIVE)).distinct()
    return {row.queue for row in connection.execute(select)}


def script_has_run(tx: Tx, run: int, agent: int) -> bool:
    """Whether the script of this parent has run on that agent's node."""
    table = schema.parent_scripts
    where = (table.c.run_id == run, table.c.agent == agent)
    return tx.connection.execute(sa.select(table.c.run_id).where(*where)).first() is not None


def note_script(tx: Tx, run: int, agent: int, attempt: int) -> None:
    """The script of this parent has run there."""
    values = {"run_id": run, "agent": agent, "attempt": attempt, "time": tx.now}
    tx.connection.execute(schema.parent_scripts.insert(), values)


def children_left(tx: Tx, job: int, total: int) -> int:
    """How many children of all its parents together are still to be made."""
    made = sa.select(schema.jobs.c.children_made).where(schema.jobs.c.id == job).with_for_update()
    return total - int(tx.connection.execute(made).scalar_one())


def count_children(tx: Tx, job: int, count: int) -> int:
    """So many more children of a job whose parents share theirs; the index of the first."""
    table = schema.jobs
    more = table.update().where(table.c.id == job).values(children_made=table.c.children_made + count)
    return int(tx.connection.execute(more.returning(table.c.children_made)).scalar_one()) - count + 1


def open_parents(tx: Tx, job: int) -> list[int]:
    """The parents of a job that are not over."""
    where = (_RUNS.c.job_id == job, _RUNS.c.children_planned > 0, _RUNS.c.state.in_(_LIVE))
    return [row.id for row in tx.connection.execute(sa.select(_RUNS.c.id).where(*where))]


def open_children(tx: Tx, job: int) -> int:
    """How many children of all its parents were made and are not over."""
    total = sa.select(sa.func.sum(_RUNS.c.open_children)).where(_RUNS.c.job_id == job, _RUNS.c.children_planned > 0)
    return int(tx.connection.execute(total).scalar() or 0)


def children_on_nodes(tx: Tx, job: int) -> int:
    """How many children of all its parents nodes have. Each claim asks this: it reads those alone."""
    where = (_RUNS.c.job_id == job, _RUNS.c.children_planned == 0, _RUNS.c.state.in_(_ON_NODE))
    return int(tx.connection.execute(sa.select(sa.func.count()).where(*where)).scalar_one())


def live_runs(connection: sa.Connection, *, job: int | None = None) -> list[int]:
    """The runs that are not over, of one job and its steps, or of all."""
    select = sa.select(_RUNS.c.id).where(_RUNS.c.state.in_(_LIVE))
    if job is not None:
        select = select.where(of_job(job))
    return [row.id for row in connection.execute(select)]


def live_children(tx: Tx, parents: set[int]) -> set[int]:
    found: set[int] = set()
    for part in in_parts(sorted(parents)):
        select = sa.select(_RUNS.c.id).where(_RUNS.c.parent.in_(part), _RUNS.c.state.in_(_LIVE))
        found |= {row.id for row in tx.connection.execute(select)}
    return found


def runs_of_agent(tx: Tx, agent: int) -> list[int]:
    return [row.id for row in tx.connection.execute(sa.select(_RUNS.c.id).where(_RUNS.c.agent == agent))]


def names_of(tx: Tx, ids: Iterable[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    for part in in_parts(sorted(ids)):
        select = sa.select(_RUNS.c.id, _RUNS.c.number, _RUNS.c.child).where(_RUNS.c.id.in_(part))
        names.update({row.id: run_name(row.number, row.child or None) for row in tx.connection.execute(select)})
    return names


def _entry(row: Iterable[Any]) -> Entry:
    values = tuple(row)
    number, child, job, argv, params, after, outer, outputs = values[len(RECORD_COLUMNS) :]
    return Entry(
        to_record(values[: len(RECORD_COLUMNS)]), run_name(number, child or None), number, job, json.loads(argv),
        json.loads(params), after, outer, json.loads(outputs) if outputs else [],
    )  # fmt: skip
