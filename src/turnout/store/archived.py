"""What of the store goes into an archive, and how a row looks there.

Rows refer to each other by name (``run12.3``, ``job7``), not by the numbers of one store. Every table of the schema is
either here or in `STAYS`; a test holds that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from turnout.model.event import EventName
from turnout.store import schema

#: Of one store alone: its counters and agents, what was answered, values that are never shown, and what waits for what:
#: in an archive all is over.
STAYS = frozenset({
    "counters", "environments", "agents", "requests", "imports", "metric_names", "shares", "run_needs", "step_needs",
    "late_needs",
})  # fmt: skip
#: Columns that hold the digest of a snapshot's manifest.
MANIFESTS = {"jobs": ("before", "data", "model"), "runs": ("after",)}

#: Fields of events that name a run.
NAMED_IN_EVENTS: Mapping[str, tuple[str, ...]] = {EventName.CHILD_CREATED: ("child",)}


@dataclass(frozen=True, slots=True)
class Archived:
    """A table. `owner` is the column with the job or run a row belongs to; `apart` are columns that the importing
    store fills by itself; `texts` hold JSON of that kind."""

    table: sa.Table
    owner: str
    apart: frozenset[str] = frozenset()
    texts: Mapping[str, type] = field(default_factory=dict)

    @property
    def is_of_jobs(self) -> bool:
        return self.owner == "job_id" or self.table is schema.jobs

    @property
    def columns(self) -> list[sa.Column[object]]:
        """Those that are archived as they are, or by name."""
        return [column for column in self.table.c if column.name not in self.apart]

    @property
    def fields(self) -> list[str]:
        """What `columns` are called in an archive."""
        return [_FIELDS.get((self.table.name, column.name), column.name) for column in self.columns]


_FIELDS = {
    ("jobs", "id"): "name", ("runs", "id"): "name",
    **{(name, "job_id"): "job" for name in ("job_events", "searches", "proposals", "runs")},
    **{(name, "run_id"): "run" for name in (
        "attempts", "parent_scripts", "events", "streams", "metrics", "metric_chunks", "params", "tags",
    )},
    ("metrics", "name_id"): "metric", ("metric_chunks", "name_id"): "metric",
}  # fmt: skip

#: What jobs and runs have of a pipeline only while it goes on.
_UNDER_WAY = ("blocked", "open", "late", "unmade", "gate", "stale", "each")

#: In the order in which they are written and read: what others refer to comes first. Output is not among them: it lies
#: in files of its own.
TABLES = (
    Archived(
        schema.jobs,
        "id",
        frozenset({"environment", "notify", "origin", "continues", *_UNDER_WAY}),
        {"display": list, "spec": dict, "needs": list},
    ),
    Archived(schema.job_events, "job_id", texts={"data": dict}),
    Archived(schema.searches, "job_id", frozenset({"state", "deadline"})),
    Archived(schema.proposals, "job_id", texts={"params": dict, "memo": dict}),
    Archived(
        schema.runs,
        "id",
        frozenset({"number", "child", "waiting", "agent", "origin", "blocked", "gate", "carried"}),
        {"argv": list, "params": dict},
    ),
    Archived(schema.attempts, "run_id"),
    Archived(schema.parent_scripts, "run_id"),
    Archived(schema.events, "run_id", texts={"data": dict}),
    Archived(schema.streams, "run_id"),
    Archived(schema.metrics, "run_id"),
    Archived(schema.metric_chunks, "run_id"),
    Archived(schema.params, "run_id", frozenset({"number", "text"}), {"value": object}),
    Archived(schema.tags, "run_id"),
)


def line(fields: list[str], values: list[object]) -> str:
    return json.dumps(dict(zip(fields, values, strict=True)), allow_nan=False, separators=(",", ":"))
