"""Tags that people put on runs and jobs, many at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.store import schema
from turnout.store.parts import in_parts
from turnout.store.values import replace_rows, storable, storable_name
from turnout.store.writer import Tx


def tag_sizes(tx: Tx, runs: Sequence[int]) -> dict[int, dict[str, int]]:
    """Of each run: name -> length of the value."""
    table = schema.tags
    sizes: dict[int, dict[str, int]] = {run: {} for run in runs}
    for part in in_parts(runs):
        select = sa.select(table.c.run_id, table.c.name, sa.func.length(table.c.value).label("size"))
        for row in tx.connection.execute(select.where(table.c.run_id.in_(part))):
            sizes[row.run_id][row.name] = row.size
    return sizes


def put_tags(tx: Tx, runs: Iterable[int], tags: Mapping[str, str]) -> None:
    rows = [
        {"run_id": run, "name": storable_name(name), "value": storable(value)}
        for run in runs
        for name, value in tags.items()
    ]
    replace_rows(tx, schema.tags, rows)


def drop_tags(tx: Tx, runs: Sequence[int], names: Sequence[str]) -> None:
    table = schema.tags
    for part in in_parts(runs):
        tx.connection.execute(table.delete().where(table.c.run_id.in_(part), table.c.name.in_(names)))


def change_job_tags(tx: Tx, job: int, change: Mapping[str, str | None]) -> None:
    """Sets those with a value, removes the others, and says so in the job's history. NoResultFound for no such job."""
    table, events = schema.jobs, schema.job_events
    spec = json.loads(tx.connection.execute(sa.select(table.c.spec).where(table.c.id == job)).scalar_one())
    tags = {**spec.get("tags", {}), **change}
    spec["tags"] = {name: value for name, value in tags.items() if value is not None}
    tx.connection.execute(table.update().where(table.c.id == job).values(spec=json.dumps(spec)))
    last = tx.connection.execute(sa.select(sa.func.max(events.c.seq)).where(events.c.job_id == job)).scalar() or 0
    row = {"job_id": job, "seq": last + 1, "time": tx.now, "event": str(EventName.TAGS), "data": json.dumps(change)}
    tx.connection.execute(events.insert(), row)
