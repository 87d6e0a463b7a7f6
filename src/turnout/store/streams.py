"""Bytes from nodes: output kept as it came, spool frames taken apart. Each byte once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.parts import IDS, rows_for
from turnout.store.writer import Tx
from turnout.wire import frames, nni
from turnout.wire.stream import fresh_part

StreamKey = tuple[int, int, str]
_STREAMS_OF = sa.select(schema.streams).where(schema.streams.c.run_id.in_(IDS))


@dataclass(slots=True)
class Mark:
    """How much of a stream is here: bytes, and for a spool the frames in them."""

    size: int = 0
    frames: int = 0


class Marks:
    """The high-water marks of the streams one report speaks of; written back in its transaction."""

    def __init__(self, tx: Tx, keys: Iterable[StreamKey]) -> None:
        self._tx = tx
        self._known = _load(tx, set(keys))
        self._changed: dict[StreamKey, Mark] = {}

    def get(self, key: StreamKey) -> Mark:
        return self._changed.get(key) or self._known.get(key) or Mark()

    def move(self, key: StreamKey, mark: Mark) -> None:
        self._changed[key] = mark

    def flush(self) -> None:
        table = schema.streams
        inserts, updates = [], []
        for key, mark in self._changed.items():
            run, attempt, stream = key
            if key in self._known:
                updates.append({"r": run, "a": attempt, "s": stream, "size": mark.size, "frames": mark.frames})
            else:
                inserts.append(
                    {"run_id": run, "attempt": attempt, "stream": stream, "size": mark.size, "frames": mark.frames}
                )
        if inserts:
            self._tx.connection.execute(table.insert(), inserts)
        if updates:
            where = (
                table.c.run_id == sa.bindparam("r"),
                table.c.attempt == sa.bindparam("a"),
                table.c.stream == sa.bindparam("s"),
            )
            values: dict[str, Any] = {"size": sa.bindparam("size"), "frames": sa.bindparam("frames")}
            self._tx.connection.execute(table.update().where(*where).values(values), updates)


def _load(tx: Tx, keys: set[StreamKey]) -> dict[StreamKey, Mark]:
    rows = rows_for(tx.connection, _STREAMS_OF, {run for run, _, _ in keys})
    return {(row.run_id, row.attempt, row.stream): Mark(row.size, row.frames) for row in rows}


def streams_of(tx: Tx, run: int, attempt: int) -> dict[str, Mark]:
    """How much of each stream of an attempt is here."""
    return {stream: mark for (_, number, stream), mark in _load(tx, {(run, attempt, "")}).items() if number == attempt}


def insert_output(tx: Tx, rows: list[dict[str, Any]]) -> None:
    if rows:
        tx.connection.execute(schema.output.insert(), rows)


def output_digest(tx: Tx, run: int, attempt: int) -> str:
    """The hash of all output of an attempt that is here."""
    table = schema.output
    where = (table.c.run_id == run, table.c.attempt == attempt)
    digest = hashlib.sha256()
    for (content,) in tx.connection.execute(sa.select(table.c.content).where(*where).order_by(table.c.start)):
        digest.update(content)
    return digest.hexdigest()


def take_output(marks: Marks, key: StreamKey, offset: int, content: memoryview) -> dict[str, Any] | None:
    """The row to insert for the part of `content` that is new; None when there is none (a repeat, or beyond a gap)."""
    mark = marks.get(key)
    skip = fresh_part(mark.size, offset, len(content))
    if skip is None or skip == len(content):
        return None
    run, attempt, _ = key
    row = {"run_id": run, "attempt": attempt, "start": mark.size, "content": bytes(content[skip:])}
    marks.move(key, Mark(mark.size + len(content) - skip))
    return row


def take_frames(marks: Marks, key: StreamKey, offset: int, content: memoryview) -> list[dict[str, Any]]:
    """The new, whole frames of a piece of spool, decoded. Only they move the mark; it stops at a damaged one."""
    mark = marks.get(key)
    skip = fresh_part(mark.size, offset, len(content))
    if skip is None or skip == len(content):
        return []
    size, count, records = mark.size, mark.frames, []
    for frame in frames.scan(bytes(content[skip:]), first_seq=mark.frames):
        size, count = mark.size + frame.end, count + 1
        try:
            record = json.loads(frame.payload)
        except (ValueError, RecursionError):
            continue  # a whole frame of something that is not ours: counted, passed over
        if isinstance(record, dict):
            records.append(record)
    marks.move(key, Mark(size, count))
    return records


def take_trial_metrics(
    marks: Marks, key: StreamKey, offset: int, content: memoryview, now: float
) -> list[dict[str, Any]]:
    """The same, of a piece of the file in which NNI's library tells metrics."""
    mark = marks.get(key)
    skip = fresh_part(mark.size, offset, len(content))
    if skip is None or skip == len(content):
        return []
    records, taken = nni.records(bytes(content[skip:]), now)
    marks.move(key, Mark(mark.size + taken))
    return records
