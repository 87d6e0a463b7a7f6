"""``turnout run``: freeze, submit, show until done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client, ask
from turnout.client.preparing import Prepared, Wish, prepare
from turnout.errors import NotFound
from turnout.home import Home
from turnout.model.spec import Resources

_SHOWN = 20


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
    grace: float
    retry: str
    priority: int
    runs: int
    multi: Path | None
    concurrent: int | None
    no_snapshot: bool
    allow_secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    detach: bool
    wait: bool
    dry_run: bool
    json: bool


def run(asked: Asked, how: How) -> int:
    """Gives the exit code."""
    prepared = prepare(_wish(asked), Home.from_env(), _here(), remember=not how.dry_run)
    if how.dry_run:
        plan = _plan(prepared)
        render.print_json(plan) if how.json else _show_plan(plan)
        return 0
    client = Client()
    answer = client.submit(prepared.deliver(client))
    if how.json and (how.detach or not how.wait):
        render.print_json(answer)
        return 0
    if how.detach:
        names = answer["runs"]
        print(f"{answer['job']}: " + (names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"))
        return 0
    from turnout.cli import follow

    spec = prepared.spec
    return follow.follow(client, answer, many=len(spec.runs) * spec.repeat > 1, how=how)


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
        grace=asked.grace, retry=ask.retry(asked.retry), priority=asked.priority, runs=asked.runs, multi=asked.multi,
        concurrent=asked.concurrent, snapshot=not asked.no_snapshot, allow_secrets=asked.allow_secrets,
    )  # fmt: skip


def _plan(prepared: Prepared) -> dict[str, Any]:
    spec, snapshot = prepared.spec, prepared.snapshot
    need = spec.resources
    return {
        "dry_run": True, "kind": str(spec.kind), "target": spec.target, "experiment": spec.experiment,
        "workspace": spec.workspace, "name": spec.label, "runs": len(spec.runs) * spec.repeat,
        "commands": [list(run.argv) for run in spec.runs], "script": spec.script, "script_path": spec.script_path,
        "tags": spec.tags, "env": sorted(spec.env), "inherited_env": sorted(spec.inherited_env),
        "resources": {"cpus": need.cpus, "memory": need.memory, "gpus": need.gpus, "seconds": need.seconds},
        "retry": spec.retry.failures, "priority": spec.priority, "concurrent": spec.concurrent,
        "snapshot": snapshot.digest if snapshot is not None else None,
        "files": [entry.path for entry in snapshot.entries] if snapshot is not None else [],
        "bytes": snapshot.total_bytes if snapshot is not None else 0,
        "git": snapshot.git if snapshot is not None else None,
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
    print(f"  snapshot  {len(plan['files'])} files, {plan['bytes']} bytes{commit}")
    _show_some("", plan["files"])
    given = f", and {', '.join(plan['env'])}" if plan["env"] else ""
    print(f"  env       {len(plan['inherited_env'])} variables of this shell{given}")
    wishes = {**plan["resources"], **{name: plan[name] for name in ("name", "tags", "retry", "priority", "concurrent")}}
    for name, value in wishes.items():
        if value:
            print(f"  {name:<10}{render.harmless(render.shown(value))}")


def _show_some(title: str, lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        print(f"  {title:<10}{render.harmless(line)}")
    if len(lines) > _SHOWN:
        print(f"            … and {len(lines) - _SHOWN} more")
