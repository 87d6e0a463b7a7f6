"""Following several runs at once: each line behind the name of the run that printed it."""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import Any

from turnout.client import Client
from turnout.errors import TurnoutError
from turnout.model.state import TERMINAL

_AT_ONCE = 16
_LOOK_SECONDS = 0.3
_MOST = 100_000
_COLOURS = ("36", "33", "35", "32", "34", "31")


def attach_job(client: Client, job: str, tail: int) -> dict[str, Any]:
    """Shows the output of all runs of a job, of each its last `tail` lines and what comes, until the job is over; the
    job as it is then. Of more than a few runs at once, those that began later are shown when earlier ones are over."""
    screen, names = _Screen(), queue.Queue[str]()
    for _ in range(_AT_ONCE):  # daemons: who leaves with Ctrl-C does not wait for their answers
        threading.Thread(target=_work, args=(screen, names, tail), daemon=True).start()
    seen: set[str] = set()
    try:
        while True:
            view = client.job(job)
            for run in sorted(client.runs([f"job = {view['name']}"], limit=_MOST), key=lambda run: run["created"]):
                if run["attempts"] and not run["children"] and run["name"] not in seen:
                    seen.add(run["name"])
                    names.put(run["name"])
            if view["state"] in TERMINAL:
                break
            time.sleep(_LOOK_SECONDS)
        names.join()
    finally:
        screen.close()
    return view


def _work(screen: _Screen, names: queue.Queue[str], tail: int) -> None:
    while True:
        name = names.get()
        try:
            _follow(screen, name, tail)
        finally:
            names.task_done()


def _follow(screen: _Screen, name: str, tail: int) -> None:
    """One run, to its end. A line that is not finished yet waits for its rest."""
    rest = b""
    try:
        for piece in Client().output(name, follow=True, tail=tail):
            *lines, rest = (rest + piece).split(b"\n")
            if not screen.show(name, lines):
                return
    except TurnoutError as error:
        screen.show(name, [f"({error.message})".encode()])
    if rest:
        screen.show(name, [rest])


class _Screen:
    """Whole lines only, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = True
        self._known: dict[str, int] = {}

    def show(self, name: str, lines: list[bytes]) -> bool:
        """False when nobody looks any more."""
        with self._lock:
            if self._is_open and lines:
                label = self._label(name)
                sys.stdout.buffer.write(b"".join(label + line + b"\n" for line in lines))
                sys.stdout.buffer.flush()
            return self._is_open

    def close(self) -> None:
        with self._lock:
            self._is_open = False

    def _label(self, name: str) -> bytes:
        from turnout.cli.render import has_colour

        number = self._known.setdefault(name, len(self._known))
        text = f"{name} | "
        return (f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{text}\x1b[0m" if has_colour() else text).encode()
