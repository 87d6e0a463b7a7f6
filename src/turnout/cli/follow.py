"""Showing a submission until it is over: the output of one run, or the progress of many."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from turnout.cli import render
from turnout.client import Client
from turnout.client.pipeline_job import first_failures
from turnout.errors import TurnoutError
from turnout.model.state import TERMINAL

_SECOND_CTRL_C = 2.0
_SILENCE = 3.0


class _Wish(Protocol):
    @property
    def wait(self) -> bool: ...
    @property
    def json(self) -> bool: ...


def follow(client: Client, answer: dict[str, Any], *, many: bool, how: _Wish, is_search: bool = False) -> int:
    """Until done, or Ctrl-C. With --wait, the exit code is that of `exit_code`."""
    name = answer["job"] if many else answer["runs"][0]
    try:
        if how.json:
            view = client.wait(name)
            render.print_json(view)
        else:
            with telling_why(name):
                view = _show(client, answer, many=many, is_search=is_search)
    except KeyboardInterrupt:
        return _detach(client, answer, name)
    return exit_code(client, view) if how.wait else 0


def _show(client: Client, answer: dict[str, Any], *, many: bool, is_search: bool) -> dict[str, Any]:
    if is_search:
        from turnout.cli import searches

        return searches.follow(client, answer["job"])
    return _show_progress(client, answer["job"]) if many else _show_output(client, answer["runs"][0])


@contextmanager
def telling_why(name: str) -> Iterator[None]:
    """Says once what a run or a job waits for, if it has not begun after a while."""

    def tell() -> None:
        with suppress(TurnoutError):  # who wants to know more asks; this must not disturb
            told = Client().why(name)
            if told["state"] == "queued":
                clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
                print(f"{clear}{name} waits. {' '.join(map(render.harmless, told['why']))}", file=sys.stderr)

    timer = threading.Timer(_SILENCE, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _show_output(client: Client, name: str) -> dict[str, Any]:
    print(f"{name}", file=sys.stderr)
    for piece in client.output(name, follow=True):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    view = client.run(name)
    if view["state"] != "completed":
        detail = (
            f"exit code {view['exit_code']}" if view["exit_code"] is not None else view["message"] or view["reason"]
        )
        render.complain(f"{name} {view['state']}: {detail}", f"`turnout why {name}` tells more")
    return view


def _show_progress(client: Client, job: str) -> dict[str, Any]:
    """A line that is rewritten on a terminal; elsewhere one line at the end."""
    live = sys.stderr.isatty()
    began = time.monotonic()
    while True:
        view = client.job_wait(job, seconds=0.2 if live else 20.0)
        over = view["state"] in TERMINAL
        if live:
            _draw(view, time.monotonic() - began)
        if over:
            break
    if live:
        sys.stderr.write("\n")
    counts = ", ".join(f"{count} {state}" for state, count in sorted(view["counts"].items()))
    print(f"{job}: {counts}, in {render.span(time.monotonic() - began)}")
    if view["counts"].get("failed"):
        complain_of(
            client, view, "some runs failed", f"`turnout list runs --filter 'job={job} and state=failed'` shows them"
        )
    return view


def complain_of(client: Client, view: dict[str, Any], what: str, hint: str) -> None:
    """Of a job that did not end well, with the first runs that failed, and how."""
    render.complain("\n".join([what, *(f"  {line}" for line in first_failures(client, view))]), hint)


def _draw(view: dict[str, Any], seconds: float) -> None:
    counts, total = view["counts"], max(1, view["runs"])
    done = sum(counts.get(state, 0) for state in TERMINAL)
    failed = counts.get("failed", 0)
    going = sum(counts.get(state, 0) for state in ("starting", "running", "finishing"))
    columns = shutil.get_terminal_size().columns
    width = max(10, min(40, columns - 50))
    bar = "█" * (width * done // total) + "░" * (width - width * done // total)
    text = (
        f"{view['name']} {bar} {done}/{total}, {going} running"
        + (f", {failed} failed" if failed else "")
        + f"  {render.span(seconds)}"
    )
    sys.stderr.write("\r\x1b[2K" + text[: columns - 1])
    sys.stderr.flush()


def _detach(client: Client, answer: dict[str, Any], name: str) -> int:
    """The first Ctrl-C leaves the run alone; a second one within two seconds offers to cancel it."""
    print(file=sys.stderr)
    again = f"`turnout attach {name}` comes back to it; `turnout cancel job {answer['job']}` ends it"
    render.complain(f"left {name}; it goes on", again)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return 130
    try:
        print("  Ctrl-C again to cancel it", file=sys.stderr)
        time.sleep(_SECOND_CTRL_C)
    except KeyboardInterrupt:
        try:
            wish = input(f"\ncancel {name}? [y/N] ")
        except (KeyboardInterrupt, EOFError):
            wish = ""
        if wish.strip().lower() in ("y", "yes"):
            for item in client.cancel(job=answer["job"]):
                print(f"{item['run']} {render.OUTCOMES[item['outcome']]}", file=sys.stderr)
    return 130


def exit_code(client: Client, view: dict[str, Any]) -> int:
    """Of a run or a job that is over: 0 when all completed; else the code of the run, or of the first that failed; a
    signal is 128 + its number. A search or a pipeline is not well with 1."""
    if view["state"] == "completed":
        return 0
    if view.get("search") or view.get("steps"):
        return 1
    if "counts" in view:
        failed = client.runs([f"job = {view['name']}", "state != completed"], sort="name", limit=1)
        view = failed[0] if failed else view
    if view.get("exit_code"):
        return int(view["exit_code"])
    if view.get("signal"):
        return 128 + int(view["signal"])
    return 1
