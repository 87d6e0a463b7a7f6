"""What the launches of the kit start in the place of an agent: it tells the kit how it was started, and does as told.

It runs on any Python from 3.9 on, as one file, with nothing of ours beside it. Its order is the JSON on standard input,
or, where it is a run, in the variable ``TURNOUT_KIT``. When the kit is silent for long, it ends.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

_SILENCE = 20.0
_LARGEST = 1 << 20  # of a file that is looked into


class _Line(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("kit", timeout=30.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def main() -> None:
    as_run = os.environ.get("TURNOUT_KIT")
    raw = as_run.encode("utf-8", "surrogateescape") if as_run else sys.stdin.buffer.read()
    order = json.loads(raw)
    told = _introduction(order, raw)
    heard = time.monotonic()
    while time.monotonic() - heard < _SILENCE:
        try:
            command = _ask(str(order["address"]), told)
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.1)
            continue
        heard = time.monotonic()
        told = {"id": order["id"], "pid": os.getpid(), **_obey(command)}
    sys.exit(9)


def _introduction(order: dict[str, Any], raw: bytes) -> dict[str, Any]:
    return {
        "id": order["id"], "pid": os.getpid(), "host": socket.gethostname(), "argv": sys.argv[1:],
        "env": {name: ascii(value) for name, value in os.environ.items()}, "cwd": os.getcwd(),
        "size": len(raw), "digest": hashlib.sha256(raw).hexdigest(), "files": sorted(os.listdir(".")),
        "stdin_mode": _mode_of_input(), "started": True,
    }  # fmt: skip


def _mode_of_input() -> int:
    """What others may do with standard input, if that is a file."""
    try:
        found = os.fstat(0)
    except OSError:
        return 0
    return stat.S_IMODE(found.st_mode) & 0o077 if stat.S_ISREG(found.st_mode) else 0


def _ask(address: str, told: dict[str, Any]) -> dict[str, Any]:
    line = _Line(address)
    try:
        line.request("POST", "/kit", json.dumps(told).encode())
        answer: dict[str, Any] = json.loads(line.getresponse().read())
        return answer
    finally:
        line.close()


def _obey(command: dict[str, Any]) -> dict[str, Any]:
    what = command.get("do")
    if what == "exit":
        sys.stdout.flush()
        os._exit(int(command["code"]))
    if what == "print":
        sys.stdout.write(command["text"])
        sys.stdout.flush()
    elif what == "write":
        with open(command["name"], "w", encoding="utf-8") as file:
            file.write(command["text"])
    elif what == "spawn":
        # Two generations, for a provider that ends only what it started itself, or only the children of that.
        child = subprocess.Popen(
            ["sh", "-c", "sleep 600 & echo $!; wait"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        return {"done": what, "processes": [child.pid, int(child.stdout.readline())]}
    elif what == "scan":
        found = [*_processes_with(command["secret"]), *_files_with(command["secret"], command["folders"])]
        return {"done": what, "found": found}
    return {"done": what}


def _processes_with(secret: str) -> Iterator[str]:
    """Processes of this machine that show the secret in their arguments or environment."""
    for pid in os.listdir("/proc") if os.path.isdir("/proc") else ():
        for name in ("cmdline", "environ") if pid.isdigit() else ():
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if secret.encode() in file.read():
                        yield f"{name} of process {pid}"
            except OSError:
                continue


def _files_with(secret: str, folders: list[str]) -> Iterator[str]:
    """Files below here and below `folders` that have the secret in them and that others may read."""
    for folder in {os.path.realpath(each) for each in (*folders, ".")}:
        for root, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(root, name)
                if _is_open(path) and _has(path, secret.encode()):
                    yield f"file {path}"


def _is_open(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and bool(found.st_mode & 0o077) and found.st_size <= _LARGEST


def _has(path: str, secret: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return secret in file.read()
    except OSError:
        return False


if __name__ == "__main__":
    main()
