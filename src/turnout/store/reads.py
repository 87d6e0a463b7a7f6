"""What is shown: runs, jobs, events, output. Plain JSON-ready values, read in bulk."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from turnout.errors import NotFound
from turnout.model.event import EventName
from turnout.model.ids import is_job_name, job_name, parse_job_name, parse_run_name, parse_step_name, run_name
from turnout.model.spec import CommandKind
from turnout.store import schema
from turnout.store.belonging import OF_STEP
from turnout.store.parts import in_parts
from turnout.store.tallies import Counts, job_counts, live_of, state_of

View = dict[str, Any]


def moment(seconds: float | None) -> str | None:
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def find_run(connection: sa.Connection, name: str) -> int:
    """The id of the run of that name, or of the newest with that label, unless the name means a job (`find_called`).
    NotFound otherwise."""
    table = schema.runs
    parsed = parse_run_name(name)
    if parsed is not None:
        where = (table.c.number == parsed[0], table.c.child == (parsed[1] or 0))
    else:
        where = (table.c.label == name, table.c.child == 0)
        if (job := find_called(connection, name)) is not None:
            whole = job_name(job)
            hint = f"`turnout list runs {whole}` lists its runs, `turnout attach {whole}` shows what they print"
            raise NotFound(f"{name} is a job, and no run", hint=hint)
    found = connection.execute(sa.select(table.c.id).where(*where).order_by(table.c.id.desc()).limit(1)).scalar()
    if found is None:
        raise NotFound(f"no run {name!r}", hint="`turnout list runs` shows what there is")
    return int(found)


def find_called(connection: sa.Connection, name: str) -> int | None:
    """The job that this name means where a run or a job may be meant: ``job7``, ``job7.trim``, or the newest job that
    is called so, if no run of it is, and none of a later job. So a pipeline is, and a step whose runs are not made yet.
    None for any other name."""
    table = schema.runs
    if is_job_name(name):
        try:
            return find_job(connection, name)
        except NotFound:
            return None
    job = _newest_job(connection, name)
    if job is None:
        return None
    for where in (table.c.job_id == job, table.c.job_id > job):
        if connection.execute(sa.select(table.c.id).where(table.c.label == name, where).limit(1)).first() is not None:
            return None
    return job


def _newest_job(connection: sa.Connection, name: str) -> int | None:
    """The newest with that label, or that is a step of that name."""
    table = schema.jobs
    is_step = (table.c.pipeline.is_not(None), table.c.step == name)
    found = [
        connection.execute(sa.select(sa.func.max(table.c.id)).where(*where)).scalar()
        for where in ((table.c.label == name,), is_step)
    ]
    return max((job for job in found if job is not None), default=None)


def find_job(connection: sa.Connection, name: str) -> int:
    """The id of the job of that name, or of the newest that is called so, which may be a step. NotFound otherwise."""
    table = schema.jobs
    number, step = parse_job_name(name), parse_step_name(name)
    if number is None and step is None:
        found = _newest_job(connection, name)
    else:
        where = (table.c.id == number,) if step is None else (table.c.pipeline == step[0], table.c.step == step[1])
        found = connection.execute(sa.select(table.c.id).where(*where)).scalar()
    if found is None and step is not None:
        raise NotFound(f"no step {name!r}", hint=f"`turnout show job{step[0]}` shows its steps")
    if found is None:
        raise NotFound(f"no job {name!r}", hint="`turnout list jobs` shows what there is")
    return int(found)


def step_of_several(connection: sa.Connection, run: int, name: str) -> str | None:
    """The job that this run is of, if that is the step of this name in a pipeline, and has several runs."""
    table, jobs = schema.runs, schema.jobs
    select = sa.select(table.c.job_id).join(jobs, jobs.c.id == table.c.job_id)
    job = connection.execute(select.where(table.c.id == run, table.c.step > 0, jobs.c.step == name)).scalar()
    if job is None:
        return None
    several = sa.select(table.c.id).where(table.c.job_id == job, table.c.step == OF_STEP).limit(2)
    return job_name(job) if len(connection.execute(several).all()) > 1 else None


def show_runs(connection: sa.Connection, ids: Sequence[int], *, children: bool = False) -> list[View]:
    """The stable form of these runs, in the order of `ids`."""
    rows = show_by_id(connection, ids, children=children)
    return [rows[run] for run in ids if run in rows]


def show_by_id(connection: sa.Connection, ids: Sequence[int], *, children: bool = False) -> dict[int, View]:
    """The same, by their ids."""
    rows: dict[int, View] = {}
    table = schema.runs
    for part in in_parts(ids):
        for row in connection.execute(sa.select(table).where(table.c.id.in_(part))).mappings():
            rows[row["id"]] = _to_view(row)
    _add_scripts(connection, rows)
    _add_parents(connection, rows)
    _add_values(connection, rows)
    if children:
        _add_children(connection, rows)
    for view in rows.values():
        del view["_id"], view["_parent"], view["_job"]
    return rows


def _to_view(row: Any) -> View:
    return {
        "_id": row["id"], "_parent": row["parent"], "_job": row["job_id"],
        "name": run_name(row["number"], row["child"] or None), "job": job_name(row["job_id"]), "label": row["label"],
        "experiment": row["experiment"], "workspace": row["workspace"], "state": row["state"], "reason": row["reason"],
        "exit_code": row["exit_code"], "signal": row["signal"], "message": row["message"], "attempts": row["attempt"],
        "target": row["target"], "node": row["node"], "command": json.loads(row["argv"]), "params": {}, "tags": {},
        "metrics": {}, "created": moment(row["created"]), "queued": moment(row["queued"]),
        "started": moment(row["started"]), "ended": moment(row["ended"]), "parent": None, "children": [],
        "remaining": row["remaining"], "priority": row["priority"], "origin": row["origin"],
        "duration": None if row["ended"] is None or row["started"] is None else round(row["ended"] - row["started"], 3),
    }  # fmt: skip


def _add_scripts(connection: sa.Connection, rows: dict[int, View]) -> None:
    """A run of a script has its arguments alone; shown is the command as it was submitted."""
    table = schema.jobs
    scripts: dict[int, str] = {}
    for part in in_parts(sorted({view["_job"] for view in rows.values()})):
        select = sa.select(table.c.id, table.c.display).where(table.c.id.in_(part), table.c.script.is_not(None))
        scripts.update({row.id: json.loads(row.display)[0] for row in connection.execute(select)})
    for view in rows.values():
        if view["_job"] in scripts:
            view["command"].insert(0, scripts[view["_job"]])


def _add_parents(connection: sa.Connection, rows: dict[int, View]) -> None:
    parents = {view["_parent"] for view in rows.values() if view["_parent"] is not None}
    table = schema.runs
    names: dict[int, str] = {}
    for part in in_parts(sorted(parents)):
        for row in connection.execute(sa.select(table.c.id, table.c.number).where(table.c.id.in_(part))):
            names[row.id] = run_name(row.number)
    for view in rows.values():
        view["parent"] = names.get(view["_parent"])


def _add_values(connection: sa.Connection, rows: dict[int, View]) -> None:
    """Parameters, tags and last metric values."""
    params, tags, metrics, names = schema.params, schema.tags, schema.metrics, schema.metric_names
    for part in in_parts(sorted(rows)):
        for row in connection.execute(sa.select(params).where(params.c.run_id.in_(part))):
            rows[row.run_id]["params"][row.name] = json.loads(row.value)
        for row in connection.execute(sa.select(tags).where(tags.c.run_id.in_(part))):
            rows[row.run_id]["tags"][row.name] = row.value
        select = sa.select(metrics.c.run_id, names.c.name, metrics.c.last).join(names, names.c.id == metrics.c.name_id)
        for row in connection.execute(select.where(metrics.c.run_id.in_(part))):
            rows[row.run_id]["metrics"][row.name] = row.last


def _add_children(connection: sa.Connection, rows: dict[int, View]) -> None:
    table = schema.runs
    for part in in_parts(sorted(rows)):
        select = (
            sa.select(table.c.parent, table.c.number, table.c.child)
            .where(table.c.parent.in_(part))
            .order_by(table.c.child)
        )
        for row in connection.execute(select):
            rows[row.parent]["children"].append(run_name(row.number, row.child))


def run_events(connection: sa.Connection, run: int) -> list[View]:
    """The run's history; its job's `capture_before` stands in its place, behind `created`."""
    events, job_events = schema.events, schema.job_events
    rows = connection.execute(sa.select(events).where(events.c.run_id == run).order_by(events.c.seq)).all()
    job = connection.execute(sa.select(schema.runs.c.job_id).where(schema.runs.c.id == run)).scalar_one()
    where = (job_events.c.job_id == job, job_events.c.event == str(EventName.CAPTURE_BEFORE))
    captured = connection.execute(sa.select(job_events).where(*where)).all()
    return _events([*rows[:1], *captured, *rows[1:]])


def job_events(connection: sa.Connection, job: int) -> list[View]:
    """The job's own history: what is told once, not of each of its runs."""
    table = schema.job_events
    return _events(connection.execute(sa.select(table).where(table.c.job_id == job).order_by(table.c.seq)).all())


def _events(rows: Sequence[Any]) -> list[View]:
    return [
        {"seq": seq, "time": moment(row.time), "event": row.event, "data": json.loads(row.data)}
        for seq, row in enumerate(rows, 1)
    ]


def run_attempts(connection: sa.Connection, run: int) -> list[View]:
    table = schema.attempts
    rows = connection.execute(sa.select(table).where(table.c.run_id == run).order_by(table.c.attempt)).mappings()
    plain = ("attempt", "node", "cause", "exit_code", "signal", "message")
    return [
        {**{name: row[name] for name in plain}, "claimed": moment(row["claimed"]), "closed": moment(row["closed"])}
        for row in rows
    ]


def kept_directory(connection: sa.Connection, run: int, attempt: int) -> str:
    """The directory of that attempt if it stays on its node, until that is released; empty if not."""
    table, agent = schema.attempts, schema.agents
    where = (table.c.run_id == run, table.c.attempt == attempt, agent.c.node == table.c.node, agent.c.kept == 1)
    if connection.execute(sa.select(agent.c.id).where(*where).limit(1)).first() is None:
        return ""
    captured = [event for event in run_events(connection, run) if event["event"] == EventName.CAPTURE_AFTER]
    return str(captured[-1]["data"].get("kept", "")) if captured else ""


def find_tail(connection: sa.Connection, run: int, attempt: int, lines: int) -> int:
    """Where the last `lines` lines of an attempt's output begin; an unfinished one counts."""
    table = schema.output
    where = (table.c.run_id == run, table.c.attempt == attempt)
    select = sa.select(table.c.start, table.c.content).where(*where).order_by(table.c.start.desc())
    is_end = True
    with connection.execute(select) as rows:
        for row in rows:
            content = bytes(row.content)
            place = len(content) - 1 if is_end and content.endswith(b"\n") else len(content)
            is_end = False
            while (place := content.rfind(b"\n", 0, place)) >= 0:
                lines -= 1
                if not lines:
                    return int(row.start) + place + 1
    return 0


def read_output(connection: sa.Connection, run: int, attempt: int, offset: int, most: int) -> bytes:
    """Up to about `most` bytes of an attempt's output from `offset`."""
    table = schema.output
    where = (table.c.run_id == run, table.c.attempt == attempt)
    start = (
        connection.execute(sa.select(sa.func.max(table.c.start)).where(*where, table.c.start <= offset)).scalar() or 0
    )
    parts: list[bytes] = []
    size = 0
    select = sa.select(table.c.start, table.c.content).where(*where, table.c.start >= start).order_by(table.c.start)
    with connection.execute(select) as rows:
        for row in rows:
            part = bytes(row.content)[max(0, offset - row.start) :]
            parts.append(part)
            size += len(part)
            if size >= most:
                break
    return b"".join(parts)[:most]


def show_jobs(connection: sa.Connection, ids: Sequence[int]) -> list[View]:
    table = schema.jobs
    rows: dict[int, View] = {}
    counts = job_counts(connection, ids)
    for part in in_parts(ids):
        for row in connection.execute(sa.select(table).where(table.c.id.in_(part))).mappings():
            rows[row["id"]] = _job_view(row, counts[row["id"]])
            if row["kind"] == CommandKind.PIPELINE:
                rows[row["id"]]["steps"] = _steps(connection, row["id"], counts[row["id"]].steps)
    return [rows[job] for job in ids if job in rows]


def _steps(connection: sa.Connection, pipeline: int, counts: Mapping[int, Counts]) -> list[View]:
    """Of a pipeline, in their order."""
    table = schema.jobs
    columns = (table.c.id, table.c.step, table.c.target, table.c.needs, table.c.unmade)
    rows = connection.execute(sa.select(*columns).where(table.c.pipeline == pipeline).order_by(table.c.id))
    return [
        {
            "name": row.step, "job": job_name(row.id), "target": row.target, "needs": json.loads(row.needs or "[]"),
            "is_late": bool(row.unmade), **tally_view(counts[row.id]),
        }
        for row in rows
    ]  # fmt: skip


def tally_view(counts: Counts) -> View:
    """The columns of a job that are made of its runs' states."""
    live, runs = live_of(counts), sum(counts.values())
    return {
        "state": state_of(counts), "runs": runs, "counts": counts, "done": runs - live,
        "failed": counts.get("failed", 0), "live": live,
    }  # fmt: skip


def _job_view(row: Any, counts: Counts) -> View:
    spec = json.loads(row["spec"])
    return {
        "name": job_name(row["id"]), "label": row["label"], "experiment": row["experiment"],
        "workspace": row["workspace"], "target": row["target"], **tally_view(counts), "tags": spec.get("tags", {}),
        "command": json.loads(row["display"]), "created": moment(row["created"]), "snapshot": row["before"],
        "git": spec.get("git"), "env": spec.get("env_names", []), "resources": spec["resources"],
        "origin": row["origin"], "data": spec.get("data"), "model": spec.get("model"), "setup": spec.get("setup"),
        "container": spec.get("container"), "search": (spec.get("search") or {}).get("sampler"),
        "pipeline": None if row["pipeline"] is None else job_name(row["pipeline"]), "step": row["step"],
        "steps": [],
    }  # fmt: skip


def homes_of(connection: sa.Connection, runs: Sequence[int]) -> dict[int, tuple[str, str]]:
    """The workspace and the experiment of each of these runs."""
    table = schema.runs
    found: dict[int, tuple[str, str]] = {}
    for part in in_parts(runs):
        select = sa.select(table.c.id, table.c.workspace, table.c.experiment).where(table.c.id.in_(part))
        found.update({row.id: (row.workspace, row.experiment) for row in connection.execute(select)})
    return found
