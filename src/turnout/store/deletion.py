"""Deleting runs and jobs that are over: all their rows at once. Their names are never given out again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.model.ids import job_name, run_name
from turnout.model.state import LIVE
from turnout.store import schema
from turnout.store.archived import TABLES
from turnout.store.ledger import MOST_IN
from turnout.store.naming import resolve, resolve_jobs
from turnout.store.pipelines import is_open
from turnout.store.roomy import roomy
from turnout.store.tallies import count_runs
from turnout.store.writer import Tx

_RUNS, _JOBS = schema.runs, schema.jobs
_LIVE = [str(state) for state in LIVE]
#: Every table with rows of runs.
_OF_RUNS = (
    *(each.table for each in TABLES if not each.is_of_jobs and each.table is not _RUNS),
    schema.output,
    schema.run_needs,
)
_NEEDS = (schema.step_needs, schema.late_needs)
_OF_JOBS = (*(each.table for each in TABLES if each.is_of_jobs and each.table is not _JOBS), *_NEEDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Exactly one of them; `workspace` beside `experiment` tells which of that name."""

    runs: Sequence[str] = ()
    jobs: Sequence[str] = ()
    experiment: str | None = None
    workspace: str | None = None


@dataclass(frozen=True, slots=True)
class Doomed:
    """What goes: runs with their children, and the jobs that have no other runs; how many runs that are, as lists count
    them."""

    runs: list[int]
    jobs: list[int]
    count: int


def find(connection: sa.Connection, wanted: Wanted) -> Doomed:
    """NotFound for what is not there; Conflict for what is not over, or is a child of a run that stays."""
    if wanted.runs:
        runs = resolve(connection, wanted.runs)
    else:
        jobs = _jobs(connection, wanted)
        runs = [row.id for part in _parts(jobs) for row in connection.execute(_ids(_RUNS.c.job_id.in_(part)))]
    found = _with_children(connection, runs)
    _check(connection, found)
    _check_pipelines(connection, found, () if wanted.runs else jobs)
    if not wanted.runs:
        return Doomed(sorted(found), sorted(jobs), count_runs(connection, jobs))
    return Doomed(sorted(found), _emptied(connection, found), len(found) - _parents(connection, found))


def _check_pipelines(connection: sa.Connection, runs: Collection[int], jobs: Iterable[int]) -> None:
    """Of a pipeline that is under way nothing goes, and nothing that it took over."""
    steps = set(jobs)
    for part in _parts(sorted(runs)):
        own = sa.or_(_RUNS.c.id.in_(part), _RUNS.c.carried.in_(part))
        steps.update(connection.execute(sa.select(_RUNS.c.job_id).where(_RUNS.c.step > 0, own).distinct()).scalars())
    whole = set(steps)
    for part in _parts(sorted(steps)):
        select = sa.select(_JOBS.c.pipeline).where(_JOBS.c.id.in_(part), _JOBS.c.pipeline.is_not(None))
        whole.update(connection.execute(select.distinct()).scalars())
    for job in sorted(whole):
        if is_open(connection, job):
            name = job_name(job)
            raise Conflict(f"{name} is not over, and this is part of it", hint=f"`turnout cancel job {name}` ends it")


def delete(tx: Tx, wanted: Wanted) -> Doomed:
    """Removes every row of it in one transaction. Raises as `find`, before anything is removed."""
    doomed = find(tx.connection, wanted)
    with roomy(tx.connection):
        for part in _parts(doomed.runs):
            for table in _OF_RUNS:
                tx.connection.execute(table.delete().where(table.c.run_id.in_(part)))
            tx.connection.execute(schema.run_needs.delete().where(schema.run_needs.c.needed.in_(part)))
            tx.connection.execute(_RUNS.delete().where(_RUNS.c.id.in_(part)))
    environments: set[str] = set()
    for part in _parts(doomed.jobs):
        environments.update(tx.connection.execute(sa.select(_JOBS.c.environment).where(_JOBS.c.id.in_(part))).scalars())
        for table in _OF_JOBS:
            tx.connection.execute(table.delete().where(table.c.job_id.in_(part)))
        for needs in _NEEDS:
            tx.connection.execute(needs.delete().where(needs.c.needed.in_(part)))
        tx.connection.execute(_JOBS.delete().where(_JOBS.c.id.in_(part)))
    _delete_environments(tx, environments)
    tx.touch("jobs", "runs")
    return doomed


def _jobs(connection: sa.Connection, wanted: Wanted) -> list[int]:
    if wanted.jobs:
        return _with_steps(connection, resolve_jobs(connection, wanted.jobs))
    if wanted.experiment is None and wanted.workspace is None:
        raise InvalidInput("say what to delete", hint="delete run NAME…, job NAME, experiment NAME or workspace NAME")
    where = [] if wanted.workspace is None else [_JOBS.c.workspace == wanted.workspace]
    if wanted.experiment is not None:
        where.append(_JOBS.c.experiment == wanted.experiment)
        _check_single(connection, wanted.experiment, where)
    found = list(connection.execute(sa.select(_JOBS.c.id).where(*where)).scalars())
    if not found:
        kind, name = ("experiment", wanted.experiment) if wanted.experiment else ("workspace", wanted.workspace)
        raise NotFound(f"no {kind} {name!r}", hint=f"`turnout list {kind}s` shows what there is")
    return found


def _with_steps(connection: sa.Connection, jobs: Iterable[int]) -> list[int]:
    found = set(jobs)
    for part in _parts(list(found)):
        found.update(connection.execute(sa.select(_JOBS.c.id).where(_JOBS.c.pipeline.in_(part))).scalars())
    return sorted(found)


def _check_single(connection: sa.Connection, experiment: str, where: list[sa.ColumnElement[bool]]) -> None:
    spaces = sorted(connection.execute(sa.select(_JOBS.c.workspace).distinct().where(*where)).scalars())
    if len(spaces) > 1:
        raise Conflict(
            f"experiment {experiment!r} is in several workspaces: {', '.join(spaces)}",
            hint=f"say which: --workspace {spaces[0]}",
        )


def _with_children(connection: sa.Connection, runs: Iterable[int]) -> set[int]:
    found = set(runs)
    for part in _parts(list(found)):
        found.update(row.id for row in connection.execute(_ids(_RUNS.c.parent.in_(part))))
    return found


def _check(connection: sa.Connection, runs: set[int]) -> None:
    live: list[str] = []
    for part in _parts(runs):
        select = sa.select(_RUNS.c.number, _RUNS.c.child, _RUNS.c.state, _RUNS.c.parent).where(_RUNS.c.id.in_(part))
        odd = sa.or_(_RUNS.c.state.in_(_LIVE), _RUNS.c.parent.is_not(None))
        for row in connection.execute(select.where(odd).order_by(_RUNS.c.number, _RUNS.c.child)):
            name = run_name(row.number, row.child or None)
            if row.state in LIVE:
                live.append(name)
            elif row.parent not in runs:
                hint = f"`turnout delete run {run_name(row.number)}` deletes it with all its children"
                raise Conflict(f"{name} is a child of {run_name(row.number)}, which would lack it", hint=hint)
    if live:
        some = ", ".join(live[:3]) + (f" and {len(live) - 3} more" if len(live) > 3 else "")
        hint = f"wait for them, or `turnout cancel run {live[0]}`{' …' if len(live) > 1 else ''} first"
        raise Conflict(f"not over yet: {some}", hint=hint)


def _parents(connection: sa.Connection, runs: set[int]) -> int:
    """How many of them have children, and so are counted as those."""
    parents: set[int] = set()
    for part in _parts(runs):
        parents.update(connection.execute(sa.select(_RUNS.c.parent).where(_RUNS.c.parent.in_(part))).scalars())
    return len(parents)


def _emptied(connection: sa.Connection, runs: set[int]) -> list[int]:
    """The jobs that have no run but these."""
    counts: dict[int, int] = {}
    for part in _parts(runs):
        select = sa.select(_RUNS.c.job_id, sa.func.count()).where(_RUNS.c.id.in_(part)).group_by(_RUNS.c.job_id)
        for job, count in connection.execute(select):
            counts[job] = counts.get(job, 0) + count
    emptied = []
    for part in _parts(counts):
        select = sa.select(_RUNS.c.job_id, sa.func.count()).where(_RUNS.c.job_id.in_(part)).group_by(_RUNS.c.job_id)
        emptied += [job for job, count in connection.execute(select) if count == counts[job]]
    return sorted(emptied)


def _delete_environments(tx: Tx, digests: set[str]) -> None:
    """Values that no job has any more."""
    table = schema.environments
    for part in _texts(sorted(digests)):
        kept = set(tx.connection.execute(sa.select(_JOBS.c.environment).where(_JOBS.c.environment.in_(part))).scalars())
        tx.connection.execute(table.delete().where(table.c.digest.in_(sorted(set(part) - kept))))


def _ids(where: sa.ColumnElement[bool]) -> sa.Select[tuple[int]]:
    return sa.select(_RUNS.c.id).where(where)


def _parts(ids: Iterable[int]) -> Iterator[list[int]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), MOST_IN):
        yield ordered[start : start + MOST_IN]


def _texts(items: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(items), MOST_IN):
        yield items[start : start + MOST_IN]
