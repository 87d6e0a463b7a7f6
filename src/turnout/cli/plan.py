"""``--dry-run``: what would be submitted, in words or as JSON. Values of variables are in neither."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from typing import Any

from turnout.cli import render
from turnout.cli.progress import size
from turnout.cli.spaces import in_words
from turnout.client import searching
from turnout.client.preparing import Prepared
from turnout.model.inputs import Action, Input
from turnout.model.measures import write_size
from turnout.model.search import Search
from turnout.model.spec import CommandKind, JobSpec, RunSpec

_MOST_LINES = 20
_MADE_OF = {Action.NONE: "", Action.DOWNLOAD: ", a copy for each run", Action.MOUNT: ", a read-only view"}
_ARGUMENTS = "$RUN_ARGS$"


def as_json(prepared: Prepared, notes: list[str]) -> dict[str, Any]:
    """`notes` tell what could not be looked at."""
    spec, snapshot = prepared.spec, prepared.snapshot
    return {
        "dry_run": True, "kind": str(spec.kind), "target": spec.target, "experiment": spec.experiment,
        "workspace": spec.workspace, "name": spec.label, "runs": _runs(spec),
        "search": dataclasses.asdict(spec.search) if spec.search is not None else None,
        "commands": [list(run.argv) for run in spec.runs], "script": spec.script, "script_path": spec.script_path,
        "tags": spec.tags, "env": sorted(spec.env), "inherited_env": sorted(spec.inherited_env),
        "resources": dataclasses.asdict(spec.resources), "retry": spec.retry.failures, "priority": spec.priority,
        "concurrent": spec.concurrent, "held": spec.held, "direct": spec.direct, "nodes": spec.nodes,
        "schedule": str(spec.schedule) if spec.nodes else None,
        "parent_script": spec.parent_script_path or spec.parent_script, "data": _input(spec.data),
        "model": _input(spec.model), "setup": spec.setup.name if spec.setup is not None else None,
        "docker": spec.container.image if spec.container is not None else None,
        "working_dir": spec.working_dir, "after": list(spec.after),
        "snapshot": snapshot.digest if snapshot is not None else spec.before,
        "files": [entry.path for entry in snapshot.entries] if snapshot is not None else [],
        "file_count": len(snapshot.entries) if snapshot is not None else spec.before_files,
        "bytes": snapshot.total_bytes if snapshot is not None else spec.before_bytes,
        "git": snapshot.git if snapshot is not None else spec.git,
        "notes": notes,
        "spec": _whole(spec),
    }  # fmt: skip


def _runs(spec: JobSpec) -> int | None:
    """How many there will be; None = nobody knows yet."""
    return spec.commands if spec.search is None else searching.size(spec.search)


def _whole(spec: JobSpec) -> dict[str, Any]:
    """Every field, but of variables only their names."""
    unseen = dataclasses.replace(spec, env={}, inherited_env={})
    names = {"env": sorted(spec.env), "inherited_env": sorted(spec.inherited_env)}
    return {**dataclasses.asdict(unseen), **names}


def _input(given: Input | None) -> dict[str, Any] | None:
    return None if given is None else {
        "action": str(given.action), "share": given.share, "path": given.path, "local": given.local,
        "writable": given.writable,
    }  # fmt: skip


def show(prepared: Prepared, notes: list[str]) -> None:
    spec, runs = prepared.spec, _runs(prepared.spec)
    many = render.count(runs, "run") if runs is not None else "any number of runs"
    what = many if spec.search is None else f"a search of {many}"
    targets = ", ".join([spec.target, *(name for name, *_ in prepared.others)])
    print(f"would submit {what} to {targets}, experiment {spec.experiment}; nothing was changed")
    for title, text in _lines(prepared):
        print(f"  {title:<10}{render.harmless(text)}")
    for note in notes:
        print(f"  {'note':<10}{render.harmless(note)}")


def _lines(prepared: Prepared) -> Iterator[tuple[str, str]]:
    spec, snapshot = prepared.spec, prepared.snapshot
    yield from _some("command", [_command(spec, run) for run in spec.runs])
    if spec.search is not None:
        yield from _search(spec.search)
    if spec.script is not None and spec.script_path is None:
        yield "script", "made by turnout:"
        yield from (("", line) for line in spec.script.splitlines())
    if snapshot is not None or spec.before is not None:
        files, total = spec.before_files, spec.before_bytes
        git, paths = spec.git, []
        if snapshot is not None:
            files, total, git = len(snapshot.entries), snapshot.total_bytes, snapshot.git
            paths = [entry.path for entry in snapshot.entries]
        commit = f", commit {git['commit']}" if git else ""
        yield "snapshot", f"{render.count(files, 'file')}, {size(total)}{commit}"
        yield from _some("", paths)
    else:
        yield "snapshot", "none"
    given = f", and {', '.join(sorted(spec.env))}" if spec.env else ""
    yield "env", f"{render.count(len(spec.inherited_env), 'variable')} of this shell{given}"
    for title, text in _wishes(spec).items():
        if text:
            yield title, text


def _search(search: Search) -> Iterator[tuple[str, str]]:
    yield "sampler", " ".join([search.sampler, *_options(search.sampler_options)]) + f", seed {search.seed}"
    yield from _some("parameter", [f"{name}: {text}" for name, text in in_words(search.space)])
    if search.aims:
        yield "objective", ", ".join(f"{aim.goal} {aim.metric}" for aim in search.aims)
    if search.stopper is not None:
        yield "stopper", " ".join([search.stopper, *_options(search.stopper_options)])
    if search.seconds is not None:
        yield "time", f"{render.span(search.seconds)} for all of it"
    if search.whole:
        yield "runs", "are all made when it is submitted"


def _options(given: dict[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in given.items()]


def _command(spec: JobSpec, run: RunSpec) -> str:
    """As it will be executed, with its interpreter."""
    if spec.kind is CommandKind.PYTHON and spec.script is not None:
        line = spec.script.splitlines()[-1].removeprefix("exec ")
        return line.replace(_ARGUMENTS, shlex.join(run.argv)).rstrip()
    return shlex.join([spec.script_path, *run.argv] if spec.script_path is not None else run.argv)


def _wishes(spec: JobSpec) -> dict[str, str]:
    """What was asked for beside the command; empty where nothing was."""
    need = spec.resources
    nodes = f"{spec.nodes}, {render.count(spec.commands, 'run')} dealt out {spec.schedule}ally" if spec.nodes else ""
    return {
        "workspace": spec.workspace if spec.workspace != "default" else "",
        "name": spec.label or "",
        "tags": render.shown(spec.tags),
        "cpus": render.shown(need.cpus),
        "memory": write_size(need.memory) if need.memory else "",
        "gpus": "not managed" if need.sees_gpus and need.gpus is None else render.shown(need.gpus),
        "GPU memory": write_size(need.gpu_memory) if need.gpu_memory else "",
        "time": render.span(need.seconds) if need.seconds else "",
        "retry": str(spec.retry.failures or ""),
        "priority": str(spec.priority or ""),
        "at once": f"{spec.concurrent}{'' if spec.search else ' per node'}" if spec.concurrent else "",
        "nodes": nodes,
        "parent": f"{spec.parent_script_path or 'a script of ours'}, once on each node" if spec.parent_script else "",
        "data": _words(spec.data),
        "model": _words(spec.model),
        "setup": spec.setup.name if spec.setup is not None else "",
        "docker": spec.container.image if spec.container is not None else "",
        "begins in": spec.working_dir,
        "keeps": ", ".join(spec.after) if spec.after != ("output/**",) else "",
        "held": "until `turnout release`" if spec.held else "",
        "node": "stays until it is released" if spec.keep_node else "",
        "started": "each by itself" if spec.direct else "",
        "notify": spec.notify or "",
    }


def _words(given: Input | None) -> str:
    if given is None:
        return ""
    if given.action is Action.NONE:
        return f"the directory {given.local}"
    where = f"{given.share}/{given.path}" if given.path else str(given.share)
    return f"share {where}{_MADE_OF[given.action]}{', which it may change' if given.writable else ''}"


def _some(title: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    yield from ((title, line) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield "", f"… and {len(lines) - _MOST_LINES} more"
