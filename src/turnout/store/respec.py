"""What was submitted, as one run of it would be submitted again."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import sqlalchemy as sa

from turnout.errors import Conflict
from turnout.model.ids import job_name, run_name
from turnout.model.spec import JobSpec, Original, RunSpec
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
    """The run of that name: a child as a run of its own, a parent with as many children, that of a search as the whole
    search. NotFound; Conflict when it was imported without its files, or other steps of its pipeline left it some."""
    runs, jobs, tags = schema.runs, schema.jobs, schema.tags
    row = connection.execute(sa.select(runs).where(runs.c.id == find_run(connection, name))).one()
    spec = load_jobs(connection, {row.job_id})[row.job_id].spec
    if spec.before is None and spec.before_files:
        hint = "export it once more, without --no-files, and import that; or submit it from its project"
        raise Conflict(f"the files that {name} was given are not here: it was imported without them", hint=hint)
    columns = (jobs.c.spec, jobs.c.pipeline, jobs.c.needs)
    told, pipeline, needs = connection.execute(sa.select(*columns).where(jobs.c.id == row.job_id)).one()
    if pipeline is not None and json.loads(needs or "[]"):
        whole = job_name(pipeline)
        hint = (
            f"`turnout resume {whole}` does what is missing; `turnout pipeline FILE --resume {whole}` what has changed"
        )
        raise Conflict(f"{name} reads what steps before it have left, which it would not have alone", hint=hint)
    tagged = connection.execute(sa.select(tags.c.name, tags.c.value).where(tags.c.run_id == row.id))
    children = row.children_planned
    alone = replace(
        spec,
        runs=(RunSpec(argv=tuple(json.loads(row.argv)), params=json.loads(row.params)),),
        tags={each.name: each.value for each in tagged},
        repeat=children if children and spec.search is None else 1,
        search=spec.search if children else None,
        also=spec.also if children else (),
        total=None,
        nodes=1 if spec.nodes is not None else None,
        parent_script=spec.parent_script if children else None,
        parent_script_path=spec.parent_script_path if children else None,
        held=False,
    )
    name, env_names = run_name(row.number, row.child or None), json.loads(told).get("env_names", [])
    if spec.original is None:
        return Respecified(name, alone, env_names)
    first = connection.execute(sa.select(sa.func.min(runs.c.number)).where(runs.c.job_id == row.job_id)).scalar_one()
    return Respecified(name, _as_asked(alone, spec.original, row.number - first), list(spec.original.env))


def _as_asked(spec: JobSpec, original: Original, index: int) -> JobSpec:
    """The job as it was asked for, before the system it went to made something else of it."""
    argv = original.argv[index if index < len(original.argv) else 0]
    return replace(
        spec, kind=original.kind, display=original.display, script=original.script, script_path=original.script_path,
        runs=(replace(spec.runs[0], argv=argv),), original=None,
    )  # fmt: skip
