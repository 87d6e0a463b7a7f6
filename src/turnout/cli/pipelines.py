"""What ``turnout pipeline`` does."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli.board import Board
from turnout.cli.follow import complain_of, telling_why
from turnout.cli.standing import counted
from turnout.client import Client, ask, plan_text
from turnout.client.pipeline_file import from_file, overridden
from turnout.client.pipelines import PipelineWish, prepare_pipeline
from turnout.errors import Conflict
from turnout.home import Home, current_directory
from turnout.model.ids import check_label
from turnout.model.state import TERMINAL
from turnout.pipeline.plan import Plan

_MOST_NAMES = 12
_PATIENCE = 4.0  # times what it takes to see how a pipeline stands


def submit(file: Path, options: Mapping[str, Any]) -> int:
    """Gives the exit code."""
    typed = {
        "target": options["target"] or options["job_type"], "job_type": options["job_type"],
        "allow_secrets": options["allow_secrets"] or None, "snapshot": False if options["no_snapshot"] else None,
    }  # fmt: skip
    here = current_directory()
    shared = None if options["shared"] is None else here / options["shared"]
    made = overridden(from_file(here / file, shared), **typed, experiment=options["experiment"])
    for note in made.plan.notes:
        print(note if note.startswith(f"{file.name}:") else f"{file.name}: {note}", file=sys.stderr)
    if options["graph"] is not None:
        from turnout.cli import graphs

        sys.stdout.write(graphs.draw(made.plan, options["graph"]))
        return 0
    if options["name"] is not None:
        check_label(options["name"], "name")
    wish = PipelineWish(
        plan=made.plan, steps=made.steps, display=("turnout", "pipeline", str(file)),
        name=options["name"] or made.name, tags={**made.tags, **ask.pairs(options["tags"], "--tag")},
        notify=made.notify, fail_fast=options["fail_fast"], shared=made.shared, resume=options["resume"],
        where=made.where,
    )  # fmt: skip
    prepared = prepare_pipeline(wish, Home.from_env(), made.code, remember=not options["dry_run"])
    if options["dry_run"]:
        render.print_json(_as_json(made.plan)) if options["json"] else _show(made.plan)
        return 0
    queue = _queue(options["queue"])
    client = Client()
    answer = client.submit_pipeline(prepared.deliver(client))
    if options["resume"] is not None:
        told = render.count(answer["carried"], "run")
        print(f"{answer['job']}: {told} taken over from {options['resume']} so far", file=sys.stderr)
    if options["detach"]:
        render.print_json(answer) if options["json"] else print(f"{answer['job']}: {_in_words(made.plan)}")
        return 0
    return _follow(client, answer["job"], json=options["json"], queue=queue, plan=made.plan)


def is_one(job: str) -> bool:
    """Conflict for a step of one: it goes on with the others, unless it is a search."""
    view = Client().job(job)
    whole = view["pipeline"]
    if whole is not None and view["search"] is None:
        hint = f"`turnout resume {whole}` does what is missing in all of it"
        raise Conflict(f"{job} is the step {view['step']} of {whole}", hint=hint)
    return bool(view["steps"])


def resume(job: str, *, detach: bool, json: bool) -> int:
    """Gives the exit code."""
    client = Client()
    answer = client.resume_pipeline(job)
    job, steps = answer["job"], answer["steps"]
    is_told = detach or not steps
    if not (is_told and json):
        print(f"{job}: {_resumed(client, job, steps)}", file=sys.stdout if is_told else sys.stderr)
    for step in answer["later"]:
        hint = f"when that is over, type `turnout resume {job}` once more"
        print(f"{job}: {step} stays as it is, for something that is under way needs it; {hint}", file=sys.stderr)
    if is_told:
        if json:
            render.print_json(answer)
        return 0
    return _follow(client, job, json=json)


def _resumed(client: Client, job: str, steps: Mapping[str, Sequence[str]]) -> str:
    if steps:
        more = f" and {len(steps) - _MOST_NAMES} more" if len(steps) > _MOST_NAMES else ""
        names = ", ".join(list(steps)[:_MOST_NAMES])
        return f"{render.count(sum(map(len, steps.values())), 'run')} again, of {names}{more}"
    view = client.job(job)
    if view["live"]:
        return "it is under way, and nothing has failed so far"
    return f"nothing is missing: {counted(view['counts'])}"


def _in_words(plan: Plan) -> str:
    runs = sum(len(step.runs) for step in plan.steps)
    more = " and more" if any(step.is_late for step in plan.steps) else ""
    return f"{render.count(len(plan.steps), 'step')}, {render.count(runs, 'run')}{more}"


def _queue(path: str | None) -> Any:
    if path is None:
        return None
    from turnout.cli import queued

    return queued.load(path)


def _follow(client: Client, job: str, *, json: bool, queue: Any = None, plan: Plan | None = None) -> int:
    try:
        if queue is not None and plan is not None:
            from turnout.cli import queued

            view = queued.follow(client, job, plan, queue, json=json)
        elif json:
            view = client.wait(job)
        else:
            with telling_why(job):
                view = _watch(client, job)
    except KeyboardInterrupt:
        print(f"\n{job} goes on; `turnout attach {job}` waits for it, `turnout cancel job {job}` ends it")
        return 130
    if json:
        render.print_json(view)
    return 0 if view["state"] == "completed" else 1


def _watch(client: Client, job: str) -> dict[str, Any]:
    """In a terminal its steps are drawn anew; elsewhere each is told of when it is over. Of very many steps, each view
    takes a second or more, most of it the hub's: then there are fewer."""
    print(job, file=sys.stderr)
    board = Board() if sys.stderr.isatty() else None
    began, told = time.monotonic(), set[str]()
    least = pause = 0.3 if board else 2.0
    asked = began
    try:
        while (view := client.job_wait(job, seconds=pause))["state"] not in TERMINAL:
            pause = max(least, _PATIENCE * (time.monotonic() - asked - pause))
            if board is not None:
                board.show(view, time.monotonic() - began)
            else:
                _tell_steps(view, told)
            asked = time.monotonic()
    finally:
        if board is not None:
            board.clear()
    _tell_steps(view, told)
    print(f"{job} {view['state']}: {counted(view['counts'])}, in {render.span(time.monotonic() - began)}")
    if view["state"] != "completed":
        hint = f"`turnout why {job}` tells more, `turnout resume {job}` tries again"
        complain_of(client, view, "not all steps are done", hint)
    return view


def _tell_steps(view: Mapping[str, Any], told: set[str]) -> None:
    """A line for each that is over, once."""
    width = max(20, *(render.width(step["name"]) for step in view["steps"]))
    for step in view["steps"]:
        if step["name"] not in told and not step["is_late"] and step["runs"] and not step["live"]:
            told.add(step["name"])
            print(f"{step['name']:<{width}} {counted(step['counts'])}")


# --- before it begins -------------------------------------------------------------------------------------------------


def _show(plan: Plan) -> None:
    for line in plan_text.lines(plan):
        print(render.harmless(line))


def _as_json(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "step": step.name, "needs": plan_text.waits_for(step), "needs_all_of": list(step.needs),
            "is_late": step.is_late, "when": step.when,
            "runs": [
                {
                    "label": run.label, "command": list(run.argv), "values": dict(run.values),
                    "inputs": list(run.inputs), "outputs": list(run.outputs),
                    "needs": [f"{place.step}:{place.run}" for place in run.needs],
                }
                for run in step.runs
            ],
        }
        for step in plan.steps
    ]  # fmt: skip
