"""What the commands about searches do."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli import submit as submitting
from turnout.cli.searched import Searched, searched
from turnout.cli.spaces import in_words
from turnout.cli.submit import How
from turnout.client import Client, ask, searching
from turnout.client.overriding import overridden
from turnout.client.preparing import Wish, prepare
from turnout.client.search_file import JobFile, from_file
from turnout.errors import InvalidInput
from turnout.home import Home, current_directory
from turnout.model.state import TERMINAL
from turnout.terminal import ProgressLine

_BAR = 25
_GLANCE, _GLANCES = 0.05, 40


def run(command: Sequence[str], typed: Wish, search: Searched, how: How) -> int:
    """``turnout run FILE.yaml``. Gives the exit code."""
    file = command[0]
    if len(command) > 1:
        hint = f"`turnout search {file} -- COMMAND` gives it another command"
        raise InvalidInput(f"{command[1]!r} stands behind the job file {file}", hint=hint)
    content = _read(file)
    if not content.keys() & {"command", "search"}:
        hint = f"write one, or search what is in it: turnout run --hp-config {file} --search-type NAME COMMAND"
        raise InvalidInput(f"{file} is no job file: it has no `command:`", hint=hint)
    made = _made(current_directory() / file, content, replace(typed, command=()), search)
    if made.wish.search is None:
        search.check_unused()
    return _submit(made, how)


def submit(file: Path, command: tuple[str, ...], options: dict[str, Any]) -> int:
    """``turnout search FILE``. Gives the exit code."""
    targets = options["target"].split(",") if options["target"] else [None]
    typed = Wish(
        command=command, target=targets[0], also=tuple(filter(None, targets[1:])), experiment=options["experiment"],
        name=options["name"], tags=ask.pairs(options["tags"], "--tag"), concurrent=options["concurrent"],
        held=options["held"], snapshot=not options["no_snapshot"], allow_secrets=options["allow_secrets"],
    )  # fmt: skip
    made = _made(current_directory() / file, _read(file), typed, searched(options))
    if made.wish.search is None:
        raise InvalidInput(f"{file.name} has no `search:`", hint="write it there, or use `turnout run`")
    return _submit(made, How(**{name: options[name] for name in ("detach", "wait", "dry_run", "json")}))


def _made(path: Path, content: dict[str, Any], typed: Wish, search: Searched) -> JobFile:
    """What the file asks for; what was typed wins."""
    found = from_file(content, path, typed.command)
    wish = overridden(found.wish, typed, search.wish())
    if wish.search is None and search.is_search:
        wish = replace(wish, search=search.wish())
    if not wish.command:
        hint = f"write it there, or type `turnout search {path.name} -- COMMAND`"
        raise InvalidInput(f"{path.name} has no `command:`", hint=hint)
    return replace(found, wish=wish)


def _submit(made: JobFile, how: How) -> int:
    code = made.code or current_directory()
    return submitting.submit(prepare(made.wish, Home.from_env(), code, remember=not how.dry_run), how)


def _read(file: str | Path) -> dict[str, Any]:
    """What the file asks for, also of one that was written for NNI: what that means here is said."""
    path = current_directory() / file
    content = searching.read_mapping(path)
    if isinstance(content.get("pipeline"), dict) and "steps" in content["pipeline"]:
        raise InvalidInput(f"{path.name} is a pipeline", hint=f"`turnout pipeline {file}` runs it")
    if "command" in content or "search" in content:
        return content
    from turnout.compat.nni import files

    if not files.is_nni(content):
        return content
    try:
        translated = files.from_nni(content, path.parent)
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error.message}", hint=error.hint) from error
    for note in translated.pop("notes"):
        print(f"{path.name}: {note}", file=sys.stderr)
    return translated


def extension(runs: str | None, max_time: str | None, concurrent: int | None) -> dict[str, Any]:
    """What ``turnout extend`` was asked for."""
    if runs is None and max_time is None and concurrent is None:
        raise InvalidInput("say what it may use", hint="--runs +50, --max-time +1h, or --concurrent 8")
    more = {text.startswith("+") for text in (runs, max_time) if text is not None}
    if len(more) > 1:
        raise InvalidInput("one with +, one without", hint="write + before both, or before none")
    asked: dict[str, Any] = {"concurrent": concurrent, "more": True in more}
    if runs is not None:
        number = runs.removeprefix("+")
        if not (number.isascii() and number.isdigit() and int(number)):
            raise InvalidInput(f"--runs {runs!r} is no number of runs", hint="write --runs +50, or --runs 200")
        asked["runs"] = int(number)
    if max_time is not None:
        asked["seconds"] = searching.seconds(max_time.removeprefix("+"), "--max-time")
    return asked


def change(job: str, asked: dict[str, Any], json: bool) -> None:
    view = Client().change_search(job, **asked)
    render.print_json(view) if json else print(standing(view))


def best(job: str, most: int, json: bool) -> None:
    views = Client().best(job, most)
    if json:
        render.print_json(views)
        return
    search = Client().search(job)
    if not views:
        why = (
            "no run has told its objective yet" if search["aims"] else "it has no objective: give it --minimize METRIC"
        )
        print(f"{search['job']}: {why}")
        return
    metrics = [aim["metric"] for aim in search["aims"]]
    rows = [[view["run"] or "imported", *map(_short, view["values"]), _params(view)] for view in views]
    render.table(["run", *metrics, "params"], rows)


def standing(view: dict[str, Any]) -> str:
    """A search in one line."""
    counts = view["counts"]
    over = sum(counts.get(state, 0) for state in TERMINAL)
    bad = [f"{counts[state]} {state}" for state in ("failed", "stopped", "cancelled") if counts.get(state)]
    named = f"{over} of {view['runs']} runs" if view["runs"] else render.count(over, "run")
    parts = [f"{named} over" + (f" ({', '.join(bad)})" if bad else "")]
    parts += [f"{counts['live']} under way"] if counts["live"] else []
    parts += [f"best {_best(view)}"] if view["best"] else []
    if view["state"] != "active" and not (view["runs"] and over >= view["runs"]):
        parts.append(("paused: " if view["state"] == "paused" else "") + view["message"])
    return render.harmless(f"{view['job']}: {'; '.join(parts)}")


def _best(view: dict[str, Any]) -> str:
    top = view["best"][0]
    named = " ".join(f"{aim['metric']}={_short(value)}" for aim, value in zip(view["aims"], top["values"], strict=True))
    return f"{top['run'] or 'imported'} {named} ({_params(top)})"


def described(view: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What ``turnout show JOB`` tells of a search besides, with titles."""
    yield "search", standing(view).partition(": ")[2]
    yield "sampler", _with_options(view["sampler"], view["sampler_options"]) + f", seed {view['seed']}"
    if view["stopper"]:
        yield "stopper", _with_options(view["stopper"], view["stopper_options"])
    if view["aims"]:
        yield "objectives", ", ".join(_objective(aim) for aim in view["aims"])
    if view["concurrent"]:
        yield "concurrent", str(view["concurrent"])
    if view["deadline"]:
        yield "deadline", view["deadline"]
    if len(view["targets"]) > 1:
        yield "targets", " ".join(view["targets"])
    yield from (("parameter", f"{name}: {text}") for name, text in in_words(view["space"]))


def _objective(aim: dict[str, Any]) -> str:
    return f"{aim['goal']} {aim['metric']}" + (f" ({aim['of']})" if aim["of"] != "last" else "")


def _with_options(name: str, options: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={_short(value)}" for key, value in options.items())])


def follow(client: Client, job: str) -> dict[str, Any]:
    """Shows how it goes until it is over: a line that is drawn anew on a terminal, elsewhere one at the end."""
    line, began, is_told = ProgressLine(job), time.monotonic(), False
    try:
        while (view := client.job_wait(job, seconds=0.3 if sys.stderr.isatty() else 2.0))["state"] not in TERMINAL:
            search = client.search(job)
            if search["state"] == "paused" and not is_told:
                line.clear()
                render.complain(f"{job} is paused: {search['message']}", f"`turnout resume {job}` lets it go on")
            is_told = search["state"] == "paused"
            if line.is_due():
                over = sum(search["counts"].get(state, 0) for state in TERMINAL)
                text = standing(search).partition(": ")[2]
                line.show(over / search["runs"] if search["runs"] else None, text[: _room(job)])
    finally:
        line.clear()
    print(f"{standing(_settled(client, job))}; in {render.span(time.monotonic() - began)}")
    return view


def _room(job: str) -> int:
    """How much text has its place in a line, beside the bar."""
    return max(10, shutil.get_terminal_size().columns - len(job) - _BAR)


def _settled(client: Client, job: str) -> dict[str, Any]:
    """The search of a job that is over, once it says so itself, which is a moment later."""
    for _ in range(_GLANCES):
        search = client.search(job)
        if search["state"] == "over":
            break
        time.sleep(_GLANCE)
    return search


def _params(view: dict[str, Any]) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in searching.flat(view["params"]))


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else render.harmless(str(value))
