"""Commands that change something."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.client.connect import check_address, connect
from turnout.errors import Conflict, HubUnreachable
from turnout.home import Home, HubRecord


def cancel(what: dict[str, Any], json: bool) -> None:
    done = Client().cancel(**what)
    if json:
        render.print_json(done)
        return
    if not done:
        print("nothing to cancel")
    for item in done[:50]:
        print(f"{item['run']} {render.OUTCOMES[item['outcome']]}{_said(item['service'])}")
    if len(done) > 50:
        print(f"… and {len(done) - 50} more")


def _said(record: dict[str, Any] | None) -> str:
    """What the service that has the run told of it, if one does."""
    if record is None:
        return ""
    if "error" in record:
        return f"; its service did not end it: {render.harmless(record['error'])}"
    before, after = render.harmless(record["before_status"]), render.harmless(record["status"])
    return f"; its service says: {'killed' if record['killed'] else 'not killed'}, was {before}, is {after}"


def release(names: tuple[str, ...], json: bool) -> None:
    released = Client().release(*names)
    if json:
        render.print_json(released)
    elif released:
        print(f"{', '.join(released[:20])}{' …' if len(released) > 20 else ''} released")
    else:
        print("nothing of that was held or kept")


def extract(names: tuple[str, ...], directory: Path, json: bool) -> None:
    done = Client().extract_all(names, directory)
    if json:
        render.print_json(done if len(done) > 1 else done[0])
        return
    for told in done:
        files = f"{told['before']} files it was given, {told['after']} files it left"
        print(f"{told['run']}: {files}, and its output are in {told['directory']}")


def hub_start(listen: str | None, json: bool) -> None:
    if listen is not None:
        check_address(listen)
    connect(Home.from_env(), listen=listen).close()
    client = Client()
    told = client.hub()
    if listen and not told["tcp"]:
        raise Conflict("the hub runs already, and listens on no port", hint="`turnout hub stop`, then start it again")
    if json:
        render.print_json(told)
    else:
        print(f"the hub runs, pid {told['pid']}" + (f", also on http://{told['tcp']}" if told["tcp"] else ""))
    for name, target in client.targets().items():
        if target["trouble"]:
            print(f"turnout: target {name}: {render.harmless(target['trouble'])}", file=sys.stderr)


def hub_status(json: bool) -> None:
    home = Home.from_env()
    try:
        told = Client(start=False).hub()
    except HubUnreachable:
        if json:
            render.print_json({"running": False, "home": str(home.root), "pid": None, "version": None})
        else:
            print(f"no hub is running for {home.root}; the next command starts one")
        return
    told = {"running": True, **told}
    if json:
        render.print_json(told)
        return
    print(f"hub       pid {told['pid']}, version {told['version']}, up {render.span(told['uptime'])}")
    print(f"home      {told['home']}")
    print(f"targets   {', '.join(told['targets'])}")
    for agent in told["agents"]:
        process = f", pid {agent['pid']}" if agent["pid"] is not None else ""
        print(f"agent     {agent['id']} on {agent['node']} ({agent['target']}){process}")
    print(f"runs      {told['live_runs']} not over")


def hub_stop(json: bool) -> None:
    home = Home.from_env()
    try:
        told = Client(start=False).stop_hub()
    except HubUnreachable:
        if json:
            render.print_json({"stopped": False})
        else:
            print("no hub was running")
        return
    deadline = time.monotonic() + 20
    while HubRecord.load(home) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    is_gone = HubRecord.load(home) is None
    if json:
        render.print_json({"stopped": is_gone, "pid": told["pid"]})
    elif is_gone:
        print(f"the hub (pid {told['pid']}) stopped; runs go on without it")
    else:
        print(
            f"the hub (pid {told['pid']}) stops when what it has begun is over; `turnout hub logs` tells what that is"
        )


def hub_logs(lines: int, json: bool) -> None:
    path = Home.from_env().hub_log
    try:
        found = path.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        found = []
    if json:
        render.print_json(found)
    else:
        print("\n".join(map(render.harmless, found)) if found else f"nothing in {path} yet")
