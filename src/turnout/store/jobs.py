"""Jobs and their runs, written at submit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.container import Container
from turnout.model.inputs import Action, Input
from turnout.model.pipeline import Gate
from turnout.model.plain import build
from turnout.model.search import Elsewhere, Search
from turnout.model.setup import Setup
from turnout.model.spec import CommandKind, JobSpec, Original, Resources, Retry, RunSpec, Schedule
from turnout.store import schema
from turnout.store.new_rows import NewRows, text_of
from turnout.store.parts import IDS, rows_for
from turnout.store.searches import insert_search
from turnout.store.writer import Tx

_FIELDS = {field.name for field in dataclasses.fields(JobSpec)}
_SHARED_MOST = 64 << 10  # characters of what is kept of a job: larger ones have commands, which no other job has


class Kept(NamedTuple):
    """All columns of a job that its runs are executed by; most steps of a pipeline have the same. `spec` is what
    `text_of` gave, `environment` the digest of what runs get."""

    spec: str
    environment: str
    kind: str
    script: str | None
    target: str
    experiment: str
    workspace: str
    before: str | None


_READ = (*Kept._fields, "id", "display", "label", "created", "pipeline")
_JOBS_OF = sa.select(*(schema.jobs.c[name] for name in _READ)).where(schema.jobs.c.id.in_(IDS))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the engine needs it."""

    id: int
    spec: JobSpec
    created: float
    kept: Kept
    pipeline: int | None = None
    """the job of which it is a step"""


def next_numbers(tx: Tx, name: str, count: int) -> int:
    """The first of `count` numbers of that counter, each given out once."""
    table = schema.counters
    bump = table.update().where(table.c.name == name).values(value=table.c.value + count).returning(table.c.value)
    value = tx.connection.execute(bump).scalar()
    if value is None:
        tx.connection.execute(table.insert().values(name=name, value=count))
        value = count
    return int(value) - count + 1


class Numbers(NamedTuple):
    """Those of a job and of its first run, and the id of that."""

    job: int
    run: int
    id: int


def reserve_numbers(tx: Tx, spec: JobSpec) -> Numbers:
    """For a job that is to be inserted; if it never is, nobody has them."""
    return Numbers(next_numbers(tx, "job", 1), *_reserve_runs(tx, spec))


def _reserve_runs(tx: Tx, spec: JobSpec) -> tuple[int, int]:
    return next_numbers(tx, "run", spec.outer_runs), next_numbers(tx, "run_id", spec.outer_runs)


class Written(NamedTuple):
    """A job's number, those of its outer runs, and their ids."""

    job: int
    runs: range
    ids: range


def insert_job(tx: Tx, spec: JobSpec, numbers: Numbers | None = None) -> Written:
    """Writes job, runs and their first events.

    All runs that wait for nothing are queued in the same transaction: what is acknowledged is in the queue.
    """
    job, first, base = numbers or reserve_numbers(tx, spec)
    written = Written(job, range(first, first + spec.outer_runs), range(base, base + spec.outer_runs))
    rows = NewRows(tx.now)
    rows.add_job(job, spec, text_of(spec), insert_environment(tx, {**spec.inherited_env, **spec.env}))
    rows.add_runs(job, written.runs, written.ids, spec)
    rows.write(tx)
    if spec.search is not None:
        insert_search(tx, job, spec)
    tx.touch("queue" if spec.has_own_nodes else f"queue:{spec.where}", f"job:{job}", "runs")
    return written


class MoreRuns(NamedTuple):
    """Further outer runs of a job that is there. Those of a step are `blocked`: each waits for so many others, and at
    its gate."""

    job: int
    spec: JobSpec
    blocked: Sequence[int] | None = None
    gate: Gate = Gate.NONE


def insert_runs(tx: Tx, wanted: Sequence[MoreRuns]) -> list[Written]:
    """Of each job's."""
    counts = [each.spec.outer_runs for each in wanted]
    run, base = next_numbers(tx, "run", sum(counts)), next_numbers(tx, "run_id", sum(counts))
    rows, found = NewRows(tx.now), []
    for (job, spec, blocked, gate), count in zip(wanted, counts, strict=True):
        written = Written(job, range(run, run + count), range(base, base + count))
        made = _made(tx, job) if spec.direct and spec.nodes is None else 0
        rows.add_runs(job, written.runs, written.ids, spec, blocked=blocked, gate=gate, made=made)
        if rows.is_many:
            rows.write(tx)
        found.append(written)
        run, base = run + count, base + count
    rows.write(tx)
    return found


def set_commands(tx: Tx, job: int, runs: Sequence[RunSpec]) -> None:
    """What a job does of which that was not known when it was written."""
    table = schema.jobs
    shared = json.loads(tx.connection.execute(sa.select(table.c.spec).where(table.c.id == job)).scalar_one())
    shared["commands"] = [dataclasses.asdict(run) for run in runs]
    tx.connection.execute(table.update().where(table.c.id == job).values(spec=json.dumps(shared)))


def add_parents(tx: Tx, job: Job) -> Sequence[int]:
    """Further outer runs of a search whose own are over; their numbers."""
    (written,) = insert_runs(tx, [MoreRuns(job.id, dataclasses.replace(job.spec, held=False))])
    return written.runs


def load_jobs(connection: sa.Connection, ids: set[int]) -> dict[int, Job]:
    return {row.id: _to_job(row) for row in rows_for(connection, _JOBS_OF, ids)}


def load_environment(connection: sa.Connection, digest: str) -> dict[str, str]:
    table = schema.environments
    text = connection.execute(sa.select(table.c.variables).where(table.c.digest == digest)).scalar()
    return dict(json.loads(text or "{}"))


def variables_of(connection: sa.Connection, job: int) -> dict[str, str]:
    """Those that were set for the runs of a job, of all that they get."""
    table = schema.jobs
    row = connection.execute(sa.select(table.c.spec, table.c.environment).where(table.c.id == job)).one()
    values = load_environment(connection, row.environment)
    return {name: values[name] for name in json.loads(row.spec).get("env_names", []) if name in values}


def insert_environment(tx: Tx, variables: dict[str, str]) -> str:
    """Keeps the values; the digest they are known by."""
    text = json.dumps(variables, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    table = schema.environments
    if tx.connection.execute(sa.select(table.c.digest).where(table.c.digest == digest)).scalar() is None:
        tx.connection.execute(table.insert(), {"digest": digest, "variables": text})
    return digest


def _made(tx: Tx, job: int) -> int:
    """How many outer runs of the job there are already."""
    table = schema.runs
    mine = sa.select(sa.func.count()).where(table.c.job_id == job, table.c.child == 0)
    return int(tx.connection.execute(mine).scalar_one())


def _to_job(row: Any) -> Job:
    kept = Kept._make(row[: len(Kept._fields)])
    spec_of = _spec if len(kept.spec) < _SHARED_MOST else _spec.__wrapped__
    spec = dataclasses.replace(spec_of(kept), display=tuple(json.loads(row.display)), label=row.label)
    return Job(id=row.id, spec=spec, created=row.created, kept=kept, pipeline=row.pipeline)


@lru_cache(maxsize=64)
def _spec(kept: Kept) -> JobSpec:
    """Lacks what the job is called. Never changed, so it may be shared."""
    values = json.loads(kept.spec)
    commands = values.get("commands", [{"argv": ()}])
    shared = {name: value for name, value in values.items() if name in _FIELDS}  # other versions have others besides
    runs = tuple(RunSpec(**{**each, "argv": tuple(each["argv"])}) for each in commands)
    shared["resources"] = Resources(**shared["resources"])
    shared["retry"] = Retry(**shared["retry"])
    shared["schedule"] = Schedule(shared["schedule"])
    shared["after"] = tuple(shared["after"])
    for name in ("data", "model"):
        if shared[name] is not None:
            shared[name] = Input(**{**shared[name], "action": Action(shared[name]["action"])})
    if shared.get("original") is not None:
        shared["original"] = build(Original, shared["original"])
    if shared.get("search") is not None:
        shared["search"] = build(Search, shared["search"])
    shared["also"] = tuple(Elsewhere(**each) for each in shared.get("also", ()))
    if shared["setup"] is not None:
        packages = {name: tuple(shared["setup"][name]) for name in ("conda", "pip")}
        shared["setup"] = Setup(**{**shared["setup"], **packages})
    if shared.get("container") is not None:
        shared["container"] = Container(**{**shared["container"], "options": tuple(shared["container"]["options"])})
    return JobSpec(
        kind=CommandKind(kept.kind), display=(), runs=runs, script=kept.script, target=kept.target,
        experiment=kept.experiment, workspace=kept.workspace, before=kept.before, **shared,
    )  # fmt: skip
