"""Patterns of ``*`` and ``?`` as SQL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa


def fits(connection: sa.Connection, place: sa.ColumnElement[Any], pattern: str) -> sa.ColumnElement[bool]:
    """Whether the whole text fits the pattern; upper and lower case differ. NULL where there is no text."""
    if connection.dialect.name == "sqlite":
        return sa.type_coerce(place.op("GLOB", is_comparison=True)(pattern.replace("[", "[[]")), sa.Boolean)
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, "\\" + special)
    return place.like(pattern.replace("*", "%").replace("?", "_"), escape="\\")
