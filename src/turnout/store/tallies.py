"""How the runs of jobs stand, in numbers. A parent counts as its children, those not made yet as queued."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import sqlalchemy as sa

from turnout.model.pipeline import SKIPPED
from turnout.model.state import LIVE, ON_NODE, Reason, RunState
from turnout.store import schema
from turnout.store.belonging import REPLACED
from turnout.store.parts import in_parts

_RUNS, _JOBS = schema.runs, schema.jobs
_CANCELLED = ("cancelled", "stopped")
_SEARCH, _GIVEN_UP = "search", "given up"
_LIVE = [str(state) for state in LIVE]


class Counts(dict[str, int]):
    """How many runs of a job are in which state. Of a search, some may fail without harm, unless it `has_given_up`. A
    step that `is_unmade` has none yet."""

    is_search = False
    has_given_up = False
    is_unmade = False
    steps: Mapping[int, Counts] = MappingProxyType({})
    """of a pipeline, those of its steps by their jobs, of which it has the sum"""


def job_counts(connection: sa.Connection, jobs: Iterable[int] | None = None) -> dict[int, Counts]:
    """Of these jobs; of all that have runs where None are named, which is quicker than naming them."""
    if jobs is None:
        counts: dict[int, Counts] = {}
        _add(connection, counts, None)
        _add_steps(connection, counts, None)
        return counts
    counts = {job: Counts() for job in jobs}
    for part in in_parts(sorted(counts)):
        _add(connection, counts, part)
        _add_steps(connection, counts, part)
        unmade = sa.select(_JOBS.c.id).where(_JOBS.c.id.in_(part), _JOBS.c.unmade == 1)
        for job in connection.execute(unmade).scalars():
            counts[job].is_unmade = True
    return counts


def count_runs(connection: sa.Connection, jobs: Iterable[int]) -> int:
    """How many runs these jobs have together, as every list counts them. Those of a pipeline are its steps', which are
    jobs of their own."""
    return sum(sum(counts.values()) for counts in job_counts(connection, jobs).values() if not counts.steps)


def live_of(counts: Counts) -> int:
    return sum(counts.get(state, 0) for state in LIVE)


def state_of(counts: Counts) -> str:
    """The state of a job whose runs are in these."""
    if counts.is_unmade:
        return "queued"
    live = live_of(counts)
    if counts.steps and not live:
        states = {state_of(step) for step in counts.steps.values()}
        return next(state for state in ("failed", "cancelled", "completed") if state in states)
    if live:
        has_begun = live < sum(counts.values()) or any(counts.get(state) for state in ON_NODE)
        return "running" if has_begun else "queued"
    if counts.is_search and not counts.has_given_up and (counts.get("completed") or counts.get("stopped")):
        return "completed"
    return "failed" if counts.get("failed") else "cancelled" if counts.get("cancelled") else "completed"


def _add(connection: sa.Connection, counts: dict[int, Counts], jobs: Sequence[int] | None) -> None:
    mine = [] if jobs is None else [_RUNS.c.job_id.in_(jobs)]
    plain = sa.select(_RUNS.c.job_id, _RUNS.c.state, sa.func.count()).where(_RUNS.c.children_planned == 0, *mine)
    for job, state, number in connection.execute(plain.group_by(_RUNS.c.job_id, _RUNS.c.state)):
        counts.setdefault(job, Counts())[state] = number
    replaced = sa.select(_RUNS.c.job_id, _RUNS.c.state, sa.func.count()).where(
        _RUNS.c.step == REPLACED, _RUNS.c.children_planned == 0, *mine
    )
    for job, state, number in connection.execute(replaced.group_by(_RUNS.c.job_id, _RUNS.c.state)):
        _move(counts[job], state, None, number)  # who takes their place counts
    skipped = sa.select(_RUNS.c.job_id, sa.func.count()).where(
        sa.text("reason = 'condition'"), _RUNS.c.step != REPLACED, _RUNS.c.children_planned == 0, *mine
    )
    for job, number in connection.execute(skipped.group_by(_RUNS.c.job_id)):
        _move(counts[job], RunState.CANCELLED, SKIPPED, number)
    for job, state, number in _of_parents(connection, mine):
        of_job = counts.setdefault(job, Counts())
        if state in (_SEARCH, _GIVEN_UP):
            of_job.is_search = True
            of_job.has_given_up = state == _GIVEN_UP
        else:
            of_job[state] = of_job.get(state, 0) + number


def _move(counts: Counts, state: str, other: str | None, number: int) -> None:
    left = counts.pop(state) - number
    if left:
        counts[state] = left
    if other is not None:
        counts[other] = counts.get(other, 0) + number


def _add_steps(connection: sa.Connection, counts: dict[int, Counts], jobs: Sequence[int] | None) -> None:
    """A pipeline counts as its steps. One whose runs are not made yet counts as one run at least."""
    which = _JOBS.c.pipeline.is_not(None) if jobs is None else _JOBS.c.pipeline.in_(jobs)
    rows = connection.execute(sa.select(_JOBS.c.id, _JOBS.c.pipeline, _JOBS.c.unmade).where(which)).all()
    of_steps = counts if jobs is None else job_counts(connection, [row.id for row in rows])
    found: dict[int, dict[int, Counts]] = {}
    for row in rows:
        step = of_steps.setdefault(row.id, Counts())
        if row.unmade:
            step["created"] = step.get("created", 0) + 1
        found.setdefault(row.pipeline, {})[row.id] = step
        whole = counts.setdefault(row.pipeline, Counts())
        whole.steps = found[row.pipeline]
        for state, number in step.items():
            whole[state] = whole.get(state, 0) + number


def _of_parents(connection: sa.Connection, mine: Sequence[sa.ColumnElement[bool]]) -> Iterator[tuple[int, str, int]]:
    """What parents stand for: the children they have still to make, those that they will never make because they were
    cancelled or skipped, or their script failed, and then at least themselves. One of a search that may get more stands
    for one at least."""
    children = _RUNS.alias()
    made = sa.select(sa.func.count()).where(children.c.parent == _RUNS.c.id).scalar_subquery()
    unmade = sa.case((_JOBS.c.children_total.is_(None), _RUNS.c.children_planned - made), else_=0)
    is_open = sa.and_(_RUNS.c.stage == 1, _RUNS.c.state.in_(_LIVE))
    is_cut = _RUNS.c.state.in_(_CANCELLED)
    script_failed = sa.and_(_RUNS.c.state == "failed", _RUNS.c.cause.is_not(None))
    select = (
        sa.select(
            _RUNS.c.job_id, sa.func.sum(_RUNS.c.remaining).label("left"),
            sa.func.sum(sa.case((script_failed, 1), else_=0)).label("failed"),
            sa.func.sum(sa.case((script_failed, unmade), else_=0)).label("failed_unmade"),
            sa.func.sum(sa.case((is_cut, 1), else_=0)).label("cut"),
            sa.func.sum(sa.case((is_cut, unmade), else_=0)).label("cut_unmade"),
            sa.func.sum(sa.case((_RUNS.c.reason == str(Reason.CONDITION), 1), else_=0)).label("skipped"),
            sa.func.sum(sa.case((is_open, 1), else_=0)).label("open"), sa.func.max(_RUNS.c.stage).label("stage"),
            sa.func.sum(sa.case((_RUNS.c.state != "failed", 1), else_=0)).label("sound"),
            (_JOBS.c.children_total - _JOBS.c.children_made).label("stock"), _JOBS.c.children_made.label("made"),
        )
        .join(_JOBS, _JOBS.c.id == _RUNS.c.job_id)
        .where(_RUNS.c.children_planned > 0, _RUNS.c.step != REPLACED, *mine)
        .group_by(_RUNS.c.job_id, _JOBS.c.children_total, _JOBS.c.children_made)
    )  # fmt: skip
    for row in connection.execute(select):
        left = int(row.left) if row.stock is None else min(int(row.left), int(row.stock))
        if row.stage:
            yield row.job_id, _SEARCH if row.sound else _GIVEN_UP, 0
        if row.open:
            left = max(1, int(row.stock))
        never = (
            int(row.stock) if row.stock and not left and not row.stage else 0
        )  # of a stock that parents share, and nobody makes
        if left:
            yield row.job_id, "queued", left
        if row.failed:
            yield row.job_id, "failed", max(int(row.failed), int(row.failed_unmade), 0 if row.cut else never)
        is_barren = bool(row.stage and not row.made)  # a search that was ended before it made a run
        if row.cut and (row.cut_unmade or never or is_barren):
            state = SKIPPED if row.skipped == row.cut else "cancelled"
            yield row.job_id, state, max(int(row.cut_unmade), never, is_barren)
