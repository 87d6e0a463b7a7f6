"""Statements for many rows: compiled once, and the rows handed to the driver as they are.

SQLAlchemy looks at every value of every row on its way; for the handful of statements that every run passes several
times, that was half of the hub's work. What is written here is plain text, numbers and bytes, which the drivers know.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import sqlalchemy as sa


class Bulk:
    """`statement` is an insert, update or delete; its rows are tuples with the parameters of these `names`."""

    def __init__(self, statement: sa.Insert | sa.Update | sa.Delete, names: Sequence[str]) -> None:
        self._statement = statement
        self._names = list(names)
        self._compiled: dict[str, tuple[str, list[str] | None]] = {}

    def execute(self, connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        """Executes it for all rows; the number of rows it changed."""
        if not rows:
            return 0
        compiled = self._compiled.get(connection.dialect.name)
        if compiled is None:
            made = self._statement.compile(dialect=connection.dialect, column_keys=self._names)
            compiled = self._compiled[connection.dialect.name] = (str(made), made.positiontup)
        text, order = compiled
        return connection.exec_driver_sql(text, self._arrange(rows, order)).rowcount

    def _arrange(self, rows: Sequence[tuple[Any, ...]], order: list[str] | None) -> list[Any]:
        """As the driver wants them: by name, or in the order of the statement, which mostly is that of the rows."""
        if order is None:
            return [dict(zip(self._names, row, strict=True)) for row in rows]
        if order == self._names:
            return list(rows)
        return list(map(itemgetter(*map(self._names.index, order)), rows))
