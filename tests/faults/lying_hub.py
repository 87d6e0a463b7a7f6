"""A hub that does what a test wants, and an agent that believes it is real."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from turnout.wire.messages import Grant, JobOrder, Orders, Stop, dump, split_report

Attempt = tuple[int, int]
Body = dict[str, Any]
Answer = tuple[int, bytes]


@dataclass
class LyingHub:
    """Takes every fact and byte it is told, once, as a hub would.

    `meddle(path, message)` may give a (status, body) to be sent instead; then nothing is taken. What
    `spoil(path, answer)` gives is sent in place of the true answer, after all was taken.
    """

    directory: Path
    grants: dict[Attempt, Grant] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)
    repeat: list[Grant] = field(default_factory=list)
    """grants that are in every answer, whatever the agent says"""
    facts: dict[Attempt, list[str]] = field(default_factory=dict)
    bodies: dict[tuple[int, int, str], Body] = field(default_factory=dict)
    streams: dict[str, bytes] = field(default_factory=dict)
    puts: int = 0
    meddle: Callable[[str, Body], Answer | None] = lambda path, message: None
    spoil: Callable[[str, Answer], Answer] = lambda path, answer: answer

    @property
    def socket(self) -> str:
        return str(self.directory / "hub.sock")

    def grant(self, run: int, *argv: str, attempt: int = 1, job: int = 1) -> None:
        self.grants[run, attempt] = Grant(run, attempt, f"run{run}", job, list(argv), {}, 0.1, 0, 0)

    def is_over(self, run: int) -> bool:
        return "captured" in self.facts.get((run, 1), [])

    def answer(self, path: str, raw: bytes) -> Answer:
        if path == "/wire/blobs/put":
            self.puts += 1
            return 200, b'{"stored": 1}'
        payload = memoryview(b"")
        if path == "/wire/report":
            raw, payload = split_report(raw)
        message = json.loads(raw)
        meddled = self.meddle(path, message)
        if meddled is not None:
            return meddled
        if path == "/wire/blobs/missing":
            return 200, raw
        if path == "/wire/hello":
            return 200, b'{"node": "here", "lease": 2.0, "idle": 60.0, "max_runs": 2, "fenced": []}'
        acks = self._take(message, payload) if path == "/wire/report" else {}
        return self.spoil(path, (200, dump(self._orders(message.get("poll", message), acks))))

    def _take(self, message: Body, payload: memoryview) -> dict[str, int]:
        acks = {}
        for chunk in message["chunks"]:
            key = f"{chunk['run']}.{chunk['attempt']}/{chunk['stream']}"
            content, payload = bytes(payload[: chunk["size"]]), payload[chunk["size"] :]
            have = self.streams.get(key, b"")
            if chunk["offset"] <= len(have):
                self.streams[key] = have + content[len(have) - chunk["offset"] :]
            acks[key] = len(self.streams[key])
        for fact in message["facts"]:
            attempt = fact["run"], fact["attempt"]
            seen = self.facts.setdefault(attempt, [])
            if fact["kind"] not in seen:
                seen.append(fact["kind"])
                self.bodies[(*attempt, fact["kind"])] = fact["body"]
            if fact["kind"] in ("captured", "returned"):
                self.grants.pop(attempt, None)
        return acks

    def _orders(self, poll: Body, acks: dict[str, int]) -> Orders:
        held = {(run, attempt) for run, attempt in poll["held"]}
        grants = [grant for attempt, grant in self.grants.items() if attempt not in held] + self.repeat
        known = {grant.run for grant in self.repeat}
        fenced = [attempt for attempt in held if attempt not in self.grants and attempt[0] not in known]
        job = JobOrder(1, "e", "w", "command", None, None, None, ["output/**"], dict(os.environ), None, 1.0, None)
        return Orders(grants, [job], self.stops, fenced, [], acks, False)


@contextmanager
def agent_of(hub: LyingHub) -> Iterator[subprocess.Popen[bytes]]:
    """An agent's process that talks to this hub; ended afterwards, with all it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, body = hub.answer(self.path, _read_body(self))
            if self.path == "/wire/poll" and status == 200 and not json.loads(body)["grants"]:
                time.sleep(0.05)  # what a hub without news would do, in short
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "agent"

        def log_message(self, *_: object) -> None:
            pass

    node = hub.directory / "node"
    order = {
        "address": hub.socket, "token": "0" * 64, "launch_token": "1" * 32, "directory": str(node),
        "cache": str(hub.directory / "cache"),
    }  # fmt: skip
    with socketserver.ThreadingUnixStreamServer(hub.socket, Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with open(hub.directory / "agent.log", "wb") as log:
            agent = subprocess.Popen([sys.executable, "-m", "turnout.agent"], stdin=subprocess.PIPE, stderr=log)
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(order).encode())
        agent.stdin.close()
        try:
            yield agent
        finally:
            hub.meddle = lambda path, message: (401, b"go")
            try:
                agent.wait(15)
            finally:
                agent.kill()
                server.shutdown()


def _read_body(request: BaseHTTPRequestHandler) -> bytes:
    length = request.headers.get("Content-Length")
    if length is not None:
        return request.rfile.read(int(length))
    parts = []
    while size := int(request.rfile.readline(), 16):
        parts.append(request.rfile.read(size))
        request.rfile.readline()
    request.rfile.readline()
    return b"".join(parts)
