"""How the runs of jobs stand, in numbers. A parent counts as its children, those not made yet as queued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa

from turnout.model.state import LIVE, ON_NODE
from turnout.store import schema
from turnout.store.parts import in_parts

_RUNS, _JOBS = schema.runs, schema.jobs
Counts = dict[str, int]
"""how many runs of a job are in which state"""


def job_counts(connection: sa.Connection, jobs: Iterable[int] | None = None) -> dict[int, Counts]:
    """Of these jobs; of all that have runs where None are named, which is quicker than naming them."""
    if jobs is None:
        counts: dict[int, Counts] = {}
        _add(connection, counts, None)
        return counts
    counts = {job: {} for job in jobs}
    for part in in_parts(sorted(counts)):
        _add(connection, counts, part)
    return counts


def live_of(counts: Counts) -> int:
    return sum(counts.get(state, 0) for state in LIVE)


def state_of(counts: Counts) -> str:
    """The state of a job whose runs are in these."""
    live = live_of(counts)
    if live:
        has_begun = live < sum(counts.values()) or any(counts.get(state) for state in ON_NODE)
        return "running" if has_begun else "queued"
    return "failed" if counts.get("failed") else "cancelled" if counts.get("cancelled") else "completed"


def _add(connection: sa.Connection, counts: dict[int, Counts], jobs: Sequence[int] | None) -> None:
    mine = [] if jobs is None else [_RUNS.c.job_id.in_(jobs)]
    plain = sa.select(_RUNS.c.job_id, _RUNS.c.state, sa.func.count()).where(_RUNS.c.children_planned == 0, *mine)
    for job, state, number in connection.execute(plain.group_by(_RUNS.c.job_id, _RUNS.c.state)):
        counts.setdefault(job, {})[state] = number
    for job, state, number in _of_parents(connection, mine):
        of_job = counts.setdefault(job, {})
        of_job[state] = of_job.get(state, 0) + number


def _of_parents(connection: sa.Connection, mine: Sequence[sa.ColumnElement[bool]]) -> Iterator[tuple[int, str, int]]:
    """What parents stand for: the children they have still to make, and themselves when their own script failed."""
    script_failed = sa.case((sa.and_(_RUNS.c.state == "failed", _RUNS.c.cause.is_not(None)), 1), else_=0)
    select = (
        sa.select(
            _RUNS.c.job_id, sa.func.sum(_RUNS.c.remaining).label("left"), sa.func.sum(script_failed).label("failed"),
            (_JOBS.c.children_total - _JOBS.c.children_made).label("stock"),
        )
        .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
        .where(_RUNS.c.children_planned > 0, *mine)
        .group_by(_RUNS.c.job_id, _JOBS.c.children_total, _JOBS.c.children_made)
    )  # fmt: skip
    for row in connection.execute(select):
        left = int(row.left) if row.stock is None else min(int(row.left), int(row.stock))
        if left:
            yield row.job_id, "queued", left
        if row.failed:
            yield row.job_id, "failed", int(row.failed)
