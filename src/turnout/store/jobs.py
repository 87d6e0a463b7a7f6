"""Jobs and their runs, written at submit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.model.spec import CommandKind, JobSpec, Resources, Retry, RunSpec
from turnout.model.state import RunState
from turnout.store import schema
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


def next_numbers(tx: Tx, name: str, count: int) -> int:
    """The first of `count` numbers of that counter, each given out once."""
    table = schema.counters
    bump = table.update().where(table.c.name == name).values(value=table.c.value + count).returning(table.c.value)
    value = tx.connection.execute(bump).scalar()
    if value is None:
        tx.connection.execute(table.insert().values(name=name, value=count))
        value = count
    return int(value) - count + 1


def insert_job(tx: Tx, spec: JobSpec) -> tuple[int, list[int]]:
    """Writes job, runs and their first events; gives the job's number and the run numbers.

    All runs are queued in the same transaction: what is acknowledged is in the queue.
    """
    job = next_numbers(tx, "job", 1)
    first = next_numbers(tx, "run", len(spec.runs))
    environment = _insert_environment(tx, {**spec.inherited_env, **spec.env})
    shared = {name: value for name, value in _plain(spec).items() if name not in _APART}
    shared["env_names"] = sorted(spec.env)
    row = {
        "id": job, "workspace": spec.workspace, "experiment": spec.experiment, "target": spec.target,
        "label": spec.label, "kind": str(spec.kind), "display": json.dumps(spec.display), "script": spec.script,
        "spec": json.dumps(shared), "environment": environment, "before": spec.before, "created": tx.now,
        "run_count": len(spec.runs),
    }  # fmt: skip
    tx.connection.execute(schema.jobs.insert(), row)
    _insert_job_events(tx, job, spec)
    ids = _insert_runs(tx, job, first, spec)
    if spec.tags:
        rows = [{"run_id": run, "name": name, "value": value} for run in ids for name, value in spec.tags.items()]
        tx.connection.execute(schema.tags.insert(), rows)
    tx.touch(f"queue:{spec.target}", f"job:{job}", "runs")
    return job, list(range(first, first + len(spec.runs)))


def load_jobs(connection: sa.Connection, ids: set[int]) -> dict[int, Job]:
    rows = connection.execute(sa.select(schema.jobs).where(schema.jobs.c.id.in_(ids))).mappings()
    return {row["id"]: _to_job(row) for row in rows}


def load_environment(connection: sa.Connection, digest: str) -> dict[str, str]:
    table = schema.environments
    text = connection.execute(sa.select(table.c.variables).where(table.c.digest == digest)).scalar()
    return dict(json.loads(text or "{}"))


def environment_digests(connection: sa.Connection, ids: set[int]) -> dict[int, str]:
    table = schema.jobs
    select = sa.select(table.c.id, table.c.environment).where(table.c.id.in_(ids))
    return {row.id: row.environment for row in connection.execute(select)}


def _plain(spec: JobSpec) -> dict[str, Any]:
    fields = (field.name for field in dataclasses.fields(spec) if field.name not in ("runs",))
    values = {name: getattr(spec, name) for name in fields}
    values["resources"] = dataclasses.asdict(spec.resources)
    values["retry"] = dataclasses.asdict(spec.retry)
    return values


def _insert_environment(tx: Tx, variables: dict[str, str]) -> str:
    text = json.dumps(variables, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    table = schema.environments
    if tx.connection.execute(sa.select(table.c.digest).where(table.c.digest == digest)).scalar() is None:
        tx.connection.execute(table.insert(), {"digest": digest, "variables": text})
    return digest


def _insert_job_events(tx: Tx, job: int, spec: JobSpec) -> None:
    before = {"snapshot": spec.before, "files": spec.before_files, "bytes": spec.before_bytes}
    names = [(EventName.CREATED, {"runs": len(spec.runs)}), (EventName.CAPTURE_BEFORE, before)]
    rows = [
        {"job_id": job, "seq": seq, "time": tx.now, "event": str(name), "data": json.dumps(data)}
        for seq, (name, data) in enumerate(names, 1)
    ]
    tx.connection.execute(schema.job_events.insert(), rows)


def _insert_runs(tx: Tx, job: int, first: int, spec: JobSpec) -> list[int]:
    base = next_numbers(tx, "run_id", len(spec.runs))
    ids = list(range(base, base + len(spec.runs)))
    planned = spec.repeat if spec.repeat > 1 else 0
    shared = {
        "child": 0, "job_id": job, "parent": None, "workspace": spec.workspace, "experiment": spec.experiment,
        "target": spec.target, "priority": spec.priority, "waiting": -spec.priority, "state": str(RunState.QUEUED),
        "failures_left": spec.retry.failures, "losses_left": spec.retry.losses, "children_planned": planned,
        "remaining": planned, "created": tx.now, "queued": tx.now, "event_seq": 2,
    }  # fmt: skip
    rows = [
        {
            **shared,
            "id": ids[index],
            "number": first + index,
            "label": run.label or spec.label,
            "argv": json.dumps(run.argv),
            "params": json.dumps(run.params),
        }
        for index, run in enumerate(spec.runs)
    ]
    tx.connection.execute(schema.runs.insert(), rows)
    events = [
        {"run_id": run, "seq": seq, "time": tx.now, "event": name, "data": "{}"}
        for run in ids
        for seq, name in ((1, "created"), (2, "queued"))
    ]
    tx.connection.execute(schema.events.insert(), events)
    insert_params(tx, [(ids[index], run.params) for index, run in enumerate(spec.runs) if run.params])
    return ids


def _to_job(row: Any) -> Job:
    shared = json.loads(row["spec"])
    shared.pop("env_names", None)
    shared["resources"] = Resources(**shared["resources"])
    shared["retry"] = Retry(**shared["retry"])
    shared["after"] = tuple(shared["after"])
    spec = JobSpec(
        kind=CommandKind(row["kind"]), display=tuple(json.loads(row["display"])), runs=(RunSpec(argv=()),),
        script=row["script"], target=row["target"], experiment=row["experiment"], workspace=row["workspace"],
        label=row["label"], before=row["before"], **shared,
    )  # fmt: skip
    return Job(id=row["id"], spec=spec, created=row["created"])
