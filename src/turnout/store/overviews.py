"""What there is besides runs and jobs: experiments, workspaces, targets' queues, nodes, names of columns."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from turnout.model.ids import target_of
from turnout.model.state import LIVE, ON_NODE
from turnout.store import schema
from turnout.store.agents import AgentState
from turnout.store.distinct import few_values
from turnout.store.parts import in_parts
from turnout.store.reads import View, moment

_RUNS, _JOBS, _AGENTS = schema.runs, schema.jobs, schema.agents
_LIVE = [str(state) for state in LIVE]
_ON_NODE = [str(state) for state in ON_NODE]
_MOST_NAMES = 10_000


def experiments(connection: sa.Connection) -> list[View]:
    """All of them, the one with the newest job first. Read from an index of jobs, and one of runs that are not over."""
    keys = (_JOBS.c.workspace, _JOBS.c.experiment)
    live = _live(connection, _RUNS.c.workspace, _RUNS.c.experiment)
    rows = [
        {"name": row.experiment, "workspace": row.workspace, **_amounts(row), "live": live.get(tuple(row[:2]), 0),
         "first": moment(row.first), "last": moment(row.last)}
        for row in connection.execute(_grouped(*keys))
    ]  # fmt: skip
    return sorted(rows, key=lambda row: str(row["last"]), reverse=True)


def workspaces(connection: sa.Connection) -> list[View]:
    found: dict[str, View] = {}
    for row in experiments(connection):
        name = str(row["workspace"])
        sums = found.setdefault(name, {"name": name, "experiments": 0, "jobs": 0, "runs": 0, "live": 0})
        sums["experiments"] += 1
        for column in ("jobs", "runs", "live"):
            sums[column] += row[column]
        sums["first"] = min(sums.get("first", row["first"]), row["first"])
        sums["last"] = max(sums.get("last", row["last"]), row["last"])
    return list(found.values())


def _grouped(*keys: sa.Column[str]) -> Any:
    """A pipeline is one job, and its runs are those of its steps."""
    columns: list[Any] = [
        (sa.func.count() - sa.func.count(_JOBS.c.pipeline)).label("jobs"), sa.func.sum(_JOBS.c.run_count).label("runs"),
        sa.func.min(_JOBS.c.created).label("first"), sa.func.max(_JOBS.c.created).label("last"),
    ]  # fmt: skip
    return sa.select(*keys, *columns).group_by(*keys)


def _amounts(row: Any) -> dict[str, int]:
    return {"jobs": int(row.jobs), "runs": int(row.runs)}


def _live(connection: sa.Connection, *keys: sa.Column[str]) -> dict[tuple[Any, ...], int]:
    """How many runs are not over, by these columns. They are found first: SQLite would read all runs to group some."""
    runs = _RUNS.alias()
    live = sa.select(runs.c.id).where(runs.c.state.in_(_LIVE))
    select = sa.select(*keys, sa.func.count()).where(_RUNS.c.id.in_(live)).group_by(*keys)
    return {tuple(row[:-1]): int(row[-1]) for row in connection.execute(select)}


def queues(connection: sa.Connection) -> dict[str, dict[str, int]]:
    """Of each target: how many runs wait for it, how many are on its nodes."""
    found: dict[str, dict[str, int]] = {}
    for (target, state), number in _live(connection, _RUNS.c.target, _RUNS.c.state).items():
        counts = found.setdefault(target, {"waiting": 0, "running": 0})
        counts["running" if state in _ON_NODE else "waiting"] += number
    return found


def nodes(connection: sa.Connection, *, gone: bool = False, limit: int = 1000) -> list[View]:
    """Those that work now, or also the last that did; newest first."""
    select = sa.select(_AGENTS).order_by(_AGENTS.c.id.desc()).limit(limit)
    if not gone:
        select = select.where(_AGENTS.c.state != str(AgentState.GONE))
    held = sa.select(_RUNS.c.agent, sa.func.count().label("n")).where(_RUNS.c.agent.is_not(None))
    running = {row.agent: row.n for row in connection.execute(held.group_by(_RUNS.c.agent))}
    return [_node(row, running.get(row["id"], 0)) for row in connection.execute(select).mappings()]


def _node(row: Any, running: int) -> View:
    facts = json.loads(row["facts"] or "{}")
    gpus = facts.get("gpus")
    return {
        "name": row["node"], "target": target_of(row["target"]), "agent": row["id"],
        "state": "kept" if row["kept"] and row["state"] == AgentState.UP else row["state"],
        "cpus": facts.get("cpus"), "gpus": None if gpus is None else len(gpus), "memory": facts.get("memory"),
        "gpu_names": [each["name"] or "GPU" for each in facts.get("gpu_facts", ())],
        "containers": facts.get("containers", []),
        "running": running, "since": moment(row["created"]), "ended": moment(row["ended"]),
    }  # fmt: skip


def kept_nodes(connection: sa.Connection, runs: Collection[int]) -> set[str]:
    """Those on which attempts of these runs were, and that stay until they are released."""
    attempts = schema.attempts
    found: set[str] = set()
    for part in in_parts(runs):
        select = sa.select(attempts.c.node).where(
            attempts.c.run_id.in_(part), attempts.c.node == _AGENTS.c.node, _AGENTS.c.kept == 1
        )
        found |= set(connection.execute(select.distinct()).scalars())
    return found


def is_node(connection: sa.Connection, name: str) -> bool:
    """Whether there was ever a node of that name."""
    return connection.execute(sa.select(_AGENTS.c.id).where(_AGENTS.c.node == name).limit(1)).first() is not None


def live_runs_at(connection: sa.Connection, place: str) -> list[int]:
    """The runs that are not over and were sent to a target, or are on a node, of that name."""
    at = sa.or_(_RUNS.c.target == place, _RUNS.c.node == place)
    return [row.id for row in connection.execute(sa.select(_RUNS.c.id).where(_RUNS.c.state.in_(_LIVE), at))]


def recorded_names(connection: sa.Connection) -> dict[str, list[str]]:
    """The names under which runs recorded something: of metrics, parameters, tags."""
    logged = sa.select(schema.metric_names.c.name).order_by(schema.metric_names.c.name).limit(_MOST_NAMES)
    return {
        "metrics": [str(name) for name in connection.execute(logged).scalars()],
        "params": few_values(connection, schema.params.c.name, most=_MOST_NAMES) or [],
        "tags": few_values(connection, schema.tags.c.name, most=_MOST_NAMES) or [],
    }
