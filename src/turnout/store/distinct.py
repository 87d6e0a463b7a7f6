"""The different values of an indexed column, found by leaping from one to the next: a million rows cost nothing."""

from __future__ import annotations

import sqlalchemy as sa

_FEW = 2000


def few_values(connection: sa.Connection, column: sa.Column[str], *, most: int = _FEW) -> list[str] | None:
    """All values there are but NULL, sorted; None when there are more than `most`. An index begins with `column`."""
    leap = sa.select(sa.func.min(column).label("value")).cte("leap", recursive=True)
    following = sa.select(sa.func.min(column)).where(column > leap.c.value).scalar_subquery()
    leap = leap.union_all(sa.select(following).where(leap.c.value.is_not(None)))
    select = sa.select(leap.c.value).where(leap.c.value.is_not(None)).limit(most + 1)
    values = [str(value) for value in connection.execute(select).scalars()]
    return None if len(values) > most else values
