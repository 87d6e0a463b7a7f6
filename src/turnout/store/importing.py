"""Taking an archive in: all of its rows in one transaction, under new numbers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from turnout.errors import Conflict, InvalidInput
from turnout.model.ids import check_label, job_name, parse_run_name, run_name, span_of
from turnout.store import schema
from turnout.store.archived import NAMED_IN_EVENTS, TABLES, Archived
from turnout.store.bulk import Bulk
from turnout.store.examining import Contents, Row, Source
from turnout.store.jobs import insert_environment, next_numbers
from turnout.store.metrics import name_ids
from turnout.store.reads import moment
from turnout.store.roomy import roomy
from turnout.store.searches import OVER
from turnout.store.tallies import count_runs
from turnout.store.values import param_row, storable_name
from turnout.store.writer import Tx
from turnout.wire.archive import BadArchive, Counts

_MOST_ROWS = 5000
_PIECE = 256 << 10
_BATCH = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """`archive` is its id. `workspace` replaces the one in it; `prefix` goes before the names of experiments."""

    archive: str
    workspace: str
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The first and last of the new names; the counts of what is here now."""

    workspace: str
    jobs: int
    runs: int
    first_job: str
    last_job: str
    first_run: str
    last_run: str


def find_earlier(connection: sa.Connection, wish: Wish) -> Imported | None:
    """What became of this archive when it came into this workspace before, if anything of that is still here."""
    table, jobs, runs = schema.imports, schema.jobs, schema.runs
    row = connection.execute(sa.select(table).where(*_same(wish))).first()
    if row is None:
        return None
    here = jobs.c.id.between(row.first_job, row.last_job)
    first, last, count = connection.execute(
        sa.select(sa.func.min(jobs.c.id), sa.func.max(jobs.c.id), sa.func.count()).where(here)
    ).one()
    if not count:
        return None
    mine = runs.c.job_id.between(first, last)
    low, high = connection.execute(sa.select(sa.func.min(runs.c.number), sa.func.max(runs.c.number)).where(mine)).one()
    number = count_runs(connection, connection.execute(sa.select(jobs.c.id).where(here)).scalars())
    return Imported(
        workspace=row.workspace, jobs=count, runs=number, first_job=job_name(first), last_job=job_name(last),
        first_run=run_name(low), last_run=run_name(high),
    )  # fmt: skip


def refuse_earlier(connection: sa.Connection, wish: Wish) -> None:
    """Conflict when the archive is in this workspace already. What it says to delete is what came from the archive, and
    nothing else that is in that workspace."""
    earlier = find_earlier(connection, wish)
    if earlier is not None:
        when = connection.execute(sa.select(schema.imports.c.created).where(*_same(wish)))
        jobs = span_of(earlier.first_job, earlier.last_job)
        raise Conflict(
            f"this archive was imported at {moment(when.scalar())}: {jobs} in workspace {earlier.workspace}",
            hint="--as OTHER takes a copy into another workspace; --again takes it for done and changes nothing\n"
            f"`turnout delete job {jobs.replace(' to ', '-')}` deletes what was imported, to import it anew",
        )


def _same(wish: Wish) -> tuple[sa.ColumnElement[bool], ...]:
    table = schema.imports
    return table.c.archive == wish.archive, table.c.workspace == wish.workspace


def insert(tx: Tx, source: Source, contents: Contents, wish: Wish, counts: Counts) -> Imported:
    """Writes all of it. Conflict, before anything is written, when it is here already; any other error undoes all, also
    BadArchive, when there are rows of which there can be only one."""
    refuse_earlier(tx.connection, wish)
    new = _Numbers(
        jobs=next_numbers(tx, "job", len(contents.jobs)),
        runs=next_numbers(tx, "run_id", len(contents.runs)) if contents.runs else 0,
        numbers=next_numbers(tx, "run", len(contents.numbers)) if contents.numbers else 0,
    )
    convert = _Convert(
        contents, new, wish, environment=insert_environment(tx, {}), metrics=name_ids(tx, contents.metrics)
    )
    with roomy(tx.connection):
        for each in TABLES:
            _insert_rows(tx, each, source.rows(each.table.name), convert)
        _insert_output(tx, source, contents, new)
    _verify(tx, contents, new, counts)
    last_job = new.jobs + len(contents.jobs) - 1
    table = schema.imports
    tx.connection.execute(table.delete().where(*_same(wish)))  # all of it was deleted since
    row = {"archive": wish.archive, "workspace": wish.workspace, "first_job": new.jobs, "last_job": last_job}
    tx.connection.execute(table.insert(), {**row, "created": tx.now})
    tx.touch("jobs", "runs")
    return Imported(
        workspace=wish.workspace, jobs=len(contents.jobs), first_job=job_name(new.jobs),
        runs=count_runs(tx.connection, range(new.jobs, last_job + 1)),
        last_job=job_name(last_job), first_run=run_name(new.numbers),
        last_run=run_name(new.numbers + max(0, len(contents.numbers) - 1)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The first new job, run id and run number."""

    jobs: int
    runs: int
    numbers: int


class _Convert:
    """Rows of an archive as rows of this store."""

    def __init__(
        self, contents: Contents, new: _Numbers, wish: Wish, *, environment: str, metrics: Mapping[str, int]
    ) -> None:
        self._jobs = {name: new.jobs + index for name, index in contents.jobs.items()}
        self._runs = {name: new.runs + index for name, index in contents.runs.items()}
        self._numbers = {number: new.numbers + index for number, index in contents.numbers.items()}
        self._wish = wish
        self._environment = environment
        self._metrics = metrics

    def __call__(self, each: Archived, row: Row) -> Row:
        table = each.table.name
        found = {column.name: row[name] for name, column in zip(each.fields, each.columns, strict=True) if name in row}
        if table == "jobs":
            found |= {"id": self._jobs[row["name"]], "environment": self._environment, "origin": row["name"]}
            found["pipeline"] = self._jobs.get(row.get("pipeline") or "")
            if found["pipeline"] is not None and found.get("needs") is None:  # exported by a turnout that had it there
                found["needs"] = json.dumps(json.loads(found["spec"]).get("step_needs", []))
        elif table == "runs":
            found |= self._run(row)
        elif table == "searches":
            found["state"] = OVER
        elif table == "params":
            found = param_row(row["name"], json.loads(row["value"]))
        if "workspace" in found:
            found |= {"workspace": self._wish.workspace, "experiment": self._wish.prefix + row["experiment"]}
        if "job" in row:
            found["job_id"] = self._jobs[row["job"]]
        if "run" in row:
            found["run_id"] = self._runs[row["run"]]
        if "metric" in row:
            found["name_id"] = self._metrics[storable_name(row["metric"])]
        if "points" in found:
            found["points"] = base64.b64decode(found["points"])
        if names := NAMED_IN_EVENTS.get(row.get("event", "")):
            data = json.loads(row["data"])
            found["data"] = json.dumps({**data, **{name: self._name(data[name]) for name in names if data.get(name)}})
        if "agent" in found:
            found["agent"] = -abs(found["agent"]) - 1  # of another store: never one of ours
        return found

    def _name(self, old: str) -> str:
        """What a run of the archive is called here."""
        number, child = _parsed(old)
        return run_name(self._numbers[number], child)

    def _run(self, row: Row) -> Row:
        number, child = _parsed(row["name"])
        parent = row.get("parent")
        return {
            "id": self._runs[row["name"]], "number": self._numbers[number], "child": child or 0,
            "parent": self._runs[parent] if parent is not None else None, "origin": row["name"],
        }  # fmt: skip


def _parsed(name: str) -> tuple[int, int | None]:
    parsed = parse_run_name(name)
    assert parsed is not None, "examined before"
    return parsed


def _insert_rows(tx: Tx, each: Archived, rows: Iterator[Row], convert: _Convert) -> None:
    """Rows that name the same columns go together; those of one archive mostly all do."""
    names: tuple[str, ...] = ()
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        values = convert(each, row)
        if tuple(values) != names or len(waiting) >= _MOST_ROWS:
            _write(tx, each, names, waiting)
            names, waiting = tuple(values), []
        waiting.append(tuple(values.values()))
    _write(tx, each, names, waiting)


def _write(tx: Tx, each: Archived, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    try:
        Bulk(each.table.insert(), list(names)).execute(tx.connection, rows)
    except sa.exc.IntegrityError as error:  # their owners are new: they can only be in each other's way
        raise BadArchive(f"a row of {each.table.name} is in it twice") from error


def _insert_output(tx: Tx, source: Source, contents: Contents, new: _Numbers) -> None:
    insert = Bulk(schema.output.insert(), ["run_id", "attempt", "start", "content"])
    waiting: list[tuple[int, int, int, bytes]] = []
    size = 0
    for run, attempt, pieces in source.output():
        start = 0
        for whole in pieces:
            for offset in range(0, len(whole), _PIECE):
                piece = whole[offset : offset + _PIECE]
                waiting.append((new.runs + contents.runs[run], attempt, start, piece))
                start += len(piece)
                size += len(piece)
            if size >= _BATCH:
                insert.execute(tx.connection, waiting)
                waiting, size = [], 0
    insert.execute(tx.connection, waiting)


def _verify(tx: Tx, contents: Contents, new: _Numbers, counts: Counts) -> None:
    """All that the manifest counts is here now; else RuntimeError, and nothing is."""
    last_job, last_run = new.jobs + len(contents.jobs) - 1, new.runs + len(contents.runs) - 1
    for each in TABLES:
        owner = each.table.c[each.owner]
        mine = owner.between(new.jobs, last_job) if each.is_of_jobs else owner.between(new.runs, last_run)
        select = sa.select(sa.func.count()).select_from(each.table).where(mine)
        found = tx.connection.execute(select).scalar_one()
        if found != counts.get(f"rows.{each.table.name}", 0):
            raise RuntimeError(f"{found} rows of {each.table.name} are here, the archive has others: {counts}")
    table = schema.output
    size = sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(table.c.content)), 0))
    here = tx.connection.execute(size.where(table.c.run_id.between(new.runs, last_run))).scalar_one()
    if here != counts.get("output_bytes", 0):
        raise RuntimeError(f"{here} bytes of output are here, the archive has others: {counts}")


def check_wish(wish: Wish) -> None:
    """InvalidInput for names nobody can use."""
    check_label(wish.workspace, "workspace")
    if wish.prefix:
        try:
            check_label(f"{wish.prefix}x", "prefix")
        except InvalidInput as error:
            raise InvalidInput(f"--prefix {wish.prefix!r} cannot begin a name", hint=error.hint) from error
