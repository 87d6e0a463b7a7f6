"""Commands that look."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.model.ids import parse_job_name
from turnout.model.state import TERMINAL

_DEFAULT_COLUMNS = ("name", "state", "job", "experiment", "duration", "created", "command")


def status(name: str | None, json: bool) -> None:
    client = Client()
    if name is not None:
        view = _view(client, name)
        if json:
            render.print_json(view)
        else:
            state = render.coloured(view["state"], view["state"])
            detail = (
                ", ".join(f"{count} {key}" for key, count in view["counts"].items())
                if "counts" in view
                else _brief(view)
            )
            print(f"{view['name']}  {state}  {render.harmless(detail)}".rstrip())
        return
    live = client.runs(["state in (created, queued, starting, running, finishing)"], limit=1000)
    if json:
        render.print_json(live)
        return
    if not live:
        print("nothing is running or waiting; `turnout list runs` shows what was")
        return
    rows = [
        [
            v["name"],
            v["state"],
            v["job"],
            v["node"],
            render.ago(v["started"] or v["queued"]),
            render.shown(v["command"]),
        ]
        for v in live[:50]
    ]
    render.table(["run", "state", "job", "node", "since", "command"], rows, state=1)
    if len(live) > 50:
        print(f"… and {len(live) - 50} more")


def _view(client: Client, name: str) -> dict[str, Any]:
    return client.job(name) if parse_job_name(name) is not None else client.run(name)


def _brief(view: dict[str, Any]) -> str:
    parts = [f"on {view['node']}" if view["node"] else "", view["reason"] or "", render.span(view["duration"])]
    if view["exit_code"] not in (None, 0):
        parts.append(f"exit code {view['exit_code']}")
    return ", ".join(part for part in parts if part)


def attach(name: str, json: bool) -> int:
    client = Client()
    if json:
        render.print_json(client.wait(name))
        return 0
    try:
        for piece in client.output(name, follow=True):
            _write(piece)
    except KeyboardInterrupt:
        render.complain(f"left {name}; it goes on", f"`turnout attach {name}` comes back to it")
        return 0
    view = client.run(name)
    print(f"{name}: {view['state']} {_brief(view)}".rstrip(), file=sys.stderr)
    return 0


def logs(name: str, follow: bool, attempt: int | None, json: bool) -> None:
    client = Client()
    if json:
        content = b"".join(client.output(name, follow=follow, attempt=attempt))
        render.print_json({"run": name, "bytes": len(content), "text": content.decode("utf-8", "replace")})
        return
    try:
        for piece in client.output(name, follow=follow, attempt=attempt):
            _write(piece)
    except KeyboardInterrupt:
        sys.exit(130)


def _write(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def events(name: str, json: bool) -> None:
    found = Client().events(name)
    if json:
        render.print_json(found)
        return
    rows = [[event["seq"], event["time"], event["event"], _data(event["data"])] for event in found]
    render.table(["seq", "time", "event", "data"], rows, right=frozenset({0}))


def _data(data: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in data.items() if value not in (None, "", [], {}))


def metrics(name: str, names: list[str], json: bool) -> None:
    found = Client().metrics(name, names)
    if json:
        render.print_json(found)
        return
    if not found:
        print(f"{name} logged no metrics" + (f" named {', '.join(names)}" if names else ""))
    columns = sorted(found)
    steps = sorted({point["step"] for series in found.values() for point in series})
    by_step = {metric: {point["step"]: point["value"] for point in series} for metric, series in found.items()}
    if columns:
        rows = [[step, *(render.shown(by_step[metric].get(step)) for metric in columns)] for step in steps]
        render.table(["step", *columns], rows, right=frozenset(range(len(columns) + 1)))


def show(name: str, json: bool) -> None:
    client = Client()
    view = _view(client, name)
    if json:
        render.print_json(view)
        return
    for key, value in view.items():
        if key == "history" or value in (None, "", [], {}):
            continue
        text = render.shown(value)
        print(f"{key:<12} {render.coloured(render.harmless(text), text) if key == 'state' else render.harmless(text)}")
    for attempt in view.get("history", [])[:-1]:
        told = f"{attempt['cause']} on {attempt['node']}" + (f": {attempt['message']}" if attempt["message"] else "")
        print(f"{'attempt ' + str(attempt['attempt']):<12} {render.harmless(told)}")


def why(name: str, json: bool) -> None:
    found = Client().why(name)
    if json:
        render.print_json(found)
        return
    print(f"{found['run']} is {render.coloured(found['state'], found['state'])}.")
    for line in found["why"]:
        print(f"  {render.harmless(line)}")


def list_runs(filters: Sequence[str], sort: str, columns: str, limit: int, json: bool) -> None:
    from turnout.query import Column, parse_columns

    wanted = parse_columns(columns) if columns else [Column(name, name) for name in _DEFAULT_COLUMNS]
    found = Client().runs(filters, sort=sort, limit=limit)
    if json:
        render.print_json(found)
        return
    if not found:
        print("no runs" + (" match" if filters else " yet; `turnout run COMMAND` makes one"))
        return
    if not columns:
        wanted = _with_values(wanted, found)
    rows = [[_cell(view, column) for column in wanted] for view in found]
    numeric = frozenset(i for i, column in enumerate(wanted) if _is_numeric(found, column.name))
    state = next((i for i, column in enumerate(wanted) if column.name == "state"), -1)
    render.table([column.header for column in wanted], rows, right=numeric, state=state)
    if len(found) == limit:
        print(f"… at most {limit} shown; -n shows more", file=sys.stderr)


def _with_values(columns: list[Any], found: list[dict[str, Any]]) -> list[Any]:
    """Without chosen columns, metrics are shown too where there are a few."""
    from turnout.query import Column

    names = sorted({name for view in found for name in view["metrics"]})
    extra = [Column(f"metrics.{name}", name) for name in names[:3]]
    return [*columns[:-1], *extra, columns[-1]]


def _cell(view: dict[str, Any], column: Any) -> str:
    value = render.value_of(view, column.name)
    if column.format:
        return render.shown(value, column.format)
    if column.name in ("created", "queued", "started", "ended"):
        return render.ago(value)
    return render.span(value) if column.name == "duration" else render.shown(value)


def _is_numeric(found: list[dict[str, Any]], name: str) -> bool:
    values = [value for view in found if (value := render.value_of(view, name)) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def list_jobs(limit: int, json: bool) -> None:
    found = Client().jobs(limit=limit)
    if json:
        render.print_json(found)
        return
    if not found:
        print("no jobs yet; `turnout run COMMAND` makes one")
        return
    rows = []
    for view in found:
        done = sum(view["counts"].get(state, 0) for state in TERMINAL)
        failed = view["counts"].get("failed", 0)
        rows.append(
            [view["name"], view["state"], f"{done}/{view['runs']}", failed or "", view["experiment"], view["target"],
             render.ago(view["created"]), render.shown(view["command"])]
        )  # fmt: skip
    render.table(
        ["job", "state", "done", "failed", "experiment", "target", "created", "command"],
        rows,
        right=frozenset({2, 3}),
        state=1,
    )
