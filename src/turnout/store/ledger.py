"""The guarded change of run rows: load, decide elsewhere, write back with their events, all in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.model.state import ON_NODE, TERMINAL, Reason, RunState
from turnout.schedule.record import Cause, Data, RunRecord, Step
from turnout.store import schema
from turnout.store.bulk import Bulk
from turnout.store.parts import IDS, rows_for
from turnout.store.parts import MOST_IN as MOST_IN
from turnout.store.writer import Tx

#: What is written of a record, in the order of `_row`.
_WRITTEN = (
    "state", "attempt", "progress", "reason", "cause", "exit_code", "signal", "message", "cancel", "failures_left",
    "losses_left", "children_planned", "remaining", "open_children", "failed_children", "good_children", "stage",
    "node", "agent", "queued", "started", "ended", "event_seq", "waiting", "blocked", "gate",
)  # fmt: skip
RECORD_COLUMNS = [schema.runs.c[name] for name in RunRecord._fields]
_STATES = {state.value: state for state in RunState}
_REASONS: dict[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}
_CAUSES: dict[str | None, Cause | None] = {None: None, **{cause.value: cause for cause in Cause}}


_RUNS, _ATTEMPTS = schema.runs, schema.attempts
_LOAD = sa.select(*RECORD_COLUMNS).where(_RUNS.c.id.in_(IDS)).order_by(_RUNS.c.id).with_for_update()
_UPDATE = Bulk(
    _RUNS.update()
    .where(
        _RUNS.c.id == sa.bindparam("old_id"),
        _RUNS.c.attempt == sa.bindparam("old_attempt"),
        _RUNS.c.state == sa.bindparam("old_state"),
    )
    .values({name: sa.bindparam(f"new_{name}") for name in _WRITTEN}),
    [*(f"new_{name}" for name in _WRITTEN), "old_id", "old_attempt", "old_state"],
)
#: What of a new run its record does not have, in the order of `Birth`.
_BORN = (
    "child", "argv", "params", "number", "job_id", "workspace", "experiment", "target", "queue", "outer", "label",
    "outputs",
)  # fmt: skip
_INSERT = Bulk(_RUNS.insert(), ["id", "parent", "priority", "created", *_BORN, *_WRITTEN])
_OPEN_ATTEMPT = Bulk(_ATTEMPTS.insert(), ["run_id", "attempt", "agent", "node", "claimed"])
_CLOSED = ("closed", "cause", "exit_code", "signal", "message")
_CLOSE_ATTEMPT = Bulk(
    _ATTEMPTS.update()
    .where(_ATTEMPTS.c.run_id == sa.bindparam("old_run"), _ATTEMPTS.c.attempt == sa.bindparam("old_attempt"))
    .values({name: sa.bindparam(f"new_{name}") for name in _CLOSED}),
    [*(f"new_{name}" for name in _CLOSED), "old_run", "old_attempt"],
)
_INSERT_EVENTS = Bulk(schema.events.insert(), ["run_id", "seq", "time", "event", "data"])


class Birth(NamedTuple):
    """What of a new run its record does not have; `argv` and `params` as JSON."""

    child: int
    argv: str
    params: str
    number: int
    job_id: int
    workspace: str
    experiment: str
    target: str
    queue: str
    outer: int | None
    label: str | None
    outputs: str | None


def to_record(row: Sequence[Any]) -> RunRecord:
    """A row of the record's columns, in their order."""
    raw = RunRecord._make(row)
    return raw._replace(
        state=_STATES[raw.state], reason=_REASONS[raw.reason], cause=_CAUSES[raw.cause], cancel=_CAUSES[raw.cancel]
    )


def is_waiting(record: RunRecord) -> bool:
    """In the queue: a queued run, or a parent that has children left to make."""
    if record.is_parent:
        return record.remaining > 0 and record.state in (RunState.QUEUED, RunState.RUNNING) and not record.on_node
    return record.state is RunState.QUEUED


class GuardFailed(RuntimeError):
    """A row is no longer as it was read; the transaction must be undone. Cannot happen: rows are locked when read."""


class Ledger:
    """The runs that one transaction changes. Steps are applied in memory; `flush` writes rows and events at once."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._old: dict[int, RunRecord] = {}
        self._new: dict[int, RunRecord] = {}
        self._born: dict[int, Birth] = {}
        self._events: list[tuple[Any, ...]] = []
        self._ended_scripts: list[tuple[Any, ...]] = []
        self._ended: list[int] = []
        self._told = 0
        """of so many of those that ended somebody was told"""

    def load(self, ids: Iterable[int]) -> None:
        """Reads (and on PostgreSQL locks, in id order) the runs not read yet. Unknown ids are left out."""
        for row in rows_for(self._tx.connection, _LOAD, set(ids) - self._new.keys()):
            record = to_record(row)
            self._old[record.id] = self._new[record.id] = record

    def add(self, record: RunRecord, birth: Birth | None = None) -> None:
        """A run as it was read; with `birth`, one that `flush` inserts."""
        self._old[record.id] = self._new[record.id] = record
        if birth is not None:
            self._born[record.id] = birth

    def get(self, run: int) -> RunRecord | None:
        return self._new.get(run)

    def apply(self, step: Step) -> RunRecord:
        """Takes a step's record and events; numbers the events."""
        before = self._new[step.record.id]
        if before.is_parent and before.on_node and not step.record.on_node:
            self._ended_scripts.append(_script_end(before, step, self._tx.now))
        record = self._append(step.record, step.events)
        self._new[record.id] = record
        if record.state in TERMINAL and before.state not in TERMINAL:
            self._ended.append(record.id)
        return record

    def note(self, run: int, name: EventName, data: Data) -> None:
        """An event that changes no state."""
        self._new[run] = self._append(self._new[run], ((name, data),))

    def touch(self, topic: str) -> None:
        """Whoever waits for that is woken after the commit."""
        self._tx.touch(topic)

    def ended(self) -> list[RunRecord]:
        """The runs that this transaction brought to a terminal state so far."""
        return [self._new[run] for run in self._ended]

    def newly_ended(self) -> list[RunRecord]:
        """Those of them that this was not told of yet."""
        fresh, self._told = self._ended[self._told :], len(self._ended)
        return [self._new[run] for run in fresh]

    def has_requeued(self) -> bool:
        """Whether a run that was on a node is in the queue again."""
        return any(new.state is RunState.QUEUED and self._old[run].state in ON_NODE for run, new in self._new.items())

    def flush(self) -> None:
        """Writes, or raises GuardFailed."""
        changed = [(self._old[run], new) for run, new in self._new.items() if new is not self._old[run]]
        if changed:
            known = [(old, new) for old, new in changed if new.id not in self._born]
            found = _UPDATE.execute(self._tx.connection, [_row(old, new) for old, new in known])
            if found != len(known):
                raise GuardFailed(f"{len(known)} runs to change, {found} found as they were")
            self._insert_born()
            self._write_attempts(changed)
        _INSERT_EVENTS.execute(self._tx.connection, self._events)
        self._tx.touch(*[f"run:{new.id}" for _, new in changed])
        self._old.update(self._new)
        self._events.clear()
        self._ended_scripts.clear()
        self._ended.clear()
        self._told = 0

    def _insert_born(self) -> None:
        rows = []
        for run, birth in self._born.items():
            new = self._new[run]
            rows.append((run, new.parent, new.priority, self._tx.now, *birth, *_values(new)))
        _INSERT.execute(self._tx.connection, rows)
        self._born.clear()

    def _append(self, record: RunRecord, events: Iterable[tuple[EventName, Data]]) -> RunRecord:
        seq = record.event_seq
        for name, data in events:
            seq += 1
            self._events.append((record.id, seq, self._tx.now, name.value, json.dumps(data)))
        return record if seq == record.event_seq else record._replace(event_seq=seq)

    def _write_attempts(self, changed: list[tuple[RunRecord, RunRecord]]) -> None:
        opened: list[tuple[Any, ...]] = []
        closed = list(self._ended_scripts)
        for old, new in changed:
            if new.attempt != old.attempt:
                opened.append((new.id, new.attempt, new.agent, new.node, self._tx.now))
            elif old.on_node and not new.on_node and not new.is_parent:
                cause = _text(new.cause or new.reason)
                closed.append((self._tx.now, cause, new.exit_code, new.signal, new.message, new.id, new.attempt))
        _OPEN_ATTEMPT.execute(self._tx.connection, opened)
        _CLOSE_ATTEMPT.execute(self._tx.connection, closed)


def _row(old: RunRecord, new: RunRecord) -> tuple[Any, ...]:
    """The values of `_WRITTEN`, and what the row must still be like."""
    return (*_values(new), old.id, old.attempt, old.state.value)


def _values(new: RunRecord) -> tuple[Any, ...]:
    waiting = -new.priority if is_waiting(new) else None
    agent = new.agent if new.on_node else None
    return (
        new.state.value, new.attempt, int(new.progress), _text(new.reason), _text(new.cause), new.exit_code,
        new.signal, new.message, _text(new.cancel), new.failures_left, new.losses_left, new.children_planned,
        new.remaining, new.open_children, new.failed_children, new.good_children, new.stage, new.node, agent,
        new.queued, new.started, new.ended, new.event_seq, waiting, new.blocked, new.gate,
    )  # fmt: skip


def _script_end(before: RunRecord, step: Step, now: float) -> tuple[Any, ...]:
    """How an attempt of a parent's script ended. Its record tells no more once it goes on without it."""
    said = next((data for name, data in step.events if name is EventName.NODE_LOST), None)
    if said is not None:
        return (now, Cause.INFRA.value, None, None, said["message"], before.id, before.attempt)
    return (now, _text(before.cause), before.exit_code, before.signal, before.message, before.id, before.attempt)


def _text(value: Reason | Cause | None) -> str | None:
    return None if value is None else value.value
