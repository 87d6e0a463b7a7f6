"""Searches as they are shown: how far they are, and what was best so far."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Aim, Search
from turnout.model.state import LIVE, RunState
from turnout.store import schema, searches
from turnout.store.jobs import load_jobs
from turnout.store.reads import View, moment

_RUNS = schema.runs
_IMPORTED = "imported"
#: How runs end whose result counts.
_GOOD = (str(RunState.COMPLETED), str(RunState.STOPPED))


def show(connection: sa.Connection, job: int) -> View:
    """The search of a job. Conflict when it is none."""
    search = _search(connection, job)
    standing = searches.standing(connection, job)
    found = load_jobs(connection, {job})[job].spec
    assert standing is not None
    counts = _counts(connection, job)
    return {
        "job": job_name(job), "state": standing.state, "message": standing.message, "sampler": search.sampler,
        "sampler_options": search.sampler_options, "stopper": search.stopper,
        "stopper_options": search.stopper_options,
        "aims": [{"metric": aim.metric, "goal": aim.goal, "of": aim.of} for aim in search.aims],
        "seed": search.seed, "space": search.space, "targets": [found.target, *(each.target for each in found.also)],
        "runs": standing.wanted, "asked": standing.asked, "made": standing.made, "concurrent": standing.concurrent,
        "deadline": moment(standing.deadline), "ended": moment(standing.ended), "counts": counts,
        "best": best(connection, job),
    }  # fmt: skip


def best(connection: sa.Connection, job: int, most: int = 1) -> list[View]:
    """Its best runs, best first; with several objectives, those that no other beats. Those that failed or were
    cancelled do not count. Conflict when it is no search."""
    search = _search(connection, job)
    if not search.aims:
        return []
    numbers = _leading(connection, job, search.aims[0], most) if len(search.aims) == 1 else None
    known = [each for each in _tried(connection, job, search, numbers) if _counts_as_result(each)]
    signs = [1.0 if aim.goal == "minimize" else -1.0 for aim in search.aims]
    costs = [[sign * value for sign, value in zip(signs, each["values"], strict=True)] for each in known]
    order = sorted(range(len(known)), key=costs.__getitem__)
    if numbers is not None:
        return [known[index] for index in order[:most]]
    front: list[int] = []
    for index in order:
        if not any(_beats(costs[other], costs[index]) for other in front):
            front.append(index)
    return [known[index] for index in front]


def _leading(connection: sa.Connection, job: int, aim: Aim, most: int) -> list[int]:
    """The numbers of the runs that may be its best by this objective, and of all that was brought in."""
    values, names = schema.metrics, schema.metric_names
    value = values.c[aim.of]
    leading = (
        sa.select(_RUNS.c.child)
        .join(values, values.c.run_id == _RUNS.c.id)
        .join(names, names.c.id == values.c.name_id)
        .where(_RUNS.c.job_id == job, _RUNS.c.child > 0, _RUNS.c.state.in_(_GOOD), names.c.name == aim.metric)
        .where(value.is_not(None))
        .order_by(value if aim.goal == "minimize" else value.desc())
        .limit(most)
    )
    table = schema.proposals
    brought = sa.select(table.c.number).where(table.c.job_id == job, table.c.number <= 0)
    return [*connection.execute(leading).scalars(), *connection.execute(brought).scalars()]


def _counts_as_result(each: View) -> bool:
    return each["state"] in (*_GOOD, _IMPORTED) and None not in each["values"]


def tried(connection: sa.Connection, job: int) -> list[View]:
    """Every proposal that became a run, and what was brought in, with parameters, state and the objectives' values."""
    return _tried(connection, job, _search(connection, job))


def _tried(connection: sa.Connection, job: int, search: Search, numbers: Sequence[int] | None = None) -> list[View]:
    """All, or of these numbers."""
    table = schema.proposals
    mine = table.c.job_id == job if numbers is None else sa.and_(table.c.job_id == job, table.c.number.in_(numbers))
    select = (
        sa.select(
            table.c.number, table.c.params, table.c.result, _RUNS.c.id, _RUNS.c.number.label("run"), _RUNS.c.child,
            _RUNS.c.state, _RUNS.c.started, _RUNS.c.ended, _RUNS.c.target,
        )
        .select_from(table.outerjoin(_RUNS, searches.is_child()))
        .where(mine, sa.or_(_RUNS.c.id.is_not(None), table.c.result.is_not(None)))
        .order_by(table.c.number)
    )  # fmt: skip
    rows = list(connection.execute(select))
    metrics = {aim.metric for aim in search.aims}
    told = searches.summaries(connection, [row.id for row in rows if row.id is not None], metrics)
    views = []
    for row in rows:
        brought = json.loads(row.result) if row.result is not None else None
        values = [
            (brought.get(aim.metric) if brought is not None else told.get((row.id, aim.metric), {}).get(aim.of))
            for aim in search.aims
        ]
        views.append({
            "number": row.number if brought is None else None,
            "run": run_name(row.run, row.child or None) if row.id is not None else None,
            "state": row.state if brought is None else _IMPORTED, "params": json.loads(row.params), "values": values,
            "target": row.target, "started": moment(row.started), "ended": moment(row.ended),
        })  # fmt: skip
    return views


def _search(connection: sa.Connection, job: int) -> Search:
    search = load_jobs(connection, {job})[job].spec.search
    if search is None:
        raise Conflict(f"{job_name(job)} is no search", hint="`turnout list jobs` shows what there is")
    return search


def _beats(one: list[float], other: list[float]) -> bool:
    """Nowhere worse, and somewhere better."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def _counts(connection: sa.Connection, job: int) -> dict[str, Any]:
    mine = (_RUNS.c.job_id == job, _RUNS.c.children_planned == 0)
    select = sa.select(_RUNS.c.state, sa.func.count()).where(*mine).group_by(_RUNS.c.state)
    counts = {state: number for state, number in connection.execute(select)}  # noqa: C416
    live = {str(state) for state in LIVE}
    return {**counts, "live": sum(count for state, count in counts.items() if state in live)}
