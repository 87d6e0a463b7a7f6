"""``agent.pyz relay``: brings the hub's socket for agents to nodes that share files with this machine, but not sockets.

It listens where they can reach it, over TLS with a certificate that the hub made, and passes everything on to the
socket; who comes still needs an agent's token. Where it listens is in the file ``relay.address`` beside the socket.
There is one for each directory; it ends when that is removed, or the hub could not be reached for long.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import socket
import ssl
import tempfile
import time
from typing import Any, Dict

from turnout.agent.log import say

ADDRESS = "relay.address"
_LOCK = "relay.lock"
_ALONE_SECONDS = 3600.0
_LOOK_SECONDS = 60.0
_PIECE = 1 << 16
#: Who comes and does not even begin to speak is in the way of others.
_GREETING_SECONDS = 10.0


def main(order: Dict[str, Any]) -> None:
    """Serves until the hub is gone. Returns at once where another does so in this directory. `order`: the `identity`
    (key and certificate, PEM), where to `listen` (HOST, or HOST:PORT), and the path of the `socket`."""
    os.umask(0o077)
    lock = os.open(_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    try:
        asyncio.run(_serve(order))
    finally:
        if os.path.exists(ADDRESS):
            os.unlink(ADDRESS)
        os.close(lock)


async def _serve(order: Dict[str, Any]) -> None:
    relay = _Relay(str(order["socket"]))
    host, _, port = str(order["listen"]).partition(":")
    identity = str(order["identity"])
    server = await asyncio.start_server(
        relay.serve, host, int(port or 0), ssl=_context(identity), ssl_handshake_timeout=_GREETING_SECONDS, backlog=256
    )
    number = server.sockets[0].getsockname()[1]
    known_as = socket.getfqdn() if host in ("0.0.0.0", "") else host
    _announce(f"tls:{known_as}:{number}#{_fingerprint(identity)}")
    say(f"relay on {host}:{number}")
    async with server:
        while time.monotonic() - relay.reached < _ALONE_SECONDS and os.path.exists(_LOCK):
            await asyncio.sleep(_LOOK_SECONDS)
            await relay.look()


class _Relay:
    def __init__(self, path: str) -> None:
        self._path = path
        self.reached = time.monotonic()

    async def look(self) -> None:
        """Whether somebody still listens at the socket."""
        try:
            _, writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            return
        self.reached = time.monotonic()
        writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.close()
            return
        self.reached = time.monotonic()
        ways = [
            asyncio.ensure_future(_pass_on(reader, inner_writer)),
            asyncio.ensure_future(_pass_on(inner_reader, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for each in (writer, inner_writer):
            each.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            piece = await reader.read(_PIECE)
            if not piece:
                return
            writer.write(piece)
            await writer.drain()
    except OSError:
        return


def _context(identity: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryFile("w") as file:  # it can be read from files alone; this has no name that could stay
        file.write(identity)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


def _fingerprint(identity: str) -> str:
    certificate = identity[identity.index("-----BEGIN CERTIFICATE") :]
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def _announce(address: str) -> None:
    fresh = f"{ADDRESS}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(address + "\n")
    os.replace(fresh, ADDRESS)
