"""How much a run has recorded under names so far."""

from __future__ import annotations

import json
from typing import Literal

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.store import schema
from turnout.store.writer import Tx

Kind = Literal["params", "tags"]
_TABLES = {"params": schema.params, "tags": schema.tags}


def sizes(tx: Tx, kind: Kind, run: int) -> dict[str, int]:
    """Name -> length of its value as it is kept."""
    table = _TABLES[kind]
    select = sa.select(table.c.name, sa.func.length(table.c.value)).where(table.c.run_id == run)
    return {str(name): int(length) for name, length in tx.connection.execute(select)}


def was_refused(tx: Tx, what: str, run: int) -> bool:
    """Whether the run's history says already that something of this kind was refused."""
    events = schema.events
    select = sa.select(events.c.data).where(events.c.run_id == run, events.c.event == EventName.REFUSED.value)
    return any(json.loads(data).get("what") == what for data in tx.connection.execute(select).scalars())
