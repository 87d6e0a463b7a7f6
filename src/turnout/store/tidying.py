"""Giving back the room of what was deleted. SQLite keeps it for what comes next; PostgreSQL sees to it by itself."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass

from sqlalchemy.engine import Engine

_LEAST = 4 << 20
_SHARE = 4  # as soon as one part in so many is empty, the file is written anew


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """Bytes of the database's files, and how many of them were given back, or would be."""

    bytes: int
    freed: int


def tidy(engine: Engine, *, dry_run: bool = False) -> Tidied:
    path = engine.url.database
    if engine.dialect.name != "sqlite" or path is None:
        return Tidied(bytes=0, freed=0)
    before = _size(path)
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        pages, free, size = (
            cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        is_worth_it = free * size >= _LEAST and free * _SHARE >= pages
        if dry_run:  # the log goes into the file, which then has all pages, or all that are not empty
            after = (pages - free * is_worth_it) * size
            return Tidied(bytes=before, freed=max(0, before - after))
        if is_worth_it:
            with suppress(sqlite3.OperationalError):  # there is no room to write it anew: another time
                cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Tidied(bytes=_size(path), freed=max(0, before - _size(path)))


def _size(path: str) -> int:
    """The file and the log beside it."""
    return sum(os.path.getsize(name) for name in (path, f"{path}-wal") if os.path.exists(name))
