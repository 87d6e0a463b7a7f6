"""The small HTTP client that agent and command line share."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from turnout.wire.http import Connection


class Greeter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    with TemporaryDirectory(prefix="to-") as folder:
        path = str(Path(folder) / "hub.sock")
        with socketserver.ThreadingUnixStreamServer(path, Greeter) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield path
            server.shutdown()


def test_what_was_read_is_closed(address: str) -> None:
    """Else its destructor would do it, in Python, and a Ctrl-C that comes just then is lost: there it can be raised to
    nobody. Of a command that asks the hub again and again, that was one in four hundred."""
    connection = Connection(address, "")
    for _ in range(2):
        answer = connection.request("GET", "/")
        assert (answer.status, answer.read()) == (200, b"hello")
        assert answer.stream.closed
    connection.close()
