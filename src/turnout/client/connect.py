"""Finding the hub of a state directory, or starting it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

from turnout.client.upgrading import About, is_ours, make_room
from turnout.errors import Denied, HubUnreachable, InvalidInput, Unavailable, from_dict
from turnout.home import Home, HubRecord, is_private
from turnout.wire.http import Connection, Unreachable

_START_SECONDS = 30.0
_AGAIN_SECONDS = 3.0
_ANSWER_SECONDS = 10.0


def connect(home: Home, *, start: bool = True, listen: str | None = None) -> Connection:
    """A connection to the hub. With `start` it is of this version: one is started (to `listen` there as well) when
    none runs, and in the place of an older one. Without it, it is the one that runs.

    Raises HubUnreachable when there is none, Conflict when it is newer, or the error the hub gave for not starting.
    """
    deadline = time.monotonic() + _START_SECONDS
    next_start = 0.0
    while time.monotonic() < deadline:
        found = _try(home)
        if found is not None:
            hub, about = found
            if not start or is_ours(about):
                return hub
            listen = make_room(home, hub, about) or listen
        elif not start:
            hint = "`turnout hub start` starts one; most commands do so by themselves"
            raise HubUnreachable("no hub is running", hint=hint)
        if time.monotonic() < next_start:
            time.sleep(0.02)
        else:  # again, if the one that was in its way was about to end
            start_hub(home, listen=listen)
            next_start = time.monotonic() + _AGAIN_SECONDS
    raise HubUnreachable("the hub was started but does not answer", hint="see `turnout hub logs`")


def start_hub(home: Home, *, listen: str | None = None, bare: bool = False) -> None:
    """Starts the hub as a program of its own and returns when it answers, or when another one turns out to run. One
    that is `bare` reads no settings: it can end what goes on, whatever is written there."""
    home.make()
    _check_host(home)
    read, write = os.pipe()
    argv = [sys.executable, "-m", "turnout.hub", "--ready-fd", str(write), *(("--listen", listen) if listen else ())]
    argv += ["--bare"] if bare else []
    try:
        child = _start(argv, home, write)
    except OSError as error:
        os.close(read)
        raise HubUnreachable(f"the hub could not be started: {error}", hint="see `turnout doctor`") from error
    finally:
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


def _start(argv: list[str], home: Home, passed: int) -> subprocess.Popen[bytes]:
    log = os.open(home.hub_log, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(passed,), cwd="/", start_new_session=True,
            env={**os.environ, "TURNOUT_HOME": str(home.root)},
        )  # fmt: skip
    finally:
        os.close(log)


def check_address(listen: str) -> None:
    """InvalidInput for an address where the hub would not listen."""
    host, _, port = listen.rpartition(":")
    if host not in ("127.0.0.1", "localhost") or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise InvalidInput(
            f"will not listen on {listen!r}: without TLS only this machine may be served",
            hint="write --listen 127.0.0.1:PORT (0 = any free port), and use an SSH tunnel from elsewhere",
        )


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


def _try(home: Home) -> tuple[Connection, About] | None:
    """The running hub, if it answers, and what it tells of itself.

    Our token is shown only to a socket that can be nobody else's. Denied when the hub does not take it.
    """
    record = HubRecord.load(home)
    path = Path(record.socket) if record is not None else home.socket_dir / "hub.sock"
    if not os.path.lexists(path):
        return None
    if not is_private(path):
        raise Denied(
            f"{path} is not only yours: another user could answer there",
            hint="remove it, or set XDG_RUNTIME_DIR to a directory of your own",
        )
    try:
        token = home.token_file.read_text()
    except OSError:
        return None
    connection = Connection(str(path), token)
    try:
        answer = connection.request("GET", "/api/version", timeout=_ANSWER_SECONDS)
        about = answer.json()
    except Unreachable as error:
        if isinstance(error.__cause__, TimeoutError):
            who = f"pid {record.pid}" if record is not None else str(path)
            hint = "if it hangs, kill it: runs go on, and the next command starts a new one"
            raise HubUnreachable(f"the hub ({who}) does not answer", hint=hint) from error
        return None
    told: About = about if isinstance(about, dict) else {}
    if answer.status not in (200, 404):  # 404: it is so old that it does not know the question
        raise from_dict(told)
    return connection, told


def _check_host(home: Home) -> None:
    """On a state directory shared between hosts, the hub of another host must not be joined by a second one."""
    record = HubRecord.load(home)
    if record is not None and record.host != socket.gethostname() and home.on_network():
        raise Unavailable(
            f"the hub of {home.root} runs on {record.host}",
            hint="work there, or set TURNOUT_HOME to a directory of this host\n"
            f"if that hub is gone for good: remove {home.hub_file}",
        )
