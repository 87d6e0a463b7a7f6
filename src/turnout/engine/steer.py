"""What people and lost nodes do to runs: cancel them, give them up, hand them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.engine.report import close_child
from turnout.model.ids import run_name
from turnout.model.state import LIVE
from turnout.schedule import machine
from turnout.schedule.machine import Cause, Refusal, RunRecord
from turnout.store import schema
from turnout.store.ledger import Ledger
from turnout.store.writer import Tx


_LIVE = [str(state) for state in LIVE]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel did: ``cancelled`` at once, ``requested`` from its node, or nothing because it was over already."""

    name: str
    outcome: str
    run: int
    attempt: int
    agent: int | None


def cancel(tx: Tx, runs: Iterable[int], *, by: str) -> list[Cancelled]:
    """Cancels these runs and the children of parents among them. Idempotent."""
    wanted = set(runs)
    wanted |= _children(tx, wanted)
    ledger = Ledger(tx)
    ledger.load(wanted)
    outcomes: dict[int, str] = {}
    for run in sorted(wanted):
        record = ledger.get(run)
        if record is None:
            continue
        step = machine.request_cancel(record, Cause.CANCELLED, by, tx.now)
        if isinstance(step, Refusal):
            outcomes[run] = "over" if record.is_terminal else "requested"
            continue
        record = ledger.apply(step)
        outcomes[run] = "cancelled" if record.is_terminal else "requested"
    for record in ledger.ended():
        if record.parent is not None:
            close_child(ledger, record, tx.now)
    ledger.flush()
    names = _names(tx, set(outcomes))
    tx.touch("runs", "jobs")
    return [_describe(names[run], outcome, ledger.get(run)) for run, outcome in outcomes.items()]


def _describe(name: str, outcome: str, record: RunRecord | None) -> Cancelled:
    assert record is not None
    agent = record.agent if record.on_node else None
    return Cancelled(name, outcome, record.id, record.attempt, agent)


def lose(tx: Tx, agent: int, fact: machine.Lost, *, only: set[int] | None = None) -> list[int]:
    """Gives up on what an agent holds (or `only` these runs of it): back to the queue, or to its end. Gives the runs."""
    table = schema.runs
    ids = [row.id for row in tx.connection.execute(sa.select(table.c.id).where(table.c.agent == agent))]
    if only is not None:
        ids = [run for run in ids if run in only]
    ledger = Ledger(tx)
    ledger.load(ids)
    for run in ids:
        record = ledger.get(run)
        if record is None:
            continue
        step = machine.advance(record, record.attempt, fact, tx.now)
        if not isinstance(step, Refusal):
            ledger.apply(step)
    for ended in ledger.ended():
        if ended.parent is not None:
            close_child(ledger, ended, tx.now)
    ledger.flush()
    if ids:
        tx.touch("runs", "jobs", "queue")
    return ids


def live_runs(connection: sa.Connection, *, job: int | None = None) -> list[int]:
    """The runs that are not over, of one job or of all."""
    table = schema.runs
    select = sa.select(table.c.id).where(table.c.state.in_(_LIVE))
    if job is not None:
        select = select.where(table.c.job_id == job)
    return [row.id for row in connection.execute(select)]


def _children(tx: Tx, parents: set[int]) -> set[int]:
    table = schema.runs
    found: set[int] = set()
    for parent in parents:
        select = sa.select(table.c.id).where(table.c.parent == parent, table.c.state.in_(_LIVE))
        found |= {row.id for row in tx.connection.execute(select)}
    return found


def _names(tx: Tx, ids: set[int]) -> dict[int, str]:
    table = schema.runs
    names: dict[int, str] = {}
    ordered = sorted(ids)
    for start in range(0, len(ordered), 500):
        select = sa.select(table.c.id, table.c.number, table.c.child).where(table.c.id.in_(ordered[start : start + 500]))
        names.update({row.id: run_name(row.number, row.child or None) for row in tx.connection.execute(select)})
    return names
