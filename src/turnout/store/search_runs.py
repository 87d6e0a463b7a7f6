"""The runs of searches, as who looks after a search needs them: few columns, and only of those that matter now."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.state import ON_NODE, TERMINAL, RunState
from turnout.store import schema
from turnout.store.belonging import REPLACED
from turnout.store.parts import in_parts

_RUNS, _ATTEMPTS, _JOBS = schema.runs, schema.attempts, schema.jobs
_CHILDREN = sa.select(
    _RUNS.c.child, _RUNS.c.id, _RUNS.c.state, _RUNS.c.reason, _RUNS.c.attempt, _ATTEMPTS.c.claimed
).select_from(
    _RUNS.outerjoin(
        _ATTEMPTS, sa.and_(_ATTEMPTS.c.run_id == _RUNS.c.id, _ATTEMPTS.c.attempt == _RUNS.c.attempt)
    )
)  # fmt: skip
_MINE = _RUNS.c.job_id == sa.bindparam("job")
_ON_NODES = _CHILDREN.where(
    _MINE, _RUNS.c.children_planned == 0, _RUNS.c.state.in_([str(state) for state in ON_NODE])
)  # fmt: skip
_PARENTS = sa.select(
    _RUNS.c.stage, _RUNS.c.state, _RUNS.c.queued, _RUNS.c.step, _RUNS.c.good_children, _RUNS.c.failed_children
).where(_MINE, _RUNS.c.children_planned > 0)  # fmt: skip
_BAD = [str(RunState.FAILED), str(RunState.CANCELLED)]


class Child(NamedTuple):
    """The run that proposal `number` became, as it is. `claimed`: when a node took it for its current `attempt`. `run`
    None = it was deleted since, which counts as if it had been cancelled."""

    number: int
    run: int | None
    state: RunState
    reason: str | None = None
    attempt: int = 0
    claimed: float | None = None

    @property
    def is_over(self) -> bool:
        return self.state in TERMINAL

    @property
    def since(self) -> float | None:
        """What it told before that is of another attempt; None = there was none."""
        return self.claimed if self.attempt > 1 else None


class Parents(NamedTuple):
    """The outer runs of a search: the `stages` of those that are not over, whether all of these are held, whether any
    that counts was ever let into the queue; and how many of their children have ended."""

    stages: frozenset[int]
    is_held: bool
    has_begun: bool
    ended: int


def parents(connection: sa.Connection, job: int) -> Parents:
    rows = connection.execute(_PARENTS, {"job": job}).all()
    open_ones = [row for row in rows if RunState(row.state) not in TERMINAL]
    return Parents(
        stages=frozenset(row.stage for row in open_ones),
        is_held=bool(open_ones) and all(row.state == RunState.CREATED for row in open_ones),
        has_begun=any(row.queued is not None and row.step != REPLACED for row in rows),
        ended=sum(row.good_children + row.failed_children for row in rows),
    )


def count_bad(connection: sa.Connection, job: int) -> int:
    """How many of its runs failed or were cancelled."""
    where = (_RUNS.c.job_id == job, _RUNS.c.child > 0, _RUNS.c.state.in_(_BAD))
    return connection.execute(sa.select(sa.func.count()).where(*where)).scalar_one()


def on_nodes(connection: sa.Connection, job: int) -> list[Child]:
    """Those that nodes have, in order. Put in order here: for that, SQLite would go through all that there are."""
    return sorted(_children(connection.execute(_ON_NODES, {"job": job})))


def children(connection: sa.Connection, job: int, numbers: Collection[int]) -> list[Child]:
    """Those of these numbers, in order, each of which became a run."""
    found: dict[int, Child] = {}
    for part in in_parts(sorted(numbers)):
        rows = connection.execute(_CHILDREN.where(_RUNS.c.job_id == job, _RUNS.c.child.in_(part)))
        found.update({child.number: child for child in _children(rows)})
    return [found.get(number) or Child(number, None, RunState.CANCELLED) for number in sorted(numbers)]


def jobs_of(connection: sa.Connection, runs: Iterable[int]) -> set[int]:
    """The jobs of those of these runs that are outer runs of searches."""
    found: set[int] = set()
    for part in in_parts(sorted(runs)):
        select = sa.select(_RUNS.c.job_id).where(_RUNS.c.id.in_(part), _RUNS.c.stage > 0).distinct()
        found.update(connection.execute(select).scalars())
    return found


def queues_of(connection: sa.Connection, runs: Collection[int]) -> set[str]:
    """Where these outer runs wait."""
    return set(connection.execute(sa.select(_RUNS.c.queue).where(_RUNS.c.id.in_(runs)).distinct()).scalars())


def files_of(connection: sa.Connection, jobs: Iterable[int]) -> set[str]:
    """The digests of these jobs' frozen files."""
    found: set[str] = set()
    for part in in_parts(sorted(jobs)):
        select = sa.select(_JOBS.c.before).where(_JOBS.c.id.in_(part), _JOBS.c.before.is_not(None))
        found.update(connection.execute(select).scalars())
    return found


def _children(rows: Iterable[Any]) -> Iterable[Child]:
    for number, run, state, *others in rows:
        yield Child(number, run, RunState(state), *others)
