"""What can be asked about things other than runs."""

from __future__ import annotations

from functools import partial

from turnout.query.columns import Field, Kind, Table

_text = partial(Field, Kind.TEXT)
_count = partial(Field, Kind.INT)
_size = partial(Field, Kind.SIZE)
_time = partial(Field, Kind.TIME)
_JOB_STATES = ("queued", "running", "completed", "failed", "cancelled")
_SUMS = {
    "jobs": _count("how many jobs"),
    "runs": _count("how many runs were submitted, children in the place of their parents"),
    "live": _count("how many runs are not over"),
    "first": _time("when its first job was submitted"),
    "last": _time("… its newest"),
}


def _named(word: str, **columns: Field) -> Table:
    """A table whose things are called `word`, which is another word for their name."""
    return Table(columns=columns, aliases={word: "name"})


JOBS = Table(
    columns={
        "name": _text("the job: job7"),
        "label": _text("the name a person gave it"),
        "experiment": _text("the experiment it is part of"),
        "workspace": _text("the workspace of the experiment"),
        "target": _text("the compute target it was sent to"),
        "state": Field(Kind.STATE, "how it stands", _JOB_STATES),
        "runs": _count("how many runs it has, those of a parent not made yet as well"),
        "done": _count("how many of them are over"),
        "failed": _count("how many of them failed"),
        "live": _count("how many of them are not over"),
        "created": _time("when it was submitted"),
        "origin": _text("its name where it was exported, if it was imported"),
        "pipeline": _text("the pipeline that it is a step of; steps are listed only where this is asked about"),
        "step": _text("… and its name there"),
    },
    namespaces={"tags": _text("a tag"), "counts": _count("how many runs are in a state")},
    aliases={"status": "state", "job": "name"},
    shown_only=frozenset({"command"}),
)
EXPERIMENTS = _named(
    "experiment", name=_text("the experiment"), workspace=_text("the workspace it belongs to"), **_SUMS
)
WORKSPACES = _named("workspace", name=_text("the workspace"), experiments=_count("how many experiments"), **_SUMS)
TARGETS = _named(
    "target",
    name=_text("the compute target"),
    service=_text("the service, or provider, it is at"),
    max_runs=_count("runs at once on one node"),
    nodes=_count("nodes that work for it now"),
    waiting=_count("runs in its queue"),
    running=_count("runs on its nodes"),
)
NODES = _named(
    "node",
    name=_text("the node"),
    target=_text("the target it works for"),
    state=_text("launching, up or gone"),
    agent=_count("the agent on it"),
    cpus=_count("its processors"),
    gpus=_count("its GPUs"),
    free_gpus=_count("those that a run could be put on now"),
    memory=_size("its memory"),
    running=_count("runs on it"),
    since=_time("when its agent was started"),
)
BOXES = _named(
    "box",
    name=_text("the box"),
    address=_text("its host, with the user where one is given"),
    os=_text("its operating system"),
    max_runs=_count("runs at once on it"),
)
SHARES = _named(
    "share",
    name=_text("the share"),
    files=_count("how many files are in it"),
    bytes=_size("how large they are together"),
    created=_time("when it was made"),
    updated=_time("when it changed last"),
)
FILES = Table(
    columns={
        "path": _text("the file, from the top of the share"),
        "bytes": _size("how large it is"),
        "link": _text("what it leads to, if it is a symbolic link"),
        "digest": _text("the sha256 of its content"),
    },
    aliases={"name": "path", "file": "path"},
)
