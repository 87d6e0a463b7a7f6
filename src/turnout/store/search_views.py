"""Searches as they are shown: how far they are, and what was best so far."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.search import Aim, Search
from turnout.model.state import LIVE, RunState
from turnout.store import schema, searches
from turnout.store.jobs import load_jobs
from turnout.store.parts import in_parts
from turnout.store.reads import View, moment
from turnout.store.searches import Standing

_RUNS = schema.runs
_IMPORTED = "imported"
#: How runs end whose result counts.
_GOOD = (str(RunState.COMPLETED), str(RunState.STOPPED))
#: How many imports with the same first objective are told apart by the others.
_EQUALS = 100


def show(connection: sa.Connection, job: int) -> View:
    """The search of a job; of its best runs, one. People who watch ask this several times a second. Conflict when it is
    none."""
    search = _search(connection, job)
    standing = searches.standing(connection, job) or _not_begun(connection, job, search)
    found = load_jobs(connection, {job})[job].spec
    counts = _counts(connection, job)
    return {
        "job": job_name(job), "state": standing.state, "message": standing.message, "sampler": search.sampler,
        "sampler_options": search.sampler_options, "stopper": search.stopper,
        "stopper_options": search.stopper_options,
        "aims": [{"metric": aim.metric, "goal": aim.goal, "of": aim.of} for aim in search.aims],
        "seed": search.seed, "space": search.space, "targets": [found.target, *(each.target for each in found.also)],
        "runs": standing.wanted, "asked": standing.asked, "made": standing.made, "concurrent": standing.concurrent,
        "deadline": moment(standing.deadline), "ended": moment(standing.ended), "counts": counts,
        "best": _leaders(connection, job, search, 1),
    }  # fmt: skip


def best(connection: sa.Connection, job: int, most: int = 1) -> list[View]:
    """Its best runs, best first; with several objectives, those that no other beats, by the first objective. Those that
    failed or were cancelled do not count. Conflict when it is no search."""
    search = _search(connection, job)
    if len(search.aims) < 2:
        return _leaders(connection, job, search, most)
    known = _in_order(search, _tried(connection, job, search))
    front: list[tuple[list[float], View]] = []
    for costs, each in known:
        if not any(_beats(other, costs) for other, _ in front):
            front.append((costs, each))
    return [each for _, each in front[:most]]


def _leaders(connection: sa.Connection, job: int, search: Search, most: int) -> list[View]:
    """The best by its first objective; the others tell equals apart. Does not read all that it has tried."""
    if not search.aims:
        return []
    numbers = [*_leading_runs(connection, job, search.aims, most), *_leading_imports(connection, job, search, most)]
    return [each for _, each in _in_order(search, _tried(connection, job, search, numbers))[:most]]


def _in_order(search: Search, tried: Iterable[View]) -> list[tuple[list[float], View]]:
    """Those whose result counts, best first, each with what it costs: its values, negative where more is better."""
    signs = [1.0 if aim.goal == "minimize" else -1.0 for aim in search.aims]
    known = [
        ([sign * value for sign, value in zip(signs, each["values"], strict=True)], each)
        for each in tried
        if _counts_as_result(each)
    ]
    return sorted(known, key=lambda one: one[0])


def _leading_runs(connection: sa.Connection, job: int, aims: Sequence[Aim], most: int) -> list[int]:
    """Their numbers. By `child`, SQLite reads the runs of this job alone; else it goes through the metric of all."""
    select = sa.select(_RUNS.c.child).where(_RUNS.c.job_id == job, _RUNS.c.child > 0, _RUNS.c.state.in_(_GOOD))
    for aim in aims:
        values, names = schema.metrics.alias(), schema.metric_names.alias()
        value = values.c[aim.of]
        select = (
            select.join(values, values.c.run_id == _RUNS.c.id)
            .join(names, names.c.id == values.c.name_id)
            .where(names.c.name == aim.metric, value.is_not(None))
            .order_by(_best_first(value, aim))
        )
    return list(connection.execute(select.order_by(_RUNS.c.child).limit(most)).scalars())


def _leading_imports(connection: sa.Connection, job: int, search: Search, most: int) -> list[int]:
    table = schema.proposals
    select = sa.select(table.c.number).where(table.c.job_id == job, table.c.value.is_not(None))
    ordered = select.order_by(*(_best_first(column, search.aims[0]) for column in (table.c.value, table.c.number)))
    return list(connection.execute(ordered.limit(most if len(search.aims) == 1 else max(most, _EQUALS))).scalars())


def _best_first(value: sa.ColumnElement[Any], aim: Aim) -> sa.ColumnElement[Any]:
    return value if aim.goal == "minimize" else value.desc()


def _counts_as_result(each: View) -> bool:
    return each["state"] in (*_GOOD, _IMPORTED) and None not in each["values"]


def tried(connection: sa.Connection, job: int) -> list[View]:
    """Every proposal that became a run, and what was brought in, with parameters, state and the objectives' values."""
    return _tried(connection, job, _search(connection, job))


def _tried(connection: sa.Connection, job: int, search: Search, numbers: Sequence[int] | None = None) -> list[View]:
    """All, or of these numbers; in order."""
    rows: list[Any] = []
    for part in in_parts(sorted(numbers)) if numbers is not None else [None]:
        rows += connection.execute(_rows(job, part)).all()
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


def _rows(job: int, numbers: Sequence[int] | None) -> sa.Select[Any]:
    table = schema.proposals
    select = (
        sa.select(
            table.c.number, table.c.params, table.c.result, _RUNS.c.id, _RUNS.c.number.label("run"), _RUNS.c.child,
            _RUNS.c.state, _RUNS.c.started, _RUNS.c.ended, _RUNS.c.target,
        )
        .select_from(table.outerjoin(_RUNS, searches.is_child()))
        .where(table.c.job_id == job, sa.or_(_RUNS.c.id.is_not(None), table.c.result.is_not(None)))
        .order_by(table.c.number)
    )  # fmt: skip
    return select if numbers is None else select.where(table.c.number.in_(numbers))


def _not_begun(connection: sa.Connection, job: int, search: Search) -> Standing:
    """Of the step of a pipeline whose runs are made when others are over, or never."""
    will_begin = connection.execute(sa.select(schema.jobs.c.unmade).where(schema.jobs.c.id == job)).scalar()
    state, message = (searches.ACTIVE, "") if will_begin else (searches.OVER, "it never began")
    return Standing(
        job=job, state=state, wanted=search.runs, deadline=None, concurrent=None, asked=0, made=0, message=message
    )


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
