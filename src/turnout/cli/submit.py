"""``turnout run``: freeze, submit, show until done."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout import config as configuration
from turnout.cli import ask, render
from turnout.client import Client
from turnout.errors import NotFound
from turnout.home import Home
from turnout.model.ids import check_label
from turnout.model.spec import JobSpec, Resources

_FILES_SHOWN = 20
#: A run started from within a run is its own run.
_NOT_INHERITED = (
    "TURNOUT_RUN_",
    "TURNOUT_ATTEMPT",
    "TURNOUT_SPOOL",
    "TURNOUT_PARAMS",
    "TURNOUT_OUTPUT_DIR",
    "TURNOUT_JOB",
    "TURNOUT_NODE",
    "XT_",
)


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
    cwd = Path.cwd()
    settings = configuration.load(configuration.find_project_file(cwd))
    spec = _spec(asked, settings, cwd)
    _check_target(spec.target)
    snapshot = _capture(asked, settings, cwd) if not asked.no_snapshot else None
    if how.dry_run:
        _show_plan(spec, snapshot, how.json)
        return 0
    client = Client()
    spec = _deliver(client, spec, snapshot)
    answer = client.submit(spec)
    if how.json and (how.detach or not how.wait):
        render.print_json(answer)
        return 0
    if how.detach:
        names = answer["runs"]
        some = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        print(f"{answer['job']}: {some}")
        return 0
    from turnout.cli import follow

    return follow.follow(client, answer, many=len(spec.runs) * spec.repeat > 1, how=how)


def _spec(asked: Asked, settings: configuration.Config, cwd: Path) -> JobSpec:
    general = settings.general
    for what, label in (
        ("experiment", asked.experiment),
        ("workspace", asked.workspace),
        ("target", asked.target),
        ("run name", asked.name),
    ):
        if label is not None:
            check_label(label, what)
    what = ask.understand(list(asked.command), asked.multi, cwd)
    return JobSpec(
        kind=what.kind, display=what.display, runs=what.runs, script=what.script, script_path=what.script_path,
        repeat=asked.runs, target=asked.target or general.target, experiment=asked.experiment or general.experiment,
        workspace=asked.workspace or general.workspace, label=asked.name, tags=ask.pairs(asked.tags, "--tag"),
        env=ask.pairs(asked.env, "--env"), inherited_env=_inherited(),
        resources=Resources(
            cpus=asked.cpus, memory=ask.size(asked.memory) if asked.memory else None, gpus=asked.gpus,
            seconds=ask.seconds(asked.time) if asked.time else None,
        ),
        retry=ask.retry(asked.retry), grace=asked.grace, priority=asked.priority, concurrent=asked.concurrent,
    )  # fmt: skip


def _inherited() -> dict[str, str]:
    """This environment, for a run on this machine; what is no text or no name is left out."""
    kept: dict[str, str] = {}
    for name, value in os.environ.items():
        if not name.isidentifier() or name.startswith(_NOT_INHERITED):
            continue
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            continue
        kept[name] = value
    return kept


def _check_target(name: str) -> None:
    """An unknown target is told before anything is captured."""
    known = configuration.load(Home.from_env().config_file).targets
    if name not in known:
        raise NotFound(f"no target {name!r}", hint=f"known targets: {', '.join(sorted(known))}")


def _capture(asked: Asked, settings: configuration.Config, cwd: Path) -> Any:
    from turnout.snapshot import Limits, capture

    code = settings.code
    limits = Limits(file_bytes=code.max_file_size, total_bytes=code.max_total_size, files=code.max_files)
    return capture(cwd, cache=Home.from_env().stat_cache, limits=limits, allow_secrets=asked.allow_secrets)


def _deliver(client: Client, spec: JobSpec, snapshot: Any) -> JobSpec:
    from dataclasses import replace

    from turnout.snapshot import deliver

    if snapshot is None or not snapshot.entries:
        return spec if snapshot is None else replace(spec, git=snapshot.git)
    kept = deliver(snapshot, client)
    return replace(spec, before=kept.digest, before_files=kept.files, before_bytes=kept.total_bytes, git=kept.git)


def _show_plan(spec: JobSpec, snapshot: Any, json: bool) -> None:
    files = [entry.path for entry in snapshot.entries] if snapshot is not None else []
    plan: dict[str, Any] = {
        "dry_run": True, "kind": str(spec.kind), "target": spec.target, "experiment": spec.experiment,
        "workspace": spec.workspace, "name": spec.label, "runs": len(spec.runs) * spec.repeat,
        "commands": [list(run.argv) for run in spec.runs], "script": spec.script, "script_path": spec.script_path,
        "tags": spec.tags, "env": sorted(spec.env), "inherited_env": sorted(spec.inherited_env),
        "resources": {name: getattr(spec.resources, name) for name in ("cpus", "memory", "gpus", "seconds")},
        "snapshot": snapshot.digest if snapshot is not None else None, "files": files,
        "bytes": snapshot.total_bytes if snapshot is not None else 0, "git": snapshot.git if snapshot is not None else None,
    }  # fmt: skip
    if json:
        render.print_json(plan)
        return
    print(
        f"would submit {plan['runs']} run{'s' if plan['runs'] != 1 else ''} to {spec.target}, experiment {spec.experiment}; nothing was changed"
    )
    for run in spec.runs[:_FILES_SHOWN]:
        print(f"  command   {render.shown([*([spec.script_path] if spec.script_path else []), *run.argv])}")
    if len(spec.runs) > _FILES_SHOWN:
        print(f"            … and {len(spec.runs) - _FILES_SHOWN} more")
    if spec.script is not None:
        print(f"  script    {spec.script_path or 'made by turnout:'}")
        if spec.script_path is None:
            for line in spec.script.splitlines():
                print(f"    {line}")
    print(
        f"  snapshot  {len(files)} files, {plan['bytes']} bytes"
        + (f", commit {plan['git']['commit']}" if plan["git"] else "")
    )
    for path in files[:_FILES_SHOWN]:
        print(f"    {render.harmless(path)}")
    if len(files) > _FILES_SHOWN:
        print(f"    … and {len(files) - _FILES_SHOWN} more")
    print(
        f"  env       {len(spec.inherited_env)} variables of this shell"
        + (f", and {', '.join(sorted(spec.env))}" if spec.env else "")
    )
    for name, value in plan["resources"].items():
        if value is not None:
            print(f"  {name:<9} {value}")
