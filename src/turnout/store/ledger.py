"""The guarded change of run rows: load, decide elsewhere, write back with their events, all in one transaction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.model.state import ON_NODE, TERMINAL, Reason, RunState
from turnout.schedule.machine import Cause, Data, RunRecord, Step
from turnout.store import schema
from turnout.store.bulk import Bulk
from turnout.store.writer import Tx

_FIELDS = tuple(field.name for field in dataclasses.fields(RunRecord))
_WRITTEN = tuple(name for name in _FIELDS if name not in ("id", "parent", "children_planned", "priority"))
RECORD_COLUMNS = [schema.runs.c[name] for name in _FIELDS]
MOST_IN = 500  # bound parameters per statement; SQLite's limit is 32766, plans stay small


_RUNS, _ATTEMPTS = schema.runs, schema.attempts
_LOAD = (
    sa.select(*RECORD_COLUMNS)
    .where(_RUNS.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(_RUNS.c.id)
    .with_for_update()
)
_UPDATE = Bulk(
    _RUNS.update()
    .where(
        _RUNS.c.id == sa.bindparam("old_id"),
        _RUNS.c.attempt == sa.bindparam("old_attempt"),
        _RUNS.c.state == sa.bindparam("old_state"),
    )
    .values({name: sa.bindparam(f"new_{name}") for name in (*_WRITTEN, "waiting")})
)
_OPEN_ATTEMPT = Bulk(_ATTEMPTS.insert())
_CLOSE_ATTEMPT = Bulk(
    _ATTEMPTS.update()
    .where(_ATTEMPTS.c.run_id == sa.bindparam("old_run"), _ATTEMPTS.c.attempt == sa.bindparam("old_attempt"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("closed", "cause", "exit_code", "signal", "message")})
)
_INSERT_EVENTS = Bulk(schema.events.insert())


def to_record(row: Sequence[Any]) -> RunRecord:
    """A row of the record's columns, in their order."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["state"] = RunState(values["state"])
    for name, kind in (("reason", Reason), ("cause", Cause), ("cancel", Cause)):
        if values[name] is not None:
            values[name] = kind(values[name])
    return RunRecord(**values)


def is_waiting(record: RunRecord) -> bool:
    """In the queue: a queued run, or a parent that has children left to make."""
    if record.is_parent:
        return record.remaining > 0 and record.state in (RunState.QUEUED, RunState.RUNNING)
    return record.state is RunState.QUEUED


class GuardFailed(RuntimeError):
    """A row is no longer as it was read; the transaction must be undone. Cannot happen: rows are locked when read."""


class Ledger:
    """The runs that one transaction changes. Steps are applied in memory; `flush` writes rows and events at once."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._old: dict[int, RunRecord] = {}
        self._new: dict[int, RunRecord] = {}
        self._events: list[dict[str, Any]] = []

    def load(self, ids: Iterable[int]) -> None:
        """Reads (and on PostgreSQL locks, in id order) the runs not read yet. Unknown ids are left out."""
        missing = sorted(set(ids) - self._new.keys())
        for start in range(0, len(missing), MOST_IN):
            for row in self._tx.connection.execute(_LOAD, {"ids": missing[start : start + MOST_IN]}):
                record = to_record(row)
                self._old[record.id] = self._new[record.id] = record

    def add(self, record: RunRecord) -> None:
        """A run that this transaction inserted itself."""
        self._old[record.id] = self._new[record.id] = record

    def get(self, run: int) -> RunRecord | None:
        return self._new.get(run)

    def apply(self, step: Step) -> RunRecord:
        """Takes a step's record and events; numbers the events."""
        record = self._append(step.record, step.events)
        self._new[record.id] = record
        return record

    def note(self, run: int, name: EventName, data: Data) -> None:
        """An event that changes no state."""
        self._new[run] = self._append(self._new[run], ((name, data),))

    def ended(self) -> list[RunRecord]:
        """The runs that this transaction brought to a terminal state so far."""
        return [new for run, new in self._new.items() if new.state in TERMINAL and self._old[run].state not in TERMINAL]

    def has_requeued(self) -> bool:
        """Whether a run that was on a node is in the queue again."""
        return any(new.state is RunState.QUEUED and self._old[run].state in ON_NODE for run, new in self._new.items())

    def flush(self) -> None:
        """Writes, or raises GuardFailed."""
        changed = [(self._old[run], new) for run, new in self._new.items() if new is not self._old[run]]
        if changed:
            found = _UPDATE.execute(self._tx.connection, [_parameters(old, new) for old, new in changed])
            if found != len(changed):
                raise GuardFailed(f"{len(changed)} runs to change, {found} found as they were")
            self._write_attempts(changed)
        _INSERT_EVENTS.execute(self._tx.connection, self._events)
        for _, new in changed:
            self._tx.touch(f"run:{new.id}")
        self._old.update(self._new)
        self._events.clear()

    def _append(self, record: RunRecord, events: Iterable[tuple[EventName, Data]]) -> RunRecord:
        seq = record.event_seq
        for name, data in events:
            seq += 1
            row = {"run_id": record.id, "seq": seq, "time": self._tx.now, "event": name.value, "data": json.dumps(data)}
            self._events.append(row)
        return record if seq == record.event_seq else dataclasses.replace(record, event_seq=seq)

    def _write_attempts(self, changed: list[tuple[RunRecord, RunRecord]]) -> None:
        opened: list[dict[str, Any]] = []
        closed: list[dict[str, Any]] = []
        for old, new in changed:
            if new.is_parent:
                continue
            if new.attempt != old.attempt:
                row = {"run_id": new.id, "attempt": new.attempt, "agent": new.agent, "node": new.node}
                opened.append({**row, "claimed": self._tx.now})
            elif old.state in ON_NODE and new.state not in ON_NODE:
                cause = new.cause or new.reason
                end = {"new_exit_code": new.exit_code, "new_signal": new.signal, "new_message": new.message}
                row = {"old_run": new.id, "old_attempt": new.attempt, "new_cause": cause and cause.value, **end}
                closed.append({**row, "new_closed": self._tx.now})
        _OPEN_ATTEMPT.execute(self._tx.connection, opened)
        _CLOSE_ATTEMPT.execute(self._tx.connection, closed)


def _parameters(old: RunRecord, new: RunRecord) -> dict[str, Any]:
    values: dict[str, Any] = {f"new_{name}": getattr(new, name) for name in _WRITTEN}
    for name in ("new_state", "new_reason", "new_cause", "new_cancel"):
        if values[name] is not None:
            values[name] = values[name].value
    values.update(
        old_id=old.id, old_attempt=old.attempt, old_state=old.state.value,
        new_waiting=-new.priority if is_waiting(new) else None, new_progress=int(new.progress),
        new_agent=new.agent if new.on_node else None,
    )  # fmt: skip
    return values
