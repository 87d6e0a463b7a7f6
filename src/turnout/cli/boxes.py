"""``turnout box`` and ``turnout ssh``."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnout.cli import checkup, render
from turnout.cli.deleting import ask
from turnout.client import Client
from turnout.errors import InvalidInput, NotFound, Unavailable
from turnout.home import Home, current_directory

if TYPE_CHECKING:
    from turnout.client.hostkeys import HostKey

_COLUMNS = ("NAME", "ADDRESS", "MAX RUNS", "AGENTS", "FREE", "POOLS", "TROUBLE")


@dataclass(frozen=True, slots=True)
class Trust:
    """What was said beforehand about a key that is not known yet."""

    yes: bool
    fingerprint: str | None

    def accepts(self, key: HostKey) -> bool:
        """Else the person at the terminal decides. InvalidInput where nobody can be asked."""
        if self.fingerprint is not None:
            if key.fingerprint != self.fingerprint:
                hint = "ask who runs the machine which is right; nothing was changed"
                raise InvalidInput(f"{key.host} shows another key: {key.kind} {key.fingerprint}", hint=hint)
            return True
        if self.yes:
            return True
        shown = f"{render.harmless(key.host)} is not known yet. Its {key.kind} key is\n  {key.fingerprint}\n"
        return ask(f"{shown}Is that right? (On the machine, `ssh-keygen -lf` of a file in /etc/ssh tells.)")


def show(json: bool) -> None:
    found = Client().boxes()
    if json:
        render.print_json(found)
    elif found:
        rows = [
            (each["name"], each["address"], each["max_runs"], each["agents"], _number(each["free"]),
             ", ".join(each["pools"]), each["trouble"])
            for each in found
        ]  # fmt: skip
        render.table(_COLUMNS, rows, right=frozenset({2, 3, 4}), wraps=True)
    else:
        print("no boxes yet; `turnout box add NAME ADDRESS` takes one in")


def reference(secret: str | None) -> str | None:
    """How settings refer to a secret of that name. NotFound when nobody keeps it."""
    if secret is None:
        return None
    from turnout.config import secrets

    secrets.resolve(secret)
    return f"secret:{secret.removeprefix('secret:')}"


def add(name: str, address: str, wanted: Mapping[str, Any], trust: Trust, json: bool) -> None:
    done = Client().add_box(name, address, accept=trust.accepts, **wanted)
    if json:
        render.print_json(done)
        return
    checkup.tell([checkup.Found(**each) for each in done["findings"]])
    if done["key"] is not None:
        print(f"its key: {done['key']['type']} {done['key']['fingerprint']}")
    print(f"{name} is in {done['file']}; `turnout run --target {name} COMMAND` runs there")


def remove(name: str, force: bool, json: bool) -> None:
    done = Client().remove_box(name, force=force)
    if json:
        render.print_json(done)
        return
    if done["cancelled"]:
        print(f"cancelled {render.count(done['cancelled'], 'run')}")
    what = "what was there of turnout is gone" if done["cleared"] else f"what is there stays there: {done['why']}"
    print(f"removed {name}; {render.harmless(what)}")


def doctor(names: Sequence[str], json: bool) -> int:
    """Exit code 1 when there is a problem."""
    from turnout.client import boxes

    settings = boxes.load(Home.from_env(), current_directory())
    for name in names:
        if name not in settings.boxes:
            raise NotFound(f"no box {name!r}", hint=f"boxes: {', '.join(sorted(settings.boxes)) or 'none'}")
    return checkup.report(checkup.look_at(settings, names or sorted(settings.boxes)), json)


def log_in(name: str, command: Sequence[str], json: bool) -> int:
    """Becomes ssh; with `json` it is run instead, and how it ended is told."""
    from turnout.client import boxes

    way = boxes.way_to(name, boxes.load(Home.from_env(), current_directory()))
    words = list(command[1:] if command[:1] == ("--",) else command)
    if way is None:
        argv = ["sh", "-c", words[0]] if len(words) == 1 else words or [os.environ.get("SHELL", "sh")]
    else:
        line = words[0] if len(words) == 1 else shlex.join(words)
        argv = [*way.argv("-o", "RemoteCommand=none"), line] if words else way.argv()
    if json:
        return _told(argv)
    sys.stdout.flush()
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        raise Unavailable(f"{argv[0]} cannot be started: {error.strerror}", hint="install OpenSSH") from error


def _told(argv: Sequence[str]) -> int:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    render.print_json({"argv": list(argv), "exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr})
    return done.returncode


def _number(free: float | None) -> str:
    return "" if free is None else f"{free:g}"
