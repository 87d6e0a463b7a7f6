"""Named shares: a name, and the manifest of the files it stands for now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.store import schema
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    name: str
    manifest: str
    files: int
    bytes: int
    created: float
    updated: float


def find_share(connection: sa.Connection, name: str) -> Share | None:
    row = connection.execute(sa.select(schema.shares).where(schema.shares.c.name == name)).mappings().first()
    return _share(row) if row is not None else None


def list_shares(connection: sa.Connection) -> list[Share]:
    """All of them, by name."""
    return [
        _share(row) for row in connection.execute(sa.select(schema.shares).order_by(schema.shares.c.name)).mappings()
    ]


def set_share(tx: Tx, name: str, manifest: str, *, files: int, size: int, instead_of: str | None) -> bool:
    """From now on the name stands for `manifest`. False, and nothing written, when it does not stand for `instead_of`
    any more (None: there was no such share): somebody else changed it meanwhile."""
    table = schema.shares
    found = find_share(tx.connection, name)
    if (found.manifest if found is not None else None) != instead_of:
        return False
    values = {"manifest": manifest, "files": files, "bytes": size, "updated": tx.now}
    if found is None:
        tx.connection.execute(table.insert(), {"name": name, "created": tx.now, **values})
        return True
    update = table.update().where(table.c.name == name, table.c.manifest == instead_of).values(values)
    return tx.connection.execute(update).rowcount == 1


def delete_share(tx: Tx, name: str) -> bool:
    """Whether there was one. What jobs were bound to stays."""
    return tx.connection.execute(schema.shares.delete().where(schema.shares.c.name == name)).rowcount == 1


def _share(row: Any) -> Share:
    return Share(
        name=row["name"], manifest=row["manifest"], files=row["files"], bytes=row["bytes"], created=row["created"],
        updated=row["updated"],
    )  # fmt: skip
