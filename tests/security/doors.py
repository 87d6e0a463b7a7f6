"""An attacker's tools: a hub with all its doors open, raw requests to each of them, and tokens of agents."""

from __future__ import annotations

import hashlib
import http.client
import json
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness import Cli, fresh_user

HUB_SOCKET, AGENT_SOCKET, TCP = "hub.sock", "agent.sock", "tcp"
DOORS = (HUB_SOCKET, AGENT_SOCKET, TCP)
Headers = Mapping[str, str] | list[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class LivingHub:
    """A running hub that listens on both sockets and on a port, its user's command line, and its secrets."""

    cli: Cli
    sockets: Path
    port: int
    token: str

    def connect(self, door: str) -> socket.socket:
        if door == TCP:
            return socket.create_connection(("127.0.0.1", self.port), timeout=10)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(10)
        opened.connect(str(self.sockets / door))
        return opened

    def host(self, door: str) -> str:
        return f"127.0.0.1:{self.port}" if door == TCP else "turnout"

    def ask(
        self,
        door: str,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Headers | None = None,
        body: bytes = b"",
    ) -> Answer:
        """One request on a fresh connection. Host is the right one unless `headers` has another."""
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers or ())
        if token is not None:
            given.append(("Authorization", f"Bearer {token}"))
        if not any(name.lower() == "host" for name, _ in given):
            given.append(("Host", self.host(door)))
        if body or method in ("POST", "PUT", "PATCH"):
            given.append(("Content-Length", str(len(body))))
        head = "".join(f"{name}: {value}\r\n" for name, value in given)
        return self.say(door, f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body, method)

    def say(self, door: str, message: bytes, method: str = "GET") -> Answer:
        """These very bytes, and what is answered."""
        with closing(self.connect(door)) as opened:
            opened.sendall(message)
            answer = http.client.HTTPResponse(opened, method=method)
            answer.begin()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def api(self, method: str, path: str, content: object = None, *, key: str | None = None) -> Answer:
        """As the user's own tools ask."""
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.ask(HUB_SOCKET, method, path, token=self.token, headers=headers, body=body)

    def state(self) -> tuple[Any, ...]:
        """All that a request could have changed: the hub itself, its jobs and the states of its runs."""
        jobs, runs = self.api("GET", "/api/jobs").json(), self.api("GET", "/api/runs").json()
        pid = self.api("GET", "/api/hub").json()["pid"]
        return pid, [job["name"] for job in jobs], [(run["name"], run["state"], run["metrics"]) for run in runs]


def a_spec(*argv: str, **more: object) -> dict[str, object]:
    """The body of a submission."""
    command = list(argv) or ["true"]
    return {"kind": "command", "display": command, "runs": [{"argv": command}], **more}


@contextmanager
def living_hub(*, settings: str = "", env: Mapping[str, str] | None = None, listen: bool = True) -> Iterator[LivingHub]:
    with fresh_user() as user:
        if settings:
            user.home.mkdir(mode=0o700)
            (user.home / "config.yaml").write_text(settings)
        user("hub", "start", *(("--listen", "127.0.0.1:0") if listen else ()), env=env)
        yield _found(user)


def _found(cli: Cli) -> LivingHub:
    record = json.loads((cli.home / "hub.json").read_text())
    port = int(record["tcp"].rpartition(":")[2]) if record["tcp"] else 0
    token = (cli.home / "token").read_text()
    return LivingHub(cli=cli, sockets=Path(record["socket"]).parent, port=port, token=token)


def enrol(home: Path, target: str, node: str, *, state: str = "up", handle: str | None = None) -> tuple[int, str]:
    """Writes an agent into the store, as the hub does before it starts one: (id, its token)."""
    token = secrets.token_hex(32)
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    row = (target, node, "", secrets.token_hex(16), token_hash, state, handle, time.time())
    columns = "target, node, directory, launch_token, token_hash, state, handle, created"
    with closing(sqlite3.connect(home / "turnout.db", timeout=20)) as database, database:
        cursor = database.execute(f"INSERT INTO agents ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    assert cursor.lastrowid is not None
    return cursor.lastrowid, token
