"""Jobs and their runs, written at submit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from turnout.model.container import Container
from turnout.model.event import EventName
from turnout.model.ids import job_name
from turnout.model.inputs import Action, Input
from turnout.model.plain import build
from turnout.model.search import Elsewhere, Search
from turnout.model.setup import Setup
from turnout.model.spec import CommandKind, JobSpec, Original, Resources, Retry, RunSpec, Schedule
from turnout.model.state import RunState
from turnout.schedule.record import Stage
from turnout.store import schema
from turnout.store.searches import insert_search
from turnout.store.values import insert_params
from turnout.store.writer import Tx

#: Parts of a spec that have columns or tables of their own, or must never be shown.
_APART = frozenset({
    "runs", "env", "inherited_env", "script", "display", "kind", "target", "experiment", "workspace", "label", "before",
})  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the engine needs it."""

    id: int
    spec: JobSpec
    created: float
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
    """Those of a job and of its first run; and the id of that, if it was reserved, too."""

    job: int
    run: int
    id: int | None = None


def reserve_numbers(tx: Tx, spec: JobSpec) -> Numbers:
    """For a job that is to be inserted; if it never is, nobody has them."""
    return Numbers(next_numbers(tx, "job", 1), next_numbers(tx, "run", spec.outer_runs))


class StepOf(NamedTuple):
    """Of a job that is a step: the pipeline's job, its name there, how many steps it waits for as a whole, how many
    runs and steps each of its runs waits for, and which steps those are of. `late` makes the runs, where they are not
    known yet; with `bears_failures`, also after failures."""

    pipeline: int
    name: str
    blocked: int
    runs: Sequence[int]
    late: str | None
    needs: Sequence[str]
    bears_failures: bool = False


class Written(NamedTuple):
    """A job's number, those of its outer runs, and their ids."""

    job: int
    runs: list[int]
    ids: list[int]


def insert_job(
    tx: Tx, spec: JobSpec, numbers: Numbers | None = None, step: StepOf | None = None, environment: str | None = None
) -> Written:
    """Writes job, runs and their first events. `environment` is the digest of its environment, if that is kept already.

    All runs that wait for nothing are queued in the same transaction: what is acknowledged is in the queue.
    """
    job, first, base = numbers or reserve_numbers(tx, spec)
    if environment is None:
        environment = insert_environment(tx, {**spec.inherited_env, **spec.env})
    shared = {name: value for name, value in _plain(spec).items() if name not in _APART}
    shared["env_names"] = sorted(spec.env)
    shared["step_needs"] = [] if step is None else step.needs
    if (spec.nodes is not None and len(spec.runs) > 1) or spec.search is not None:  # dealt out one by one
        shared["commands"] = [dataclasses.asdict(run) for run in spec.runs]
    row = {
        "id": job, "workspace": spec.workspace, "experiment": spec.experiment, "target": spec.target,
        "label": spec.label, "kind": str(spec.kind), "display": json.dumps(spec.display), "script": spec.script,
        "spec": json.dumps(shared), "environment": environment, "before": spec.before, "created": tx.now,
        "data": spec.data.manifest if spec.data is not None else None,
        "model": spec.model.manifest if spec.model is not None else None,
        "notify": None if spec.notify == "bell" else spec.notify, "run_count": spec.commands,
        "children_total": spec.total if spec.shares_children else spec.commands if spec.search is not None else None,
    }  # fmt: skip
    if step is not None:
        is_open = step.late is None
        row |= {
            "run_count": row["run_count"] if is_open else 0, "open": spec.outer_runs if is_open else 0,
            "pipeline": step.pipeline, "step": step.name, "blocked": step.blocked,
            "late": step.late, "unmade": int(step.late is not None), "bears_failures": int(step.bears_failures),
        }  # fmt: skip
    tx.connection.execute(schema.jobs.insert(), row)
    _insert_job_events(tx, job, spec)
    if step is not None and step.late is not None:  # its runs, and its search, begin when they are made
        return Written(job, [], [])
    ids = insert_runs(tx, job, first, spec, None if step is None else step.runs, base)
    if spec.search is not None:
        insert_search(tx, job, spec, waits=step is not None and all(step.runs))
    tx.touch("queue" if spec.has_own_nodes else f"queue:{spec.where}", f"job:{job}", "runs")
    return Written(job, list(range(first, first + spec.outer_runs)), ids)


def set_commands(tx: Tx, job: int, runs: Sequence[RunSpec]) -> None:
    """What a job does of which that was not known when it was written."""
    table = schema.jobs
    shared = json.loads(tx.connection.execute(sa.select(table.c.spec).where(table.c.id == job)).scalar_one())
    shared["commands"] = [dataclasses.asdict(run) for run in runs]
    tx.connection.execute(table.update().where(table.c.id == job).values(spec=json.dumps(shared)))


def add_parents(tx: Tx, job: Job) -> list[int]:
    """Further outer runs of a search whose own are over; their numbers."""
    spec = dataclasses.replace(job.spec, held=False)
    first = next_numbers(tx, "run", spec.outer_runs)
    insert_runs(tx, job.id, first, spec)
    return list(range(first, first + spec.outer_runs))


def load_jobs(connection: sa.Connection, ids: set[int]) -> dict[int, Job]:
    rows = connection.execute(sa.select(schema.jobs).where(schema.jobs.c.id.in_(ids))).mappings()
    return {row["id"]: _to_job(row) for row in rows}


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


def environment_digests(connection: sa.Connection, ids: set[int]) -> dict[int, str]:
    table = schema.jobs
    select = sa.select(table.c.id, table.c.environment).where(table.c.id.in_(ids))
    return {row.id: row.environment for row in connection.execute(select)}


def _plain(spec: JobSpec) -> dict[str, Any]:
    fields = (field.name for field in dataclasses.fields(spec) if field.name not in ("runs",))
    values = {name: getattr(spec, name) for name in fields}
    values["resources"] = dataclasses.asdict(spec.resources)
    values["retry"] = dataclasses.asdict(spec.retry)
    for name in ("data", "model", "setup", "container", "original", "search"):
        values[name] = dataclasses.asdict(values[name]) if values[name] is not None else None
    values["also"] = [dataclasses.asdict(each) for each in spec.also]
    return values


def insert_environment(tx: Tx, variables: dict[str, str]) -> str:
    """Keeps the values; the digest they are known by."""
    text = json.dumps(variables, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    table = schema.environments
    if tx.connection.execute(sa.select(table.c.digest).where(table.c.digest == digest)).scalar() is None:
        tx.connection.execute(table.insert(), {"digest": digest, "variables": text})
    return digest


def _insert_job_events(tx: Tx, job: int, spec: JobSpec) -> None:
    before = {"snapshot": spec.before, "files": spec.before_files, "bytes": spec.before_bytes}
    names = [(EventName.CREATED, {"runs": spec.outer_runs}), (EventName.CAPTURE_BEFORE, before)]
    rows = [
        {"job_id": job, "seq": seq, "time": tx.now, "event": str(name), "data": json.dumps(data)}
        for seq, (name, data) in enumerate(names, 1)
    ]
    tx.connection.execute(schema.job_events.insert(), rows)


def _places(tx: Tx, spec: JobSpec, job: int) -> list[tuple[str, str]]:
    """The target and the queue of each outer run that is made now."""
    if spec.search is not None:
        return [(spec.target, spec.where), *((each.target, each.where) for each in spec.also)]
    if not spec.has_own_nodes:
        return [(spec.target, spec.where)] * spec.outer_runs
    first = 0 if spec.nodes is not None else _made(tx, job)
    return [(spec.target, f"{spec.where}#{job_name(job)}.{first + index}") for index in range(spec.outer_runs)]


def _made(tx: Tx, job: int) -> int:
    """How many outer runs of the job there are already: what is launched by itself takes no other's place."""
    table = schema.runs
    mine = sa.select(sa.func.count()).where(table.c.job_id == job, table.c.child == 0)
    return int(tx.connection.execute(mine).scalar_one())


def _outer(spec: JobSpec) -> tuple[RunSpec, ...]:
    """What each node's outer run is: the command, or the parent of many."""
    return spec.runs if len(spec.runs) == 1 else (RunSpec(argv=()),)


def insert_runs(
    tx: Tx, job: int, first: int, spec: JobSpec, blocked: Sequence[int] | None = None, base: int | None = None
) -> list[int]:
    """The outer runs of a job, with numbers from `first`; their ids, which begin with `base` if they were reserved.
    Those of a step are `blocked`: each waits for so many others."""
    if not spec.outer_runs:
        return []
    if base is None:
        base = next_numbers(tx, "run_id", spec.outer_runs)
    ids = list(range(base, base + spec.outer_runs))
    runs = spec.runs if spec.nodes is None and spec.search is None else _outer(spec) * spec.outer_runs
    places = _places(tx, spec, job)
    stage = Stage.NONE if spec.search is None else Stage.OPEN
    waits = [spec.held or bool(count) for count in blocked or [0] * spec.outer_runs]
    shared = {
        "child": 0, "job_id": job, "parent": None, "workspace": spec.workspace, "experiment": spec.experiment,
        "priority": spec.priority, "failures_left": spec.retry.failures, "losses_left": spec.retry.losses,
        "created": tx.now, "step": int(blocked is not None),
    }  # fmt: skip
    rows = [
        {
            **shared,
            "id": ids[index],
            "number": first + index,
            "label": run.label or spec.label,
            "argv": json.dumps(run.argv),
            "params": json.dumps(run.params),
            "children_planned": spec.children_of(index),
            "remaining": 0 if stage else spec.children_of(index),
            "stage": stage,
            "outer": None if spec.nodes is None else index,
            "target": places[index][0],
            "queue": places[index][1],
            "waiting": None if waits[index] or stage else -spec.priority,
            "state": str(RunState.CREATED if waits[index] else RunState.QUEUED),
            "queued": None if waits[index] else tx.now,
            "event_seq": 1 if waits[index] else 2,
            "blocked": blocked[index] if blocked else 0,
            "outputs": json.dumps(run.outputs) if run.outputs else None,
        }
        for index, run in enumerate(runs)
    ]
    tx.connection.execute(schema.runs.insert(), rows)
    events = [
        {"run_id": run, "seq": seq, "time": tx.now, "event": name, "data": "{}"}
        for index, run in enumerate(ids)
        for seq, name in ((1, "created"), (2, "queued"))[: 1 if waits[index] else 2]
    ]
    tx.connection.execute(schema.events.insert(), events)
    insert_params(tx, [(ids[index], run.params) for index, run in enumerate(runs) if run.params])
    if spec.tags:
        rows = [{"run_id": run, "name": name, "value": value} for run in ids for name, value in spec.tags.items()]
        tx.connection.execute(schema.tags.insert(), rows)
    return ids


def _to_job(row: Any) -> Job:
    shared = json.loads(row["spec"])
    for name in ("env_names", "step_needs"):
        shared.pop(name, None)
    commands = shared.pop("commands", [{"argv": ()}])
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
    spec = JobSpec(
        kind=CommandKind(row["kind"]), display=tuple(json.loads(row["display"])), runs=runs,
        script=row["script"], target=row["target"], experiment=row["experiment"], workspace=row["workspace"],
        label=row["label"], before=row["before"], **shared,
    )  # fmt: skip
    return Job(id=row["id"], spec=spec, created=row["created"], pipeline=row["pipeline"])
