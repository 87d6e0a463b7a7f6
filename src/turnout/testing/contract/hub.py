"""The kit's own hub: hears what was started, tells it what to do, and takes the hello of a real agent."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from turnout.wire.messages import Orders, Welcome, dump

_WAIT = 0.5
Told = dict[str, Any]


@dataclass
class Program:
    """One launch, as what it started tells it: `starts` are the introductions of its processes, `done` what they did
    since."""

    starts: list[Told] = field(default_factory=list)
    done: list[Told] = field(default_factory=list)
    commands: list[Told] = field(default_factory=list)


class KitHub:
    """Listens on `address`, a socket, from `open` to `close`. From any thread."""

    def __init__(self, address: Path) -> None:
        self.address = str(address)
        self.hellos: dict[str, Told] = {}
        self._programs: dict[str, Program] = {}
        self._news = threading.Condition()
        self._is_closing = False
        self._server: _Server | None = None

    def open(self) -> None:
        hub = self

        class Handler(_Handler):
            def answer(self, path: str, token: str, body: bytes) -> bytes:
                return hub._answer(path, token, body)

        server = self._server = _Server(self.address, Handler)
        # Providers for other machines may come here as another user; the token is what counts, as with the hub.
        os.chmod(self.address, 0o666)
        threading.Thread(target=server.serve_forever, args=(0.05,), name="kit hub", daemon=True).start()

    def close(self) -> None:
        """Everything that is still there is sent home."""
        with self._news:
            self._is_closing = True
            self._news.notify_all()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @staticmethod
    def owns(thread: threading.Thread) -> bool:
        """Whether a thread is one in which a hub of the kit answers."""
        return "process_request_thread" in thread.name

    def program(self, id: str) -> Program:
        with self._news:
            return self._programs.setdefault(id, Program())

    def tell(self, id: str, do: str, **more: object) -> None:
        with self._news:
            self._programs.setdefault(id, Program()).commands.append({"do": do, **more})
            self._news.notify_all()

    def _answer(self, path: str, token: str, body: bytes) -> bytes:
        if path == "/kit":
            return json.dumps(self._next(json.loads(body))).encode()
        if path == "/wire/hello":
            with self._news:
                self.hellos[token] = json.loads(body)
            return dump(Welcome("kit", 30.0, 1.0, 1, []))
        return dump(Orders([], [], [], [], exit=True))

    def _next(self, told: Mapping[str, Any]) -> Told:
        """Waits a little for something to tell."""
        program = self.program(told["id"])
        with self._news:
            if told.get("started"):
                program.starts.append(dict(told))
            elif told.get("done") != "wait":
                program.done.append(dict(told))
            if not program.commands and not self._is_closing:
                self._news.wait(_WAIT)
            if program.commands:
                return program.commands.pop(0)
            return {"do": "exit", "code": 0} if self._is_closing else {"do": "wait"}


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Programs are ended in the middle of a sentence all the time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, path: str, token: str, body: bytes) -> bytes:
        raise NotImplementedError

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        answer = self.answer(self.path, token, body)
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True  # who asked was ended meanwhile

    def address_string(self) -> str:
        return "program"

    def log_message(self, *_: object) -> None:
        pass
