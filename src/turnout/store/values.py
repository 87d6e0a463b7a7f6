"""Parameters and tags of runs, and what they left behind: the newest word counts."""

from __future__ import annotations

import json
from collections.abc import Mapping

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.writer import Tx


def insert_params(tx: Tx, given: list[tuple[int, Mapping[str, object]]]) -> None:
    """Parameters of new runs."""
    rows = [{"run_id": run, **_param(name, value)} for run, params in given for name, value in params.items()]
    if rows:
        tx.connection.execute(schema.params.insert(), rows)


def set_params(tx: Tx, run: int, params: Mapping[str, object]) -> None:
    _replace(tx, schema.params, run, [_param(name, value) for name, value in params.items()])


def set_tags(tx: Tx, run: int, tags: Mapping[str, str]) -> None:
    _replace(tx, schema.tags, run, [{"name": name, "value": value} for name, value in tags.items()])


def set_after(tx: Tx, manifests: Mapping[int, str]) -> None:
    """The manifest of what each run left behind."""
    if manifests:
        table = schema.runs
        update = table.update().where(table.c.id == sa.bindparam("run")).values(after=sa.bindparam("manifest"))
        tx.connection.execute(update, [{"run": run, "manifest": digest} for run, digest in manifests.items()])


def _param(name: str, value: object) -> dict[str, object]:
    """Stored as JSON, so that ``"1"`` and ``1`` stay two things; a number also as one, to be compared."""
    number = float(value) if isinstance(value, int | float) and abs(value) < 2**1000 else None
    return {"name": name, "value": json.dumps(value), "number": number}


def _replace(tx: Tx, table: sa.Table, run: int, rows: list[dict[str, object]]) -> None:
    if rows:
        tx.connection.execute(
            table.delete().where(table.c.run_id == run, table.c.name.in_([row["name"] for row in rows]))
        )
        tx.connection.execute(table.insert(), [{"run_id": run, **row} for row in rows])
