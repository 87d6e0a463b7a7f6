"""What was submitted, as one run of it would be submitted again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import sqlalchemy as sa

from turnout.errors import Conflict
from turnout.model.ids import run_name
from turnout.model.spec import JobSpec, RunSpec
from turnout.store import schema
from turnout.store.jobs import load_jobs
from turnout.store.reads import find_run


@dataclass(frozen=True, slots=True)
class Respecified:
    """`spec` lacks the environment: `env_names` are the variables that were set for it, without their values."""

    run: str
    spec: JobSpec
    env_names: list[str]


def respecify(connection: sa.Connection, name: str) -> Respecified:
    """The run of that name: a child as a run of its own, a parent with as many children. NotFound; Conflict when it was
    imported without its files."""
    runs, jobs, tags = schema.runs, schema.jobs, schema.tags
    row = connection.execute(sa.select(runs).where(runs.c.id == find_run(connection, name))).one()
    spec = load_jobs(connection, {row.job_id})[row.job_id].spec
    if spec.before is None and spec.before_files:
        hint = "export it once more, without --no-files, and import that; or submit it from its project"
        raise Conflict(f"the files that {name} was given are not here: it was imported without them", hint=hint)
    told = connection.execute(sa.select(jobs.c.spec).where(jobs.c.id == row.job_id)).scalar_one()
    tagged = connection.execute(sa.select(tags.c.name, tags.c.value).where(tags.c.run_id == row.id))
    children = row.children_planned
    alone = replace(
        spec,
        runs=(RunSpec(argv=tuple(json.loads(row.argv)), params=json.loads(row.params)),),
        tags={each.name: each.value for each in tagged},
        repeat=children if children else 1,
        total=None,
        nodes=1 if spec.nodes is not None else None,
        parent_script=spec.parent_script if children else None,
        parent_script_path=spec.parent_script_path if children else None,
        held=False,
    )
    return Respecified(run_name(row.number, row.child or None), alone, json.loads(told).get("env_names", []))
