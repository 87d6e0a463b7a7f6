"""Finding the hub of a state directory, or starting it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time

from turnout._version import __version__
from turnout.errors import HubUnreachable, Unavailable, from_dict
from turnout.home import Home, HubRecord
from turnout.wire.http import Connection, Unreachable

_START_SECONDS = 30.0


def connect(home: Home, *, start: bool = True) -> Connection:
    """A connection to the hub; it is started in the background when none runs and `start` says so.

    Raises HubUnreachable when there is none, or the error the hub gave for not starting.
    """
    found = _try(home)
    if found is not None:
        return found
    if not start:
        raise HubUnreachable(
            "no hub is running", hint="`turnout hub start` starts one; most commands do so by themselves"
        )
    start_hub(home)
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        found = _try(home)
        if found is not None:
            return found
        time.sleep(0.02)
    raise HubUnreachable("the hub was started but does not answer", hint="see `turnout hub logs`")


def start_hub(home: Home, *, listen: str | None = None) -> None:
    """Starts the hub as a program of its own and returns when it answers, or when another one turns out to run."""
    home.make()
    _check_host(home)
    read, write = os.pipe()
    argv = [sys.executable, "-m", "turnout.hub", "--ready-fd", str(write)]
    if listen:
        argv += ["--listen", listen]
    fd = os.open(home.hub_log, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        env = {**os.environ, "TURNOUT_HOME": str(home.root)}
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=fd, stderr=fd, pass_fds=(write,), env=env, cwd="/",
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise HubUnreachable(f"the hub could not be started: {error}") from error
    finally:
        os.close(fd)
        os.close(write)
    try:
        answer = _read_answer(read)
    finally:
        os.close(read)
    child.returncode = 0  # it outlives us; nobody here waits for it
    if not answer.get("ready") and answer.get("error") != "conflict":
        if not answer:
            raise HubUnreachable("the hub ended before it was ready", hint=f"see {home.hub_log}")
        raise from_dict(answer)


def _read_answer(read: int) -> dict[str, object]:
    deadline = time.monotonic() + _START_SECONDS
    text = b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(read, 65536) if ready else b""
        if not piece:
            break
        text += piece
    return dict(json.loads(text)) if text else {}


def _try(home: Home) -> Connection | None:
    record = HubRecord.load(home)
    if record is None:
        return None
    if record.host != socket.gethostname() and not os.path.exists(record.socket):
        return None
    try:
        token = home.token_file.read_text()
    except OSError:
        return None
    connection = Connection(record.socket, token)
    try:
        answer = connection.request("GET", "/health")
        answer.read()
    except Unreachable:
        return None
    return connection if answer.status == 200 else None


def _check_host(home: Home) -> None:
    """On a state directory shared between hosts, the hub of another host must not be joined by a second one."""
    record = HubRecord.load(home)
    if record is not None and record.host != socket.gethostname() and home.on_network():
        raise Unavailable(
            f"the hub of {home.root} runs on {record.host}",
            hint=f"work there, or set TURNOUT_HOME to a directory of this host (turnout {__version__})",
        )
