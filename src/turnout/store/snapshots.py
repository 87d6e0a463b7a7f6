"""Which snapshots the store refers to: what jobs were given, what runs left behind. Read page by page, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from turnout.model.ids import job_name, run_name
from turnout.store import schema


class Kind(StrEnum):
    BEFORE = "before"  # of a job: what its runs are given
    AFTER = "after"  # of a run: what it left behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The snapshot whose manifest has this digest is that of `owner`, a job's or run's name."""

    owner: str
    kind: Kind
    manifest: str


@dataclass(frozen=True, slots=True)
class Page:
    """`below` is where the next page begins; None at the end."""

    references: list[Reference]
    below: int | None


def references(connection: sa.Connection, kind: Kind, *, below: int | None = None, count: int = 2000) -> Page:
    """The snapshots of the next `count` jobs or runs; those that have none are left out of the page.

    Pages read one after the other show all that were there at the beginning and still are.
    """
    jobs, runs = schema.jobs, schema.runs
    if kind is Kind.BEFORE:
        select = sa.select(jobs.c.id, jobs.c.id.label("number"), sa.literal(0).label("child"), jobs.c.before)
        key: sa.ColumnElement[int] = jobs.c.id
    else:
        select = sa.select(runs.c.id, runs.c.number, runs.c.child, runs.c.after)
        key = runs.c.id
    if below is not None:
        select = select.where(key < below)
    rows = connection.execute(select.order_by(key.desc()).limit(count)).all()
    found = [
        Reference(owner=_owner(kind, number, child), kind=kind, manifest=manifest)
        for _, number, child, manifest in rows
        if manifest is not None
    ]
    return Page(found, rows[-1][0] if len(rows) == count else None)


def _owner(kind: Kind, number: int, child: int) -> str:
    return job_name(number) if kind is Kind.BEFORE else run_name(number, child or None)
