"""``turnout run``: freeze, submit, show until done."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from turnout.cli import render
from turnout.cli.searched import Searched
from turnout.client import Client, ask
from turnout.client.preparing import Prepared, Wish, prepare
from turnout.errors import InvalidInput
from turnout.home import Home, current_directory
from turnout.model.spec import Resources, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Searched):
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
    gpu_memory: str | None
    time: str | None
    grace: float | None
    retry: str | None
    priority: int
    repeat: int | None
    nodes: int | None
    parent_script: str | None
    held: bool
    notify: str | None
    keep_node: bool
    direct_run: bool
    multi: Path | None
    concurrent: int | None
    no_snapshot: bool
    allow_secrets: tuple[str, ...]
    setup: str | None
    docker: str | None
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
    if asked.command and asked.command[0].endswith((".yaml", ".yml")):
        from turnout.cli import searches

        return searches.run(asked.command, _wish(asked), asked, how)
    typed, wish = asked, _wish(asked)
    if typed.is_search:
        wish = replace(wish, search=typed.wish())
    else:
        typed.check_unused()
    return submit(prepare(wish, Home.from_env(), current_directory(), remember=not how.dry_run), how)


def submit(prepared: Prepared, how: How) -> int:
    """Hands it over, and shows it as it was asked for. Gives the exit code."""
    if how.detach and how.wait:
        raise InvalidInput("--detach and --wait exclude each other", hint="leave one of them out")
    if how.dry_run:
        from turnout.cli import plan
        from turnout.client.rehearsing import rehearse

        notes = rehearse(prepared, Home.from_env())
        render.print_json(plan.as_json(prepared, notes)) if how.json else plan.show(prepared, notes)
        return 0
    client = Client()
    answer = client.submit(prepared.deliver(client))
    if how.json and (how.detach or not how.wait):
        render.print_json(answer)
        return 0
    if how.detach or (prepared.spec.held and not how.wait):
        names = answer["runs"]
        held = f", held: `turnout release {answer['job']}` lets it go" if prepared.spec.held else ""
        print(f"{answer['job']}: " + (names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}") + held)
        return 0
    from turnout.cli import follow

    spec = prepared.spec
    many = spec.commands > 1 or spec.search is not None
    code = follow.follow(client, answer, many=many, is_search=spec.search is not None, how=how)
    if spec.notify == "bell" and sys.stderr.isatty():
        sys.stderr.write("\a")
    return code


def _wish(asked: Asked) -> Wish:
    resources = Resources(
        cpus=asked.cpus, memory=ask.size(asked.memory) if asked.memory is not None else None, gpus=asked.gpus,
        gpu_memory=ask.size(asked.gpu_memory) if asked.gpu_memory is not None else None,
        seconds=ask.seconds(asked.time) if asked.time is not None else None,
    )  # fmt: skip
    targets = asked.target.split(",") if asked.target is not None else [None]
    return Wish(
        command=asked.command, target=targets[0], also=tuple(filter(None, targets[1:])),
        experiment=asked.experiment, workspace=asked.workspace,
        name=asked.name, tags=ask.pairs(asked.tags, "--tag"), env=ask.pairs(asked.env, "--env"), resources=resources,
        grace=asked.grace,
        retry=ask.retry(asked.retry) if asked.retry is not None else None, priority=asked.priority,
        runs=asked.runs, multi=asked.multi, repeat=asked.repeat, nodes=asked.nodes,
        schedule=Schedule(asked.schedule or "dynamic"), parent_script=asked.parent_script,
        held=asked.held, notify=asked.notify, keep_node=asked.keep_node, direct=asked.direct_run,
        concurrent=asked.concurrent, snapshot=not asked.no_snapshot, allow_secrets=asked.allow_secrets,
        setup=asked.setup, docker=asked.docker,
        data=asked.data, data_action=asked.data_action, data_writable=asked.data_writable,
        data_local=asked.data_local, model=asked.model, model_action=asked.model_action,
        model_writable=asked.model_writable, model_local=asked.model_local, code_dirs=asked.code_dirs or None,
        code_omit=asked.code_omit or None, working_dir=asked.working_dir, after=asked.after or None,
        after_omit=asked.after_omit or None,
    )  # fmt: skip
