"""Which snapshots the store refers to: what jobs were given and read, what runs left behind, what shares stand for.

Read page by page, newest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import job_name, run_name
from turnout.store import schema


class Kind(StrEnum):
    BEFORE = "before"  # of a job: what its runs are given
    AFTER = "after"  # of a run: what it left behind
    DATA = "data"  # of a job: the data its runs read
    MODEL = "model"  # of a job: the model its runs read
    SHARE = "share"  # of a share: what its name stands for now


_PLACES: dict[Kind, tuple[sa.Table, sa.Column[str]]] = {
    Kind.BEFORE: (schema.jobs, schema.jobs.c.before),
    Kind.AFTER: (schema.runs, schema.runs.c.after),
    Kind.DATA: (schema.jobs, schema.jobs.c.data),
    Kind.MODEL: (schema.jobs, schema.jobs.c.model),
    Kind.SHARE: (schema.shares, schema.shares.c.manifest),
}
_NAMES = {"jobs": (), "runs": ("number", "child"), "shares": ("name",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The snapshot whose manifest has this digest is that of `owner`, the name of a job, run or share."""

    owner: str
    kind: Kind
    manifest: str


@dataclass(frozen=True, slots=True)
class Page:
    """`below` is where the next page begins; None at the end."""

    references: list[Reference]
    below: int | None


def references(connection: sa.Connection, kind: Kind, *, below: int | None = None, count: int = 2000) -> Page:
    """The snapshots of the next `count` jobs, runs or shares; those that have none are left out of the page.

    Pages read one after the other show all that were there at the beginning and still are.
    """
    table, manifest = _PLACES[kind]
    select = sa.select(table.c.id, manifest.label("manifest"), *(table.c[name] for name in _NAMES[table.name]))
    if below is not None:
        select = select.where(table.c.id < below)
    rows = connection.execute(select.order_by(table.c.id.desc()).limit(count)).all()
    found = [
        Reference(owner=_owner(table, row), kind=kind, manifest=row.manifest)
        for row in rows
        if row.manifest is not None
    ]
    return Page(found, rows[-1].id if len(rows) == count else None)


def _owner(table: sa.Table, row: Any) -> str:
    if table is schema.shares:
        return f"share {row.name}"
    return job_name(row.id) if table is schema.jobs else run_name(row.number, row.child or None)
