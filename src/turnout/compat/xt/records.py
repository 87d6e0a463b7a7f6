"""Records of runs, of launches and of cancels, between XT's keys and ours."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.compat.launched import Told
from turnout.plugin.foreign import DraftRun, Ended
from turnout.plugin.provider import Failure, Launch, Work

Record = dict[str, Any]


@dataclass(frozen=True)
class Launched(Told):
    """What a handle says: which run it is, and what the service calls the job and where it shows it. The `token` tells
    it from that of another attempt."""

    token: str
    job: str
    run: str
    workspace: str
    node: str
    id: str
    url: str


def of_draft(run: DraftRun) -> Record:
    return {
        "run_name": run.run, "workspace": run.workspace, "exper_name": run.experiment, "box_name": run.node,
        "cmd_parts": list(run.command), "pre_cmds": list(run.before), "env_vars": dict(run.env), "repeat": run.repeat,
    }  # fmt: skip


def to_draft(record: Record, run: DraftRun) -> DraftRun:
    """The run as its record is now. Failure when that is no command any more."""
    command, before, env = record.get("cmd_parts"), record.get("pre_cmds") or [], record.get("env_vars") or {}
    command = shlex.split(command) if isinstance(command, str) else command
    before = before.splitlines() if isinstance(before, str) else before
    if not command or not isinstance(command, list | tuple) or not isinstance(before, list | tuple):
        raise Failure(f"adjust_run_commands left no command in the record of {run.run}", kind="rejected")
    return DraftRun(
        run=run.run, workspace=run.workspace, experiment=run.experiment, node=run.node, repeat=run.repeat,
        command=[str(word) for word in command], before=[str(line) for line in before],
        env={str(name): str(value) for name, value in dict(env).items()},
    )  # fmt: skip


def of_launch(launch: Launch, work: Work) -> Record:
    return {
        "run_name": work.run, "workspace": work.workspace, "exper_name": work.experiment, "box_name": launch.node,
        "cmd_parts": list(work.argv), "pre_cmds": [], "env_vars": dict(work.env), "repeat": work.repeat,
    }  # fmt: skip


def by_box(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["box_name"], []).append(record)
    return found


def to_ended(records: Any, node: str = "") -> list[Ended]:
    """What a cancel gave: a list of records, or such a list for each box. What is none of that is left out."""
    if isinstance(records, dict):
        return [each for box, inner in records.items() for each in to_ended(inner, str(box))]
    return [
        Ended(
            run=str(record.get("run_name") or ""), workspace=str(record.get("workspace") or ""),
            experiment=str(record.get("exper_name") or ""), killed=bool(record.get("killed")),
            state=str(record.get("status") or ""), before=str(record.get("before_status") or ""), node=node,
        )
        for record in (records if isinstance(records, Sequence) else ())
        if isinstance(record, dict)
    ]  # fmt: skip
