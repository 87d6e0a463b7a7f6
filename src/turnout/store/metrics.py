"""Metrics in columns: chunks of points per run and name, and one summary row for tables and sorts."""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.parts import MOST_IN, in_parts
from turnout.store.values import LARGEST_INT, storable_name
from turnout.store.writer import Tx

CHUNK = 1024  # points; a chunk below that is rewritten as it grows
_HEAD = struct.Struct("<I")
MOST_NAMES = 10_000  # per run: a program that invents names must not fill the store


@dataclass(slots=True)
class Series:
    """Points of one metric in the order they were logged: steps, times, values."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.values)

    def append(self, step: int, time: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def extend(self, other: Series) -> None:
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def part(self, start: int, end: int) -> Series:
        return Series(self.steps[start:end], self.times[start:end], self.values[start:end])

    def pack(self) -> bytes:
        return _HEAD.pack(len(self)) + self.steps.tobytes() + self.times.tobytes() + self.values.tobytes()

    @classmethod
    def unpack(cls, content: bytes) -> Series:
        (count,) = _HEAD.unpack_from(content)
        width, start = count * 8, _HEAD.size
        series = cls()
        series.steps.frombytes(content[start : start + width])
        series.times.frombytes(content[start + width : start + 2 * width])
        series.values.frombytes(content[start + 2 * width : start + 3 * width])
        return series

    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest finite value, if any."""
        finite = [value for value in self.values if math.isfinite(value)]
        return (min(finite), max(finite)) if finite else (None, None)


RunMetrics = dict[tuple[int, str], Series]


def collect(into: RunMetrics, run: int, record: dict[str, Any]) -> None:
    """Adds a logged record ``{"t", "s"?, "m": {name: value}}``; one without a step has step -1: counted at insert.

    A record that is none, or a value that is no number (an integer beyond a float's range), is passed over.
    """
    values, when, step = record.get("m"), record.get("t"), record.get("s", -1)
    if not isinstance(values, dict) or not isinstance(when, int | float) or type(step) is not int:
        return
    if not -(2**62) < step < 2**62 or not 0 <= when < 2**53:
        return
    for name, value in values.items():
        if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) > LARGEST_INT):
            continue
        series = into.get((run, name))
        if series is None:
            series = into.setdefault((run, storable_name(name)), Series())
        series.append(step, when, value)


def insert(tx: Tx, given: RunMetrics) -> dict[int, list[str]]:
    """Stores the points; gives the names that are new to each run. Names beyond the limit of a run are passed over."""
    known = _summaries(tx, {run for run, _ in given})
    names = _name_ids(tx, {name for _, name in given})
    given = _within_limit(given, known, names)
    _add_names(tx, names, {name for _, name in given})
    keyed = {(run, names[name]): series for (run, name), series in given.items()}
    tails = _open_chunks(tx, {key: known[key] for key in keyed if key in known})
    fresh: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    replaced: list[dict[str, Any]] = []
    for key, series in keyed.items():
        summary = known.get(key)
        _number_steps(series, summary["step"] if summary else -1)
        count = summary["count"] if summary else 0
        start, points = _with_tail(tails.get(key), series, count)
        if key in tails:
            replaced.append({"r": key[0], "n": key[1], "s": start})
        chunks.extend(_chunk_rows(key, start, points))
        row = _summary_row(key, series, summary)
        (changed if summary else fresh).append(row)
    _write(tx, fresh, changed, chunks, replaced)
    by_id = {number: name for name, number in names.items()}
    new: dict[int, list[str]] = {}
    for row in fresh:
        new.setdefault(row["run_id"], []).append(by_id[row["name_id"]])
    return new


def name_ids(tx: Tx, names: set[str]) -> dict[str, int]:
    """The numbers of these names of metrics; those that are new get one."""
    known = _name_ids(tx, names)
    _add_names(tx, known, names)
    return known


def _name_ids(tx: Tx, names: set[str]) -> dict[str, int]:
    table = schema.metric_names
    found: dict[str, int] = {}
    for part in in_parts(sorted(names)):
        found.update(
            {row.name: row.id for row in tx.connection.execute(sa.select(table).where(table.c.name.in_(part)))}
        )
    return found


def _add_names(tx: Tx, known: dict[str, int], names: set[str]) -> None:
    table = schema.metric_names
    rows = [{"name": name} for name in sorted(names - known.keys())]
    if rows:
        added = tx.connection.execute(table.insert().returning(table.c.id, table.c.name), rows)
        known.update({row.name: row.id for row in added})


def _summaries(tx: Tx, runs: set[int]) -> dict[tuple[int, int], dict[str, Any]]:
    table = schema.metrics
    rows = tx.connection.execute(sa.select(table).where(table.c.run_id.in_(sorted(runs)))).mappings()
    return {(row["run_id"], row["name_id"]): dict(row) for row in rows}


def _within_limit(given: RunMetrics, known: dict[tuple[int, int], dict[str, Any]], names: dict[str, int]) -> RunMetrics:
    counts: dict[int, int] = {}
    for run, _ in known:
        counts[run] = counts.get(run, 0) + 1
    kept: RunMetrics = {}
    for (run, name), series in given.items():
        if (run, names.get(name)) not in known:
            counts[run] = counts.get(run, 0) + 1
            if counts[run] > MOST_NAMES:
                continue
        kept[run, name] = series
    return kept


def _open_chunks(tx: Tx, known: dict[tuple[int, int], dict[str, Any]]) -> dict[tuple[int, int], tuple[int, Series]]:
    """The last chunk of each series that is not full yet: where it starts, and its points."""
    table = schema.metric_chunks
    wanted = {key: row["count"] - row["count"] % CHUNK for key, row in known.items() if row["count"] % CHUNK}
    tails: dict[tuple[int, int], tuple[int, Series]] = {}
    for keys in in_parts(sorted(wanted), MOST_IN // 3):
        part = [(*key, wanted[key]) for key in keys]
        select = sa.select(table.c.run_id, table.c.name_id, table.c.start, table.c.points).where(
            sa.tuple_(table.c.run_id, table.c.name_id, table.c.start).in_(part)
        )
        for row in tx.connection.execute(select):
            tails[row.run_id, row.name_id] = (row.start, Series.unpack(row.points))
    return tails


def _number_steps(series: Series, last: int) -> None:
    """Points logged without a step get the one behind the last."""
    if -1 not in series.steps:
        return
    for index, step in enumerate(series.steps):
        last = last + 1 if step == -1 else step
        series.steps[index] = last


def _with_tail(tail: tuple[int, Series] | None, series: Series, count: int) -> tuple[int, Series]:
    if tail is None:
        return count, series
    start, points = tail
    points.extend(series)
    return start, points


def _chunk_rows(key: tuple[int, int], start: int, points: Series) -> Iterable[dict[str, Any]]:
    for offset in range(0, len(points), CHUNK):
        part = points.part(offset, offset + CHUNK)
        low, high = part.bounds()
        yield {
            "run_id": key[0], "name_id": key[1], "start": start + offset, "count": len(part), "low": low, "high": high,
            "first_step": part.steps[0], "last_step": part.steps[-1], "points": part.pack(),
        }  # fmt: skip


def _summary_row(key: tuple[int, int], series: Series, old: dict[str, Any] | None) -> dict[str, Any]:
    low, high = series.bounds()
    last = series.values[-1]
    row: dict[str, Any] = {
        "run_id": key[0], "name_id": key[1], "last": last if math.isfinite(last) else None, "min": low, "max": high,
        "step": series.steps[-1], "count": len(series),
    }  # fmt: skip
    if old is not None:
        row["count"] += old["count"]
        row["min"] = min((v for v in (low, old["min"]) if v is not None), default=None)
        row["max"] = max((v for v in (high, old["max"]) if v is not None), default=None)
    return row


def _write(
    tx: Tx,
    fresh: Sequence[dict[str, Any]],
    changed: Sequence[dict[str, Any]],
    chunks: Sequence[dict[str, Any]],
    replaced: Sequence[dict[str, Any]],
) -> None:
    table, points = schema.metrics, schema.metric_chunks
    if replaced:
        where = (
            points.c.run_id == sa.bindparam("r"),
            points.c.name_id == sa.bindparam("n"),
            points.c.start == sa.bindparam("s"),
        )
        tx.connection.execute(points.delete().where(*where), replaced)
    if chunks:
        tx.connection.execute(points.insert(), chunks)
    if fresh:
        tx.connection.execute(table.insert(), fresh)
    if changed:
        names = ("last", "min", "max", "step", "count")
        update = (
            table.update()
            .where(table.c.run_id == sa.bindparam("old_run"), table.c.name_id == sa.bindparam("old_name"))
            .values({name: sa.bindparam(f"new_{name}") for name in names})
        )
        rows = [
            {"old_run": row["run_id"], "old_name": row["name_id"], **{f"new_{name}": row[name] for name in names}}
            for row in changed
        ]
        tx.connection.execute(update, rows)


def read(connection: sa.Connection, run: int, names: Sequence[str] | None = None) -> dict[str, Series]:
    """All points of a run, by name."""
    table, chunks = schema.metric_names, schema.metric_chunks
    select = (
        sa.select(table.c.name, chunks.c.points)
        .join(table, table.c.id == chunks.c.name_id)
        .where(chunks.c.run_id == run)
        .order_by(chunks.c.name_id, chunks.c.start)
    )
    if names is not None:
        select = select.where(table.c.name.in_(names))
    series: dict[str, Series] = {}
    for row in connection.execute(select):
        series.setdefault(row.name, Series()).extend(Series.unpack(row.points))
    return series


def read_on(connection: sa.Connection, name: str, known: Mapping[int, int]) -> dict[int, Series]:
    """The points of one metric of these runs, but for the first ones, as many as are known of each. Runs that have no
    others are left out."""
    chunks, metric = schema.metric_chunks, schema.metric_names
    select = (
        sa.select(chunks.c.run_id, chunks.c.start, chunks.c.points)
        .join(metric, metric.c.id == chunks.c.name_id)
        .where(metric.c.name == name)
        .order_by(chunks.c.run_id, chunks.c.start)
    )
    begun = [run for run, count in known.items() if count]
    wheres = [sa.and_(chunks.c.run_id == run, chunks.c.start >= known[run] - known[run] % CHUNK) for run in begun]
    wheres += [chunks.c.run_id.in_(part) for part in in_parts(sorted(known.keys() - set(begun)))]
    found: dict[int, Series] = {}
    for where in wheres:
        for row in connection.execute(select.where(where)):
            points = Series.unpack(row.points)
            fresh = points.part(max(0, known[row.run_id] - row.start), len(points))
            if len(fresh):
                found.setdefault(row.run_id, Series()).extend(fresh)
    return found
