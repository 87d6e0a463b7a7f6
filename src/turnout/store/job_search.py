"""Finding jobs: by the same filters as runs, read from no more columns than they ask for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from turnout import query
from turnout.model.ids import job_name
from turnout.query import Expression, Sort
from turnout.store import schema
from turnout.store.parts import in_parts
from turnout.store.reads import View, tally_view
from turnout.store.tallies import Counts, job_counts

_JOBS = schema.jobs
_BY_NUMBER = frozenset({"name", "created"})  # of a job: its number tells both
_TALLIED = frozenset({"state", "runs", "counts", "done", "failed", "live"})
_READ: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("label", "experiment", "workspace", "target", "created", "origin", "step"), lambda value: value),
    "pipeline": lambda number: None if number is None else job_name(number),
    "tags": lambda spec: json.loads(spec).get("tags", {}),
}
_PART = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Those of `jobs` (None = all) that fit, newest first or in this order: `limit` of them after `offset`, both
    counted from the end of that order if `from_end`."""

    jobs: Sequence[int] | None
    expression: Expression | None
    order: Sort | None
    limit: int
    offset: int = 0
    from_end: bool = False


def find_jobs(connection: sa.Connection, wanted: Wanted, now: datetime) -> list[int]:
    """Their numbers. All jobs are looked at only where the order asks for more than their number tells; what lacks the
    column comes last."""
    order, last = wanted.order, wanted.offset + wanted.limit
    by_number = order is None or order.column in _BY_NUMBER
    descending = order is None or order.descending
    jobs = wanted.jobs if wanted.jobs is not None or _asks_for_steps(wanted) else _but_steps(connection)
    candidates = _ids(connection, jobs, descending=descending != wanted.from_end if by_number else True)
    if not by_number:
        found = _arranged(connection, candidates if jobs is not None else None, wanted, now)
        found = found[::-1] if wanted.from_end else found
    elif wanted.expression is None:
        found = candidates
    else:
        found = []
        for part in in_parts(candidates, _PART):
            found += _arranged(connection, part, wanted, now)
            if len(found) >= last:
                break
    page = found[wanted.offset : last]
    return page[::-1] if wanted.from_end else page


def _asks_for_steps(wanted: Wanted) -> bool:
    asked = {*query.columns_of(wanted.expression), *([wanted.order.column] if wanted.order is not None else [])}
    return bool(asked & {"pipeline", "step"})


def _but_steps(connection: sa.Connection) -> Sequence[int] | None:
    """All jobs but the steps of pipelines; None = there are no such."""
    has_steps = connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.pipeline.is_not(None)).limit(1)).first()
    if has_steps is None:
        return None
    return list(connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.pipeline.is_(None))).scalars())


def _ids(connection: sa.Connection, jobs: Sequence[int] | None, *, descending: bool) -> list[int]:
    found = connection.execute(sa.select(_JOBS.c.id)).scalars() if jobs is None else jobs
    return sorted(found, reverse=descending)


def _arranged(connection: sa.Connection, jobs: Sequence[int] | None, wanted: Wanted, now: datetime) -> list[int]:
    """Those that fit, in the order wanted, or as they came where their number tells it."""
    order = wanted.order if wanted.order is not None and wanted.order.column not in _BY_NUMBER else None
    used = {*query.columns_of(wanted.expression), *([order.column] if order is not None else [])}
    rows = _rows(connection, jobs, {column.partition(".")[0] for column in used})
    return [row["_id"] for row in query.arrange(rows, wanted.expression, order, now=now, table=query.JOBS)]


def _rows(connection: sa.Connection, jobs: Sequence[int] | None, columns: set[str]) -> list[View]:
    """These columns of the jobs, in their order; of all, newest first."""
    read = [name for name in _READ if name in columns]
    select = sa.select(_JOBS.c.id, *(_JOBS.c["spec" if name == "tags" else name] for name in read))
    selects = (
        [select.order_by(_JOBS.c.id.desc())]
        if jobs is None
        else [select.where(_JOBS.c.id.in_(part)) for part in in_parts(jobs)]
    )
    rows: dict[int, View] = {}
    for job, *values in (row for each in selects for row in connection.execute(each)):
        told = {name: _READ[name](value) for name, value in zip(read, values, strict=True)}
        rows[job] = {"_id": job, "name": job_name(job), **told}
    if columns & _TALLIED:
        counts = job_counts(connection, jobs)
        for job, row in rows.items():
            row.update(tally_view(counts.get(job, Counts())))
    return list(rows.values()) if jobs is None else [rows[job] for job in jobs if job in rows]
