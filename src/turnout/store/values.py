"""Parameters and tags of runs, and what they left behind: the newest word counts."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.bulk import Bulk
from turnout.store.writer import Tx

LARGEST_INT = 2**1000  # well within a float's range
_LONGEST_NAME = 256
_PARAM = ("name", "value", "number", "text")
_TAGS_OF = sa.select(schema.tags.c.name, schema.tags.c.value).where(schema.tags.c.run_id == sa.bindparam("run"))
_PARAMS_OF = sa.select(*(schema.params.c[name] for name in _PARAM)).where(schema.params.c.run_id == sa.bindparam("run"))
_INSERT_TAGS = Bulk(schema.tags.insert(), ["run_id", "name", "value"])
_INSERT_PARAMS = Bulk(schema.params.insert(), ["run_id", *_PARAM])


def _insert_of(dialect: str) -> Any:
    """Both know ON CONFLICT; only the one in use is imported, for PostgreSQL's takes long."""
    return importlib.import_module(f"sqlalchemy.dialects.{dialect}").insert


def param_rows(run: int, given: Mapping[str, object]) -> list[tuple[object, ...]]:
    """Rows of a new run's parameters: run, name, value, number, text."""
    return [(run, *(row[name] for name in _PARAM)) for row in _params(given)]


def inherit(tx: Tx, parent: int, children: Sequence[tuple[int, Mapping[str, object]]]) -> None:
    """New runs get the tags and parameters of their parent, and parameters of their own."""
    tags = tx.connection.execute(_TAGS_OF, {"run": parent}).all()
    _INSERT_TAGS.execute(tx.connection, [(run, *tag) for run, _ in children for tag in tags])
    given = [tuple(row) for row in tx.connection.execute(_PARAMS_OF, {"run": parent})]
    rows = []
    for run, own in children:
        found = {row[0]: row for row in given}
        found.update({str(row["name"]): tuple(row[name] for name in _PARAM) for row in _params(own)})
        rows += [(run, *row) for row in found.values()]
    _INSERT_PARAMS.execute(tx.connection, rows)


def set_params(tx: Tx, run: int, params: Mapping[str, object]) -> None:
    _replace(tx, schema.params, run, _params(params))


def set_tags(tx: Tx, run: int, tags: Mapping[str, str]) -> None:
    named = {storable_name(name): storable(value) for name, value in tags.items()}
    _replace(tx, schema.tags, run, [{"name": name, "value": value} for name, value in named.items()])


def set_after(tx: Tx, manifests: Mapping[int, str]) -> None:
    """The manifest of what each run left behind."""
    if manifests:
        table = schema.runs
        update = table.update().where(table.c.id == sa.bindparam("run")).values(after=sa.bindparam("manifest"))
        tx.connection.execute(update, [{"run": run, "manifest": digest} for run, digest in manifests.items()])


def storable(text: str) -> str:
    """`text` as every database takes it: PostgreSQL refuses NUL, and none takes half a surrogate pair."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def storable_name(text: str) -> str:
    """A metric's, parameter's or tag's name, short enough for an index."""
    return storable(text)[:_LONGEST_NAME]


def _params(given: Mapping[str, object]) -> list[dict[str, object]]:
    """Stored as JSON, so that ``"1"`` and ``1`` stay two things; a number and a text also as such, to be compared."""
    rows: dict[str, dict[str, object]] = {}
    for given_name, value in given.items():
        row = param_row(given_name, value)
        rows[str(row["name"])] = row
    return list(rows.values())


def param_row(name: str, value: object) -> dict[str, object]:
    text = storable(value) if isinstance(value, str) else None
    return {"name": storable_name(name), "value": json.dumps(value), "number": _number(value), "text": text}


def _number(value: object) -> float | None:
    """A number that can be compared: true and NaN cannot, nor an integer beyond a float's range."""
    if type(value) is float:
        return None if math.isnan(value) else value
    return float(value) if type(value) is int and abs(value) < LARGEST_INT else None


def _replace(tx: Tx, table: sa.Table, run: int, rows: list[dict[str, object]]) -> None:
    replace_rows(tx, table, [{"run_id": run, **row} for row in rows])


def replace_rows(tx: Tx, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Rows of parameters or tags, in place of those of the same run and name."""
    if rows:
        insert = _insert_of(tx.connection.dialect.name)(table)
        newest = {name: insert.excluded[name] for name in rows[0] if name not in ("run_id", "name")}
        replacing = insert.on_conflict_do_update(index_elements=["run_id", "name"], set_=newest)
        tx.connection.execute(replacing, rows)
