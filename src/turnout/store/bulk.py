"""Statements for many rows: compiled once, and the rows handed to the driver as they are.

SQLAlchemy looks at every value of every row on its way; for the handful of statements that every run passes several
times, that was half of the hub's work. What is written here is plain text, numbers and bytes, which the drivers know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa


class Bulk:
    """`statement` is an insert, update or delete whose parameters are named as the keys of the rows."""

    def __init__(self, statement: sa.Insert | sa.Update | sa.Delete) -> None:
        self._statement = statement
        self._compiled: dict[tuple[str, tuple[str, ...]], tuple[str, list[str] | None]] = {}

    def execute(self, connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> int:
        """Executes it for all rows, which have the same keys; the number of rows it changed."""
        if not rows:
            return 0
        key = (connection.dialect.name, tuple(rows[0]))
        compiled = self._compiled.get(key)
        if compiled is None:
            made = self._statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
            compiled = self._compiled[key] = (str(made), made.positiontup)
        text, order = compiled
        values: list[Any] = [tuple(row[name] for name in order) for row in rows] if order is not None else list(rows)
        return connection.exec_driver_sql(text, values).rowcount
