"""What can be asked about things other than runs."""

from __future__ import annotations

from turnout.query.columns import Field, Kind, Table

_TEXT = Kind.TEXT
_LAST = {"first": Field(Kind.TIME, "when its first job was submitted"), "last": Field(Kind.TIME, "… its newest")}
_AMOUNTS = {"jobs": Field(Kind.INT, "how many jobs"), "runs": Field(Kind.INT, "how many runs were submitted")}

JOBS = Table(
    columns={
        "name": Field(_TEXT, "the job: job7"),
        "label": Field(_TEXT, "the name a person gave it"),
        "experiment": Field(_TEXT, "the experiment it is part of"),
        "workspace": Field(_TEXT, "the workspace of the experiment"),
        "target": Field(_TEXT, "the compute target it was sent to"),
        "state": Field(Kind.STATE, "how it stands", ("queued", "running", "completed", "failed", "cancelled")),
        "runs": Field(Kind.INT, "how many runs it has, those of a parent not made yet as well"),
        "done": Field(Kind.INT, "how many of them are over"),
        "failed": Field(Kind.INT, "how many of them failed"),
        "live": Field(Kind.INT, "how many of them are not over"),
        "created": Field(Kind.TIME, "when it was submitted"),
    },
    namespaces={"tags": Field(_TEXT, "a tag"), "counts": Field(Kind.INT, "how many runs are in a state")},
    aliases={"status": "state", "job": "name"},
    shown_only=frozenset({"command"}),
)

EXPERIMENTS = Table(
    columns={
        "name": Field(_TEXT, "the experiment"),
        "workspace": Field(_TEXT, "the workspace it belongs to"),
        **_AMOUNTS,
        "live": Field(Kind.INT, "how many runs are not over"),
        **_LAST,
    },
    aliases={"experiment": "name"},
)

WORKSPACES = Table(
    columns={
        "name": Field(_TEXT, "the workspace"),
        "experiments": Field(Kind.INT, "how many experiments"),
        **_AMOUNTS,
        "live": Field(Kind.INT, "how many runs are not over"),
        **_LAST,
    },
    aliases={"workspace": "name"},
)

TARGETS = Table(
    columns={
        "name": Field(_TEXT, "the compute target"),
        "service": Field(_TEXT, "the service, or provider, it is at"),
        "max_runs": Field(Kind.INT, "runs at once on one node"),
        "nodes": Field(Kind.INT, "nodes that work for it now"),
        "waiting": Field(Kind.INT, "runs in its queue"),
        "running": Field(Kind.INT, "runs on its nodes"),
    },
    aliases={"target": "name"},
)

NODES = Table(
    columns={
        "name": Field(_TEXT, "the node"),
        "target": Field(_TEXT, "the target it works for"),
        "state": Field(_TEXT, "launching, up or gone"),
        "agent": Field(Kind.INT, "the agent on it"),
        "cpus": Field(Kind.INT, "its processors"),
        "gpus": Field(Kind.INT, "its GPUs"),
        "memory": Field(Kind.INT, "its memory, in bytes"),
        "running": Field(Kind.INT, "runs on it"),
        "since": Field(Kind.TIME, "when its agent was started"),
    },
    aliases={"node": "name"},
)

BOXES = Table(
    columns={
        "name": Field(_TEXT, "the box"),
        "address": Field(_TEXT, "its host, with the user where one is given"),
        "os": Field(_TEXT, "its operating system"),
        "max_runs": Field(Kind.INT, "runs at once on it"),
    },
    aliases={"box": "name"},
)
