"""Jobs whose end somebody wants to be told of: kept until that was done."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from turnout.model.state import LIVE
from turnout.store import schema
from turnout.store.writer import Tx

_JOBS, _RUNS = schema.jobs, schema.runs
_LIVE = [str(state) for state in LIVE]


@dataclass(frozen=True, slots=True)
class Due:
    """The job is over; `environment` is the digest of its submitter's."""

    job: int
    command: str
    environment: str


def due_notices(connection: sa.Connection, *, most: int = 32) -> list[Due]:
    """Jobs that are over and not told of yet, oldest first."""
    steps = _JOBS.alias()
    going = sa.exists().where(_RUNS.c.job_id == _JOBS.c.id, _RUNS.c.state.in_(_LIVE))
    going_steps = sa.exists().where(steps.c.pipeline == _JOBS.c.id, sa.or_(steps.c.open > 0, steps.c.unmade == 1))
    select = sa.select(_JOBS.c.id, _JOBS.c.notify, _JOBS.c.environment).where(
        _JOBS.c.notify.is_not(None), ~going, ~going_steps
    )
    return [Due(*row) for row in connection.execute(select.order_by(_JOBS.c.id).limit(most))]


def told(tx: Tx, job: int) -> None:
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == job).values(notify=None))
