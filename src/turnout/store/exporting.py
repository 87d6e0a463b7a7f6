"""Reading what an archive holds: jobs that are over, and everything of their runs, in many short reads."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.errors import Conflict, NotFound
from turnout.model.ids import job_name, list_jobs, run_name
from turnout.model.state import LIVE
from turnout.store import schema
from turnout.store.archived import MANIFESTS, TABLES, Archived, line
from turnout.store.ledger import MOST_IN
from turnout.store.naming import resolve_jobs
from turnout.store.reads import read_output
from turnout.store.tallies import count_runs

Reading = Callable[[], AbstractContextManager[sa.Connection]]
_PART = 4 << 20
_PIECE = 1 << 20
_SMALL = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which jobs: all of a workspace, those of an experiment, or these; with `finished`, only those that are over."""

    workspace: str
    experiment: str | None = None
    jobs: tuple[str, ...] = ()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The jobs and runs by id, with their names, in order; how many runs that are, as lists count them."""

    jobs: dict[int, str]
    runs: dict[int, str]
    count: int


def choose(connection: sa.Connection, choice: Choice) -> Chosen:
    """NotFound when there is no such workspace, experiment or job in it; Conflict when a run of them is not over."""
    jobs = _jobs(connection, choice)
    runs: dict[int, str] = {}
    live: dict[int, int] = {}
    table = schema.runs
    columns = (table.c.id, table.c.number, table.c.child, table.c.job_id, table.c.state)
    for part in _parts(jobs):
        for row in connection.execute(sa.select(*columns).where(table.c.job_id.in_(part)).order_by(table.c.id)):
            runs[row.id] = run_name(row.number, row.child or None)
            if row.state in LIVE:
                live[row.job_id] = live.get(row.job_id, 0) + 1
    if live and not choice.finished:
        number = sum(live.values())
        raise Conflict(
            f"{f'{number} runs are' if number > 1 else 'a run is'} not over, of {list_jobs(list(live))}",
            hint=f"wait, `turnout cancel job {job_name(min(live))}`, or leave out what is not over with --finished",
        )
    if live:
        jobs = {job: name for job, name in jobs.items() if job not in live}
        runs = _runs_of(connection, jobs)
    return Chosen(jobs, dict(sorted(runs.items())), count_runs(connection, jobs))


def _jobs(connection: sa.Connection, choice: Choice) -> dict[int, str]:
    table = schema.jobs
    where = [table.c.workspace == choice.workspace]
    if connection.execute(sa.select(table.c.id).where(*where).limit(1)).first() is None:
        raise NotFound(f"no workspace {choice.workspace!r}", hint="`turnout list workspaces` shows what there is")
    if choice.experiment is not None:
        where.append(table.c.experiment == choice.experiment)
        if connection.execute(sa.select(table.c.id).where(*where).limit(1)).first() is None:
            hint = "`turnout list experiments` shows what there is"
            raise NotFound(f"no experiment {choice.experiment!r} in workspace {choice.workspace}", hint=hint)
    found = {row.id: job_name(row.id) for row in connection.execute(sa.select(table.c.id).where(*where))}
    if not choice.jobs:
        return dict(sorted(found.items()))
    wanted = set(resolve_jobs(connection, choice.jobs))
    if elsewhere := sorted(wanted - found.keys()):
        hint = "`turnout list jobs` shows what there is"
        raise NotFound(f"no {list_jobs(elsewhere)} in workspace {choice.workspace}", hint=hint)
    return {job: name for job, name in sorted(found.items()) if job in wanted}


def _runs_of(connection: sa.Connection, jobs: Iterable[int]) -> dict[int, str]:
    table = schema.runs
    columns = (table.c.id, table.c.number, table.c.child)
    runs: dict[int, str] = {}
    for part in _parts(jobs):
        for row in connection.execute(sa.select(*columns).where(table.c.job_id.in_(part))):
            runs[row.id] = run_name(row.number, row.child or None)
    return runs


def count(connection: sa.Connection, chosen: Chosen) -> dict[str, int]:
    """How many rows there are of each table."""
    found: dict[str, int] = {}
    for each in TABLES:
        owner = each.table.c[each.owner]
        total = 0
        for part in _parts(chosen.jobs if each.is_of_jobs else chosen.runs):
            select = sa.select(sa.func.count()).select_from(each.table).where(owner.in_(part))
            total += int(connection.execute(select).scalar_one())
        found[each.table.name] = total
    return found


def manifests(connection: sa.Connection, chosen: Chosen) -> dict[str, str]:
    """The digests of the snapshots they refer to, each with the name of one that does."""
    found: dict[str, str] = {}
    for name, columns in MANIFESTS.items():
        table, names = (schema.jobs, chosen.jobs) if name == "jobs" else (schema.runs, chosen.runs)
        for part in _parts(names):
            select = sa.select(table.c.id, *(table.c[column] for column in columns)).where(table.c.id.in_(part))
            for owner, *digests in connection.execute(select):
                found.update({digest: names[owner] for digest in digests if digest is not None and digest not in found})
    return found


def lines(reading: Reading, chosen: Chosen, each: Archived, *, files: bool) -> Iterator[bytes]:
    """The rows of a table as JSON, one a line, some megabytes at a time. Without `files`, snapshots are left out."""
    write = _Lines(each, chosen, files=files)
    with reading() as connection:
        write.learn_metrics(connection)
    waiting: list[str] = []
    size = 0
    for part in _parts(chosen.jobs if each.is_of_jobs else chosen.runs):
        with reading() as connection:
            select = sa.select(*each.columns).where(each.table.c[each.owner].in_(part))
            rows = connection.execute(select.order_by(*each.table.primary_key.columns)).all()
        for row in rows:
            waiting.append(write(row))
            size += len(waiting[-1])
            if size >= _PART:
                yield ("\n".join(waiting) + "\n").encode("ascii")
                waiting, size = [], 0
    if waiting:
        yield ("\n".join(waiting) + "\n").encode("ascii")


class _Lines:
    """How a row of one table is written."""

    def __init__(self, each: Archived, chosen: Chosen, *, files: bool) -> None:
        self._each = each
        self._fields = each.fields
        self._metrics: dict[int, str] = {}
        self._change: list[tuple[int, Callable[[Any], object]]] = []
        manifests = () if files else MANIFESTS.get(each.table.name, ())
        for index, column in enumerate(each.columns):
            if column.name == each.owner:
                names = chosen.jobs if each.is_of_jobs else chosen.runs
                self._change.append((index, names.__getitem__))
            elif column.name == "job_id":
                self._change.append((index, chosen.jobs.__getitem__))
            elif column.name == "parent":
                self._change.append((index, chosen.runs.get))
            elif column.name == "pipeline":
                self._change.append((index, chosen.jobs.get))
            elif column.name == "name_id":
                self._change.append((index, self._metric))
            elif column.name in manifests:
                self._change.append((index, _nothing))
            elif isinstance(column.type, sa.LargeBinary):
                self._change.append((index, _text))

    def learn_metrics(self, connection: sa.Connection) -> None:
        if "name_id" in self._each.table.c:
            self._metrics = {row.id: row.name for row in connection.execute(sa.select(schema.metric_names))}

    def __call__(self, row: Sequence[Any]) -> str:
        values = list(row)
        for index, change in self._change:
            values[index] = change(values[index])
        return line(self._fields, values)

    def _metric(self, number: int) -> str:
        return self._metrics[number]


def _nothing(_value: object) -> None:
    return None


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


@dataclass(frozen=True, slots=True)
class Printed:
    """What an attempt printed: `size` bytes."""

    run: int
    attempt: int
    size: int


def printed(connection: sa.Connection, runs: Sequence[int]) -> list[Printed]:
    """The attempts of these runs that printed something."""
    table = schema.output
    size = sa.func.sum(sa.func.length(table.c.content))
    select = sa.select(table.c.run_id, table.c.attempt, size).where(table.c.run_id.in_(runs))
    grouped = select.group_by(table.c.run_id, table.c.attempt).order_by(table.c.run_id, table.c.attempt)
    return [Printed(run, attempt, int(length)) for run, attempt, length in connection.execute(grouped)]


def output(reading: Reading, chosen: Chosen) -> Iterator[tuple[Printed, Iterator[bytes]]]:
    """What every attempt printed, in pieces; the pieces of one are to be read before the next is asked for."""
    for part in _parts(chosen.runs):
        with reading() as connection:
            found = printed(connection, part)
            large = {each.run for each in found if each.size > _SMALL}
            small = _contents(connection, [each.run for each in found if each.run not in large])
        for each in found:
            whole = small.get((each.run, each.attempt))
            yield each, iter((whole,)) if whole is not None else _pieces(reading, each)


def _contents(connection: sa.Connection, runs: Sequence[int]) -> dict[tuple[int, int], bytes]:
    """All that attempts of these runs printed, where it is little."""
    table = schema.output
    select = sa.select(table.c.run_id, table.c.attempt, table.c.content).where(table.c.run_id.in_(runs))
    parts: dict[tuple[int, int], list[bytes]] = {}
    for run, attempt, content in connection.execute(select.order_by(table.c.run_id, table.c.attempt, table.c.start)):
        parts.setdefault((run, attempt), []).append(bytes(content))
    return {key: b"".join(pieces) for key, pieces in parts.items()}


def _pieces(reading: Reading, each: Printed) -> Iterator[bytes]:
    offset = 0
    while offset < each.size:
        with reading() as connection:
            piece = read_output(connection, each.run, each.attempt, offset, _PIECE)
        if not piece:
            return
        offset += len(piece)
        yield piece


def _parts(ids: Iterable[int]) -> Iterator[list[int]]:
    ordered = list(ids)
    for start in range(0, len(ordered), MOST_IN):
        yield ordered[start : start + MOST_IN]
