"""Searches as they stand: what they may use, and what was proposed for their runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.spec import JobSpec
from turnout.model.state import RunState
from turnout.store import schema
from turnout.store.parts import in_parts
from turnout.store.writer import Tx

_SEARCHES, _PROPOSALS, _JOBS, _RUNS = schema.searches, schema.proposals, schema.jobs, schema.runs
_PARAMS_OF = (
    sa.select(_PROPOSALS.c.params)
    .where(
        _PROPOSALS.c.job_id == sa.bindparam("job"),
        _PROPOSALS.c.number.between(sa.bindparam("first"), sa.bindparam("last")),
    )
    .order_by(_PROPOSALS.c.number)
)
ACTIVE, PAUSED, OVER = "active", "paused", "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`made` of the proposals that were `asked` for became runs. Failures of its first `forgiven` runs do not count.
    `message`: why it is paused or over."""

    job: int
    state: str
    wanted: int | None
    deadline: float | None
    concurrent: int | None
    asked: int
    made: int
    forgiven: int = 0
    message: str = ""
    ended: float | None = None

    @property
    def ready(self) -> int:
        """How many proposals may become runs now. It may have more than it wants: those stay where they are."""
        return max(0, (self.asked if self.wanted is None else min(self.asked, self.wanted)) - self.made)


class Tried(NamedTuple):
    """A proposal, and its run as it is; None = no node has taken it, or (`is_taken`) it was deleted since. `reason`:
    why it ended. `result` of one from elsewhere."""

    number: int
    params: dict[str, Any]
    memo: dict[str, Any]
    is_taken: bool
    run: int | None
    state: RunState | None
    started: float | None
    result: dict[str, Any] | None
    reason: str | None = None


def insert_search(tx: Tx, job: int, spec: JobSpec, *, waits: bool = False) -> None:
    """Of a job that was written in this transaction. The time of one that is held, or `waits` for others, begins when
    it is let go."""
    assert spec.search is not None
    seconds = spec.search.seconds
    tx.connection.execute(
        _SEARCHES.insert(),
        {
            "job_id": job, "state": ACTIVE, "wanted": spec.search.runs, "concurrent": spec.concurrent,
            "deadline": None if seconds is None or spec.held or waits else tx.now + seconds,
        },
    )  # fmt: skip
    tx.touch(f"search:{job}")


def open_searches(connection: sa.Connection) -> list[int]:
    """Those that are not over."""
    return list(connection.execute(sa.select(_SEARCHES.c.job_id).where(_SEARCHES.c.state != OVER)).scalars())


def begin_search(tx: Tx, job: int, spec: JobSpec) -> None:
    """Of a job whose first runs were made in this transaction, and wait. One that was there before makes as many
    again."""
    earlier = standing(tx.connection, job, lock=True)
    if earlier is None:
        insert_search(tx, job, spec, waits=True)
        return
    assert spec.search is not None
    change(
        tx, job, state=ACTIVE, message="", ended=None, forgiven=earlier.made,
        wanted=None if spec.search.runs is None else spec.search.runs + earlier.made,
        deadline=None,
    )  # fmt: skip


def standing(connection: sa.Connection, job: int, *, lock: bool = False) -> Standing | None:
    """None = it is no search. With `lock` nobody else changes it before the transaction ends."""
    select = (
        sa.select(_SEARCHES, _JOBS.c.children_made)
        .join(_JOBS, _JOBS.c.id == _SEARCHES.c.job_id)
        .where(_SEARCHES.c.job_id == job)
    )
    row = connection.execute(select.with_for_update() if lock else select).first()
    if row is None:
        return None
    return Standing(
        job=job, state=row.state, wanted=row.wanted, deadline=row.deadline, concurrent=row.concurrent,
        asked=row.asked, made=row.children_made, forgiven=row.forgiven, message=row.message, ended=row.ended,
    )  # fmt: skip


def change(tx: Tx, job: int, **values: object) -> None:
    """Sets columns of its row."""
    tx.connection.execute(_SEARCHES.update().where(_SEARCHES.c.job_id == job).values(**values))
    tx.touch(f"search:{job}")


def plan(tx: Tx, job: int, total: int) -> None:
    """So many runs are planned in all, as far as that is known: what lists count."""
    tx.connection.execute(_JOBS.update().where(_JOBS.c.id == job).values(children_total=total, run_count=total))


def add_proposals(
    tx: Tx, standing: Standing, given: Sequence[tuple[Mapping[str, object], Mapping[str, object]]]
) -> None:
    """Parameters and memos for the next runs."""
    rows = [
        {"job_id": standing.job, "number": number, "params": json.dumps(params), "memo": json.dumps(memo)}
        for number, (params, memo) in enumerate(given, standing.asked + 1)
    ]
    tx.connection.execute(_PROPOSALS.insert(), rows)
    tx.connection.execute(
        _SEARCHES.update().where(_SEARCHES.c.job_id == standing.job).values(asked=standing.asked + len(rows))
    )


def add_results(
    tx: Tx, job: int, given: Sequence[tuple[Mapping[str, object], Mapping[str, float]]], metric: str
) -> None:
    """Parameters, and what became of them elsewhere, `metric` being the first objective; numbered below zero, for they
    are no runs of its own."""
    first = sa.select(sa.func.min(_PROPOSALS.c.number)).where(_PROPOSALS.c.job_id == job)
    lowest = min(0, tx.connection.execute(first).scalar() or 0)
    rows = [
        {
            "job_id": job, "number": lowest - index, "params": json.dumps(params), "result": json.dumps(result),
            "value": result[metric],
        }
        for index, (params, result) in enumerate(given, 1)
    ]  # fmt: skip
    if rows:
        tx.connection.execute(_PROPOSALS.insert(), rows)
        tx.touch(f"search:{job}")


def params_of(tx: Tx, job: int, first: int, count: int) -> list[dict[str, Any]]:
    """What was proposed for its runs from number `first` on."""
    found = tx.connection.execute(_PARAMS_OF, {"job": job, "first": first, "last": first + count - 1})
    return [dict(json.loads(params)) for params in found.scalars()]


def tried(connection: sa.Connection, job: int, numbers: Collection[int] | None = None) -> list[Tried]:
    """What was proposed, of all or of these numbers, with the runs as they are, in order."""
    if numbers is None:
        return list(_tried(connection, _PROPOSALS.c.job_id == job))
    found: list[Tried] = []
    for part in in_parts(sorted(numbers)):
        found += _tried(connection, sa.and_(_PROPOSALS.c.job_id == job, _PROPOSALS.c.number.in_(part)))
    return found


def imported(connection: sa.Connection, job: int, below: int) -> list[Tried]:
    """What was brought in from elsewhere since the one of that number, which is 1 for none."""
    return list(_tried(connection, sa.and_(_PROPOSALS.c.job_id == job, _PROPOSALS.c.number < min(below, 1))))


def _tried(connection: sa.Connection, where: sa.ColumnElement[bool]) -> Iterable[Tried]:
    p, of_runs = _PROPOSALS.c, (_RUNS.c.id, _RUNS.c.state, _RUNS.c.started, _RUNS.c.reason)
    select = (
        sa.select(p.number, p.params, p.memo, p.result, *of_runs, _JOBS.c.children_made)
        .select_from(_PROPOSALS.join(_JOBS, _JOBS.c.id == p.job_id).outerjoin(_RUNS, is_child()))
        .where(where)
        .order_by(p.number)
    )
    for row in connection.execute(select):
        yield Tried(
            row.number, json.loads(row.params), json.loads(row.memo), row.number <= row.children_made, row.id,
            None if row.state is None else RunState(row.state), row.started,
            None if row.result is None else json.loads(row.result), row.reason,
        )  # fmt: skip


def is_child() -> sa.ColumnElement[bool]:
    """Joins a run with the proposal that it is. None has the number 0, which outer runs have."""
    return sa.and_(_RUNS.c.job_id == _PROPOSALS.c.job_id, _RUNS.c.child == _PROPOSALS.c.number)


def summaries(
    connection: sa.Connection, runs: Iterable[int], metrics: Collection[str]
) -> dict[tuple[int, str], dict[str, float | None]]:
    """By run and metric: its last, lowest and highest value, and how many there are."""
    found: dict[tuple[int, str], dict[str, float | None]] = {}
    table, names = schema.metrics, schema.metric_names
    for part in in_parts(sorted(set(runs))):
        select = (
            sa.select(table.c.run_id, names.c.name, table.c.last, table.c.min, table.c.max, table.c.count)
            .join(names, names.c.id == table.c.name_id)
            .where(table.c.run_id.in_(part), names.c.name.in_(sorted(metrics)))
        )
        for row in connection.execute(select):
            values = {"last": row.last, "min": row.min, "max": row.max, "count": row.count}
            found[row.run_id, row.name] = values
    return found


def why_closed(connection: sa.Connection, job: int) -> str:
    """Why it is over, as far as its outer runs tell: what another hub had in mind is not known any more."""
    where = (_RUNS.c.job_id == job, _RUNS.c.children_planned > 0)
    columns = (_RUNS.c.cancel, _RUNS.c.cause, _RUNS.c.message)
    parents = connection.execute(sa.select(*columns).where(*where).order_by(_RUNS.c.id)).all()
    if any(parent.cancel is not None for parent in parents):
        return "it was cancelled"
    scripts = [parent.message for parent in parents if parent.cause is not None]  # of those that failed
    return scripts[-1] if scripts else "there is nothing left to try"
