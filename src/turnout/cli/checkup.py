"""``turnout doctor``: what could be wrong here, and what to do about it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turnout.cli import render
from turnout.client import Client
from turnout.errors import TurnoutError
from turnout.home import Home, file_system

_LEAST_FREE = 1 << 30


@dataclass(frozen=True, slots=True)
class Found:
    """`level`: ok, warning or problem."""

    level: str
    what: str
    hint: str = ""


def doctor(json: bool) -> int:
    """Exit code 1 when there is a problem."""
    home = Home.from_env()
    found = [*_python(), *_state_directory(home), *_hub(), *_programs()]
    if json:
        render.print_json([{"level": each.level, "what": each.what, "hint": each.hint} for each in found])
    else:
        for each in found:
            print(f"{render.coloured(f'{each.level:<8}', each.level)} {each.what}")
            if each.hint:
                print(f"         {each.hint}")
    return 1 if any(each.level == "problem" for each in found) else 0


def _python() -> Iterator[Found]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Found("ok", f"Python {version}, SQLite {sqlite3.sqlite_version}")


def _state_directory(home: Home) -> Iterator[Found]:
    root = home.root
    kind = file_system(root)
    if home.on_network():
        where = home.database_dir()
        yield Found(
            "warning",
            f"{root} is on a network file system ({kind}); the database is in {where} on this host",
            "use turnout on one host at a time, or set TURNOUT_HOME to a local disk",
        )
    else:
        yield Found("ok", f"state in {root}" + (f" ({kind})" if kind else ""))
    existing = root
    while not existing.exists():
        existing = existing.parent
    if not os.access(existing, os.W_OK):
        yield Found("problem", f"{existing} cannot be written", "set TURNOUT_HOME to a directory you can write")
    free = shutil.disk_usage(existing).free
    level = "ok" if free > _LEAST_FREE else "warning"
    yield Found(
        level,
        f"{free >> 20} MB free",
        "" if level == "ok" else "free some space: new runs are refused when the disk is full",
    )
    yield from _modes(home)


def _modes(home: Home) -> Iterator[Found]:
    for path, wanted in ((home.root, 0o700), (home.token_file, 0o600), (home.database_dir() / "turnout.db", 0o600)):
        if path.exists() and stat.S_IMODE(os.stat(path).st_mode) & ~wanted:
            yield Found("problem", f"others may use {path}", f"run: chmod {wanted:o} {path}")


def _hub() -> Iterator[Found]:
    try:
        client = Client()
        told = client.hub()
        targets = client.targets()
    except TurnoutError as error:
        yield Found("problem", f"no hub: {error.message}", error.hint)
        return
    yield Found("ok", f"hub {told['version']} runs, pid {told['pid']}")
    for name, target in sorted(targets.items()):
        agents = f"{target['agents']} agents" if target["agents"] else "an agent is started when a run needs one"
        yield Found("ok", f"target {name}: {target['max_runs']} runs at once, {agents}")


def _programs() -> Iterator[Found]:
    if shutil.which("bash") is None:
        yield Found("problem", "no bash: run scripts and Python files need it", "install bash")
    if shutil.which("git") is None:
        yield Found("warning", "no git: commits are not recorded with runs", "install git")
    if not Path("/proc/self/stat").exists():
        yield Found("warning", "no /proc: processes that hide from their parents cannot be found here")
