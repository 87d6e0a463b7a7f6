"""How an agent on another machine reaches the hub: its socket, a relay beside that, or a port of the hub's."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.harness import wait_until
from turnout.agent import relay as relaying
from turnout.hub.doors import far_door
from turnout.hub.identity import identity
from turnout.wire.http import Connection, Unreachable


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def address_string(self) -> str:
        return "somebody"


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a socket where somebody repeats what is said."""
    monkeypatch.chdir(tmp_path)  # paths of sockets must be short
    with Server("agent.sock", Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path
        server.shutdown()


@pytest.fixture
def relay(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    identity(place / "hub.pem")
    order = {"identity": (place / "hub.pem").read_text(), "listen": "127.0.0.1", "socket": "agent.sock"}
    process = subprocess.Popen(
        [sys.executable, "-m", "turnout.agent", "relay"], stdin=subprocess.PIPE, cwd=place, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order).encode())
    process.stdin.close()
    wait_until(lambda: (place / "relay.address").exists())
    yield process
    process.kill()
    process.wait()


def say(address: object, what: bytes = b"hello") -> bytes:
    connection = Connection(address, "token", timeout=10.0)  # type: ignore[arg-type]
    try:
        return connection.request("POST", "/", what).read()
    finally:
        connection.close()


def test_a_relay_ends_with_its_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(os, "umask", lambda mask: 0)  # it would hold for all of this process
    identity(place / "hub.pem")
    order = {"identity": (place / "hub.pem").read_text(), "listen": "127.0.0.1", "socket": "agent.sock"}
    serving = threading.Thread(target=relaying.main, args=(order,))
    serving.start()
    wait_until(lambda: (place / "relay.address").exists())
    (place / "relay.lock").unlink()
    serving.join(20)
    assert not serving.is_alive() and not (place / "relay.address").exists()


def test_the_first_way_that_works_is_taken(place: Path) -> None:
    assert say(["nowhere.sock", "file:nowhere", "tls:127.0.0.1:1#ab", "agent.sock"]) == b"hello"
    with pytest.raises(Unreachable):
        say(["nowhere.sock", "file:nowhere"])


@pytest.mark.usefixtures("relay")
def test_a_relay_passes_everything_on(place: Path) -> None:
    large = os.urandom(5_000_000)
    assert say("file:relay.address", large) == large
    assert not [each for each in place.iterdir() if each.name.startswith("tmp")], "no key is left lying about"
    assert (place / "relay.address").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("relay")
def test_a_relay_is_known_by_its_certificate(place: Path) -> None:
    address = (place / "relay.address").read_text().strip()
    assert say(address) == b"hello"
    other = identity(place / "other.pem")
    with pytest.raises(Unreachable, match="not the hub that answers"):
        say(f"{address.partition('#')[0]}#{other}")


def test_a_relay_is_not_impressed_by_strangers(place: Path, relay: subprocess.Popen[bytes]) -> None:
    """Who says nothing, or something else, or leaves in the middle of it, is in nobody's way."""
    _, host, port = (place / "relay.address").read_text().partition("#")[0].split(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(50)]
    for said in (b"", b"\0" * 100_000, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + os.urandom(70_000)):
        with socket.create_connection((host, int(port)), timeout=10) as raw, contextlib.suppress(OSError):
            raw.sendall(said)
    for said in (b"", os.urandom(300_000), b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx"):
        raw = socket.create_connection((host, int(port)), timeout=10)
        with context.wrap_socket(raw) as tls, contextlib.suppress(OSError):
            tls.sendall(said)
    assert say("file:relay.address") == b"hello" and relay.poll() is None
    for each in silent:
        each.close()
    opened = Path(f"/proc/{relay.pid}/fd")
    wait_until(lambda: len(os.listdir(opened)) < 20, 30.0, "nothing is left of them")
    assert say("file:relay.address") == b"hello"


def test_there_is_one_relay_for_a_directory(place: Path, relay: subprocess.Popen[bytes]) -> None:
    before = (place / "relay.address").read_text()
    order = {"identity": (place / "hub.pem").read_text(), "listen": "127.0.0.1", "socket": "agent.sock"}
    second = subprocess.run(
        [sys.executable, "-m", "turnout.agent", "relay"], input=json.dumps(order).encode(), cwd=place, timeout=20,
        check=True,
    )  # fmt: skip
    assert second.returncode == 0 and relay.poll() is None and (place / "relay.address").read_text() == before


def test_a_door_for_agents_tells_where_it_is(tmp_path: Path) -> None:
    door = far_door("127.0.0.1:0", tmp_path / "tls" / "hub.pem")
    port = door.socket.getsockname()[1]
    assert door.address == f"tls:127.0.0.1:{port}#{identity(tmp_path / 'tls' / 'hub.pem')}"
    assert (tmp_path / "tls" / "hub.pem").stat().st_mode & 0o777 == 0o600
    door.socket.close()
