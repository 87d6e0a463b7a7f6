"""``turnout status``: how runs stand, as turnout knows it, or as the service tells it that has them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.client.lists import each_page
from turnout.client.services import StatusWish
from turnout.errors import InvalidInput, NotFound
from turnout.home import current_directory
from turnout.model.ids import is_job_name
from turnout.model.state import LIVE, STAGES, TERMINAL

View = dict[str, Any]
_SHOWN = 50
_PAUSE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    name: str | None
    target: str | None
    job: str | None
    workspace: str | None
    monitor: bool
    escape_secs: float | None
    auto_start: bool
    stages: tuple[str, ...]
    state: str | None
    max_finished: int | None

    @property
    def is_plain(self) -> bool:
        """Whether nothing at all is asked for."""
        return self == Asked(
            name=None, target=None, job=None, workspace=None, monitor=False, escape_secs=None, auto_start=False,
            stages=(), state=None, max_finished=None,
        )  # fmt: skip


def status(asked: Asked, json: bool) -> None:
    if asked.monitor and json:
        raise InvalidInput("--monitor and --json exclude each other", hint="leave one of them out")
    client = Client()
    if asked.name is not None:
        asked = replace(asked, name=client.meant(asked.name))
    if asked.name is not None and is_job_name(asked.name) and asked.job is None:
        asked = replace(asked, job=asked.name)
    told = _service(Client(), asked)  # a client of its own: it is busy until all is told
    if json:
        _print_json(client, asked, told)
    elif told is not None:
        if asked.name is not None or client.runs(_filters(asked), limit=1):
            _show(client, asked)
        _pour(told)
    elif asked.monitor:
        _monitor(client, asked)
    else:
        _show(client, asked)


def _service(client: Client, asked: Asked) -> Iterator[str] | None:
    """What the service says that is meant, if it is one that does."""
    wish = StatusWish(
        place=_place(client, asked.target), run=None if asked.name == asked.job else asked.name, job=asked.job,
        workspace=asked.workspace or "", monitor=asked.monitor, seconds=asked.escape_secs, start=asked.auto_start,
        stages=asked.stages, state=asked.state, most_finished=asked.max_finished,
    )  # fmt: skip
    if wish.place is None and wish.run is None and wish.job is None:
        return None
    return client.service_status(wish)


def _place(client: Client, target: str | None) -> str | None:
    """None where no target is named, or it is one that only turnout knows about. NotFound for one that nobody does."""
    if target is None:
        return None
    from turnout.config import settings_at

    settings = settings_at(current_directory())
    if target not in settings.targets:
        known = sorted({*settings.targets, *client.targets()})
        if target in known:
            return None
        raise NotFound(f"no target {target!r}", hint=f"known targets: {', '.join(known)}")
    return str(client.define_target(target, settings.resolved(target))["place"])


def _pour(told: Iterator[str]) -> None:
    try:
        for piece in told:
            sys.stdout.write("\n".join(map(render.harmless, piece.split("\n"))))
            sys.stdout.flush()
    except KeyboardInterrupt:
        print()


def _print_json(client: Client, asked: Asked, told: Iterator[str] | None) -> None:
    text = None if told is None else "".join(told)
    if asked.name is not None:
        view = client.job(asked.name) if asked.name == asked.job else client.run(asked.name)
        render.print_json(view if text is None else {**view, "service_text": text})
        return
    views = _views(client, asked)
    render.print_json(views if text is None else {"target": asked.target, "runs": views, "service_text": text})


def _show(client: Client, asked: Asked) -> None:
    if asked.name is None:
        _table(client, asked)
        return
    view = client.job(asked.name) if asked.name == asked.job else client.run(asked.name)
    state = render.coloured(view["state"], view["state"])
    counts = view.get("counts")
    detail = ", ".join(f"{count} {key}" for key, count in counts.items()) if counts is not None else brief(view)
    print(f"{view['name']}  {state}  {render.harmless(detail)}".rstrip())
    if view.get("steps"):
        show_steps(view["steps"])
    native = [view[key] for key in ("service_job_id", "monitor_url") if view[key]]
    if native:
        print(f"  at its service: {render.harmless('  '.join(native))}")


def brief(view: View) -> str:
    """How a run stands, in a few words."""
    parts = [f"on {view['node']}" if view["node"] else "", view["reason"] or "", render.span(view["duration"])]
    if view["exit_code"] not in (None, 0):
        parts.append(f"exit code {view['exit_code']}")
    return ", ".join(part for part in parts if part)


def show_steps(steps: Sequence[Mapping[str, Any]]) -> None:
    print()
    rows = [
        [
            step["name"], step["job"], step["target"], "later" if step["is_late"] else step["state"],
            counted(step["counts"]), ", ".join(step["needs"]),
        ]
        for step in steps
    ]  # fmt: skip
    render.table(["step", "job", "target", "state", "runs", "after"], rows, state=3)


def counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _filters(asked: Asked) -> list[str]:
    """The runs that are meant: those that go on, unless others are asked for."""
    stages = asked.stages or ("queued", "active", *(("completed",) if asked.max_finished is not None else ()))
    states = [state for stage in stages for state in STAGES[stage]]
    found = [_one_of(states)] if asked.state is None or asked.stages else []
    found += [f"state = {asked.state}"] if asked.state is not None else []
    for column in ("target", "job", "workspace"):
        value = getattr(asked, column)
        found += [f'{column} = "{value}"'] if value is not None else []
    return found


def _views(client: Client, asked: Asked, most: int | None = None) -> list[View]:
    """The newest first, at `most` so many; but those that are over, where a number of them is asked for, come last."""

    def read(filters: list[str], limit: int | None) -> list[View]:
        return list(each_page(client.runs, filters)) if limit is None else client.runs(filters, limit=limit)

    filters = _filters(asked)
    if asked.max_finished is None:
        return read(filters, most)
    live = read([*filters, _one_of(LIVE)], most)
    return [*live, *(read([*filters, _one_of(TERMINAL)], asked.max_finished) if asked.max_finished else ())]


def _one_of(states: Iterable[str]) -> str:
    return f"state in ({', '.join(sorted(states))})"


def _table(client: Client, asked: Asked) -> list[View]:
    views = _views(client, asked, _SHOWN + 1)
    if not views:
        print("nothing is running or waiting; `turnout list runs` shows what was" if asked.is_plain else "no such run")
        return views
    rows = [
        [*(v[key] for key in ("name", "state", "job", "node")), render.ago(v["started"] or v["queued"]),
         render.shown(v["command"])]
        for v in views[:_SHOWN]
    ]  # fmt: skip
    render.table(["run", "state", "job", "node", "since", "command"], rows, state=1)
    if len(views) > _SHOWN:
        more = f" {client.hub()['live_runs'] - _SHOWN}" if asked.is_plain else ""
        print(f"… and{more} more; `turnout list runs` chooses among them")
    return views


def _monitor(client: Client, asked: Asked) -> None:
    """The table again and again, until nothing of it goes on, time is over, or Ctrl-C."""
    deadline = None if asked.escape_secs is None else time.monotonic() + asked.escape_secs
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[H\x1b[2J")
            views = _table(client, asked) if asked.name is None else _show_one(client, asked)
            sys.stdout.flush()
            left = _PAUSE if deadline is None else min(_PAUSE, deadline - time.monotonic())
            if left <= 0 or all(view["state"] in TERMINAL for view in views):
                return
            time.sleep(left)
    except KeyboardInterrupt:
        print()


def _show_one(client: Client, asked: Asked) -> list[View]:
    _show(client, asked)
    assert asked.name is not None
    return [client.job(asked.name) if asked.name == asked.job else client.run(asked.name)]
