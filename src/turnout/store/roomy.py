"""Room for a transaction that touches much of the database at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

_KIBIBYTES = 512 << 10


@contextmanager
def roomy(connection: sa.Connection) -> Iterator[None]:
    """SQLite holds what a transaction changed in its cache. What does not fit goes to the log, page by page and again
    each time it changes, and every later look at it searches that log: a large import would take minutes."""
    if connection.dialect.name != "sqlite":
        yield
        return
    before = connection.exec_driver_sql("PRAGMA cache_size").scalar()
    connection.exec_driver_sql(f"PRAGMA cache_size=-{_KIBIBYTES}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size={before}")
