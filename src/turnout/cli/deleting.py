"""``turnout delete`` and ``gc``."""

from __future__ import annotations

import sys
from typing import Any

from turnout.cli import render
from turnout.cli.progress import size
from turnout.client import Client
from turnout.errors import InvalidInput
from turnout.model.ids import list_jobs, parse_job_name


def delete(what: dict[str, Any], yes: bool, json: bool) -> None:
    """Asks on a terminal; elsewhere only --yes is an answer."""
    client = Client()
    if not yes:
        _ask(f"delete {_amount(client.delete(**what, dry_run=True))} for good?")
    done = client.delete(**what)
    if json:
        render.print_json(done)
    else:
        print(f"deleted {_amount(done)}; `turnout gc` frees the room of their files at once, the hub within a day")


def gc(dry_run: bool, json: bool) -> None:
    done = Client().gc(dry_run=dry_run)
    if json:
        render.print_json(done)
        return
    verb = "would remove" if dry_run else "removed"
    print(f"{verb} {done['blobs']['blobs']} blobs of files that nothing refers to, {size(done['blobs']['bytes'])}")
    if done["later"]["blobs"]:
        amount = f"{done['later']['blobs']} more ({size(done['later']['bytes'])})"
        print(f"{amount} were sent or asked for lately and stay: `turnout gc` removes them in two hours, if not before")
    print(f"{verb} {done['nodes']['directories']} directories of agents that are gone, {size(done['nodes']['bytes'])}")
    freed = f"{'would give' if dry_run else 'gave'} {size(done['database']['freed'])} back"
    print(f"the database has {size(done['database']['bytes'])}; {freed}")


def ask(question: str) -> bool:
    """Whether the person at the terminal says yes. InvalidInput where nobody can be asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput(f"{question} Nobody is here to ask", hint="add --yes; nothing was changed")
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _ask(question: str) -> None:
    if not ask(question):
        raise InvalidInput("nothing was deleted")


def _amount(done: dict[str, Any]) -> str:
    runs = "1 run" if done["runs"] == 1 else f"{done['runs']} runs"
    jobs = done["jobs"]
    if not jobs:
        return runs
    numbers = [number for name in jobs if (number := parse_job_name(name)) is not None]
    return f"{runs} and {jobs[0] if len(jobs) == 1 else f'{len(jobs)} jobs ({list_jobs(numbers)})'}"
