"""Commands that look."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from turnout.cli import render
from turnout.cli.follow import complain_of, exit_code
from turnout.cli.progress import size
from turnout.cli.standing import brief, counted, show_steps
from turnout.client import Client
from turnout.model.ids import is_job_name


def _view(client: Client, name: str) -> dict[str, Any]:
    name = client.meant(name)
    return client.job(name) if is_job_name(name) else client.run(name)


def attach(name: str, tail: int, json: bool) -> int:
    """Gives the exit code."""
    client = Client()
    try:
        view = client.wait(name) if json else _follow(client, name, tail)
    except KeyboardInterrupt:
        render.complain(f"left {name}; it goes on", f"`turnout attach {name}` comes back to it")
        return 130
    if json:
        render.print_json(view)
    elif "counts" in view:
        print(f"{view['name']}: {counted(view['counts'])}", file=sys.stderr)
        if view["state"] != "completed":
            complain_of(client, view, f"{view['name']} {view['state']}", f"`turnout why {view['name']}` tells more")
    else:
        print(f"{name}: {view['state']} {brief(view)}".rstrip(), file=sys.stderr)
        if view["state"] == "failed" and view["exit_code"] is None:
            render.complain(f"{name} failed: {view['message'] or view['reason']}", f"`turnout why {name}` tells more")
    return exit_code(client, view)


def _follow(client: Client, name: str, tail: int) -> dict[str, Any]:
    """Shows its last lines and what comes until it is over: a run, or all runs of a job or parent that has several."""
    view = _view(client, name)
    if not _is_single(view):
        from turnout.cli.attaching import attach_job

        return attach_job(client, view.get("job") or view["name"], tail)
    if "counts" in view:
        (run,) = client.runs([f"job = {view['name']}"], limit=1)
        name = run["name"]
    output = client.output(name, follow=True, tail=tail)
    for number, piece in enumerate(output):
        if not number and output.skipped:
            before = size(output.skipped)
            print(f"({before} before this; `turnout logs {name}` has all of it)", file=sys.stderr)
        _write(piece)
    return client.wait(view["name"]) if view.get("steps") or view.get("search") else client.run(name)


def _is_single(view: Mapping[str, Any]) -> bool:
    """Whether it is a run without children, or a job of one that gets no others. A step may have none yet."""
    is_unmade = any(step["is_late"] for step in view.get("steps", ()))
    return view.get("runs", 1) == 1 and not (view.get("children") or view.get("remaining") or is_unmade)


def logs(name: str, follow: bool, attempt: int | None, tail: int | None, json: bool) -> None:
    client = Client()
    output = client.output(name, follow=follow, attempt=attempt, tail=tail)
    if json:
        content = b"".join(output)
        render.print_json({"run": name, "bytes": len(content), "text": content.decode("utf-8", "replace")})
        return
    try:
        for piece in output:
            _write(piece)
    except KeyboardInterrupt:
        sys.exit(130)


def _write(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def events(name: str, json: bool) -> None:
    client = Client()
    name = client.meant(name)
    found = client.events(name)
    if json:
        render.print_json(found)
        return
    rows = [[event["seq"], event["time"], event["event"], _data(event["data"])] for event in found]
    render.table(["seq", "time", "event", "data"], rows, right=frozenset({0}), wraps=True)
    if is_job_name(name):
        view = client.job(name)
        print(f"its runs: {counted(view['counts'])}; `turnout list runs {name}` lists them")


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
        value = {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value
        if key in ("history", "search", "steps") or value in (None, "", [], {}) or (key == "remaining" and not value):
            continue
        text = render.shown(value)
        print(f"{key:<12} {render.coloured(render.harmless(text), text) if key == 'state' else render.harmless(text)}")
    if view.get("steps"):
        show_steps(view["steps"])
    if view.get("search"):
        from turnout.cli import results, searches

        for title, text in searches.described(client.search(view["name"])):
            print(f"{title:<12} {render.harmless(text)}")
        if told := results.what_matters(client, view["name"]):
            print(f"{'matters':<12} {render.harmless(told)}")
    for attempt in view.get("history", [])[:-1]:
        told = f"{attempt['cause']} on {attempt['node']}" + (f": {attempt['message']}" if attempt["message"] else "")
        print(f"{'attempt ' + str(attempt['attempt']):<12} {render.harmless(told)}")


def why(name: str, json: bool) -> None:
    found = Client().why(name)
    if json:
        render.print_json(found)
        return
    name = next(found[kind] for kind in ("run", "job", "node") if kind in found)
    print(f"{name} is {render.coloured(found['state'], found['state'])}.")
    for line in found["why"]:
        print(f"  {render.harmless(line)}")
