"""``turnout run``: freeze, submit, show until done."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client, ask
from turnout.client.preparing import Prepared, Wish, prepare
from turnout.errors import NotFound
from turnout.home import Home
from turnout.model.inputs import Input
from turnout.model.spec import Resources, Schedule

_SHOWN = 20
_SAID = ("name", "tags", "retry", "priority", "concurrent", "held", "nodes", "schedule", "parent_script",
         "data", "model", "setup", "working_dir")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of ``turnout run`` as they were typed."""

    command: tuple[str, ...]
    target: str | None
    experiment: str | None
    workspace: str | None
    name: str | None
    tags: tuple[str, ...]
    env: tuple[str, ...]
    cpus: int | None
    memory: str | None
    gpus: int | None
    time: str | None
    grace: float | None
    retry: str | None
    priority: int
    runs: int | None
    repeat: int | None
    nodes: int | None
    schedule: str
    parent_script: str | None
    held: bool
    notify: str | None
    keep_node: bool
    multi: Path | None
    concurrent: int | None
    no_snapshot: bool
    allow_secrets: tuple[str, ...]
    setup: str | None
    data: str | None
    data_action: str | None
    data_writable: bool | None
    data_local: str | None
    model: str | None
    model_action: str | None
    model_writable: bool | None
    model_local: str | None
    code_dirs: tuple[str, ...]
    code_omit: tuple[str, ...]
    working_dir: str | None
    after: tuple[str, ...]
    after_omit: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    detach: bool
    wait: bool
    dry_run: bool
    json: bool


def run(asked: Asked, how: How) -> int:
    """Gives the exit code."""
    return submit(prepare(_wish(asked), Home.from_env(), _here(), remember=not how.dry_run), how)


def submit(prepared: Prepared, how: How) -> int:
    """Hands it over, and shows it as it was asked for. Gives the exit code."""
    if how.dry_run:
        plan = _plan(prepared)
        render.print_json(plan) if how.json else _show_plan(plan)
        return 0
    client = Client()
    answer = client.submit(prepared.deliver(client))
    if how.json and (how.detach or not how.wait):
        render.print_json(answer)
        return 0
    if how.detach or prepared.spec.held:
        names = answer["runs"]
        held = f", held: `turnout release {answer['job']}` lets it go" if prepared.spec.held else ""
        print(f"{answer['job']}: " + (names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}") + held)
        return 0
    from turnout.cli import follow

    spec = prepared.spec
    code = follow.follow(client, answer, many=spec.commands > 1, how=how)
    if spec.notify == "bell" and sys.stderr.isatty():
        sys.stderr.write("\a")
    return code


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise NotFound("the current directory is gone", hint="cd to one that is there") from error


def _wish(asked: Asked) -> Wish:
    resources = Resources(
        cpus=asked.cpus, memory=ask.size(asked.memory) if asked.memory is not None else None, gpus=asked.gpus,
        seconds=ask.seconds(asked.time) if asked.time is not None else None,
    )  # fmt: skip
    return Wish(
        command=asked.command, target=asked.target, experiment=asked.experiment, workspace=asked.workspace,
        name=asked.name, tags=ask.pairs(asked.tags, "--tag"), env=ask.pairs(asked.env, "--env"), resources=resources,
        grace=asked.grace,
        retry=ask.retry(asked.retry) if asked.retry is not None else None, priority=asked.priority,
        runs=asked.runs, multi=asked.multi,
        repeat=asked.repeat, nodes=asked.nodes, schedule=Schedule(asked.schedule), parent_script=asked.parent_script,
        held=asked.held, notify=asked.notify, keep_node=asked.keep_node,
        concurrent=asked.concurrent, snapshot=not asked.no_snapshot, allow_secrets=asked.allow_secrets,
        setup=asked.setup, data=asked.data, data_action=asked.data_action, data_writable=asked.data_writable,
        data_local=asked.data_local, model=asked.model, model_action=asked.model_action,
        model_writable=asked.model_writable, model_local=asked.model_local, code_dirs=asked.code_dirs or None,
        code_omit=asked.code_omit or None, working_dir=asked.working_dir, after=asked.after or None,
        after_omit=asked.after_omit or None,
    )  # fmt: skip


def _plan(prepared: Prepared) -> dict[str, Any]:
    spec, snapshot = prepared.spec, prepared.snapshot
    need = spec.resources
    return {
        "dry_run": True, "kind": str(spec.kind), "target": spec.target, "experiment": spec.experiment,
        "workspace": spec.workspace, "name": spec.label, "runs": spec.commands,
        "commands": [list(run.argv) for run in spec.runs], "script": spec.script, "script_path": spec.script_path,
        "tags": spec.tags, "env": sorted(spec.env), "inherited_env": sorted(spec.inherited_env),
        "resources": {"cpus": need.cpus, "memory": need.memory, "gpus": need.gpus, "seconds": need.seconds},
        "retry": spec.retry.failures, "priority": spec.priority, "concurrent": spec.concurrent, "held": spec.held,
        "nodes": spec.nodes, "schedule": str(spec.schedule) if spec.nodes else None,
        "parent_script": spec.parent_script_path or spec.parent_script,
        "data": _input(spec.data), "model": _input(spec.model),
        "setup": spec.setup.name if spec.setup is not None else None, "working_dir": spec.working_dir,
        "after": list(spec.after),
        "snapshot": snapshot.digest if snapshot is not None else spec.before,
        "files": [entry.path for entry in snapshot.entries] if snapshot is not None else [],
        "file_count": len(snapshot.entries) if snapshot is not None else spec.before_files,
        "bytes": snapshot.total_bytes if snapshot is not None else spec.before_bytes,
        "git": snapshot.git if snapshot is not None else spec.git,
    }  # fmt: skip


def _input(given: Input | None) -> dict[str, Any] | None:
    return None if given is None else {
        "action": str(given.action), "share": given.share, "path": given.path, "local": given.local,
        "writable": given.writable,
    }  # fmt: skip


def _show_plan(plan: dict[str, Any]) -> None:
    count = plan["runs"]
    place = f"{plan['target']}, experiment {plan['experiment']}"
    print(f"would submit {count} run{'s' if count != 1 else ''} to {place}; nothing was changed")
    script = [plan["script_path"]] if plan["script_path"] else []
    _show_some("command", [render.shown([*script, *argv]) for argv in plan["commands"]])
    if plan["script"] is not None and plan["script_path"] is None:
        print("  script    made by turnout:")
        for line in plan["script"].splitlines():
            print(f"    {render.harmless(line)}")
    commit = f", commit {plan['git']['commit']}" if plan["git"] else ""
    print(f"  snapshot  {plan['file_count']} files, {plan['bytes']} bytes{commit}")
    _show_some("", plan["files"])
    given = f", and {', '.join(plan['env'])}" if plan["env"] else ""
    print(f"  env       {len(plan['inherited_env'])} variables of this shell{given}")
    wishes = {**plan["resources"], **{name: plan[name] for name in _SAID}}
    for name, value in wishes.items():
        if value:
            print(f"  {name:<10}{render.harmless(render.shown(value))}")


def _show_some(title: str, lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        print(f"  {title:<10}{render.harmless(line)}")
    if len(lines) > _SHOWN:
        print(f"            … and {len(lines) - _SHOWN} more")
