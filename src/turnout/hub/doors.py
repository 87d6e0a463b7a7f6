"""Where the hub can be reached: two sockets of this user, a port for a browser, a port for agents of other machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvicorn

from turnout.errors import Conflict, Unavailable
from turnout.hub.identity import identity
from turnout.hub.security import App

#: What those say that have no name for us.
NAMELESS = ("turnout",)
_ANY = ("0.0.0.0", "::", "")
#: How long requests that are under way may take when the hub is told to stop.
_DRAIN_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Door:
    """`hosts` are what those who come may call it. One `for_agents` leads to the wire routes only."""

    socket: socket.socket
    hosts: Sequence[str] = NAMELESS
    for_agents: bool = False
    certificate: Path | None = None
    address: str = ""

    def server(self, app: App) -> Server:
        # Everybody on this machine can reach a port: there, the parser that bounds headers. The fast one does not.
        parser: Literal["h11", "auto"] = "auto" if self.socket.family == socket.AF_UNIX else "h11"
        settings = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", timeout_keep_alive=75,
            server_header=False, date_header=False, proxy_headers=False, http=parser,
            timeout_graceful_shutdown=_DRAIN_SECONDS, ssl_certfile=self.certificate,
        )  # fmt: skip
        return Server(settings)


def unix_door(path: Path, *, for_agents: bool = False) -> Door:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # left by a hub that was killed: we hold the lock
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(str(path))
    finally:
        os.umask(before)
    bound.listen(128)
    return Door(bound, for_agents=for_agents)


def browser_door(listen: str) -> Door:
    """Without TLS, so on this machine only."""
    host, port = _split(listen)
    if host not in ("127.0.0.1", "localhost"):
        raise Conflict(f"will not listen on {host!r} without TLS", hint="use --listen 127.0.0.1:PORT and an SSH tunnel")
    bound = _bind("127.0.0.1", port)
    number = bound.getsockname()[1]
    return Door(bound, (f"127.0.0.1:{number}", f"localhost:{number}"), address=f"127.0.0.1:{number}")


def far_door(listen: str, certificate: Path) -> Door:
    """For agents of other machines, who know us by our certificate, which is made if it is not there."""
    host, port = _split(listen)
    bound = _bind(host, port)
    known_as = socket.getfqdn() if host in _ANY else host
    address = f"tls:{known_as}:{bound.getsockname()[1]}#{identity(certificate)}"
    return Door(bound, for_agents=True, certificate=certificate, address=address)


class Server(uvicorn.Server):
    """Ends when it is told to `stop`. Signals are the hub's business, not each server's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Else it wakes ten times a second, for a header and a limit that are not used here."""
        await self._stopping.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _split(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        raise Conflict(f"{listen!r} is no address to listen on", hint="write HOST:PORT, as in 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=128)
        # asyncio does so only for sockets that say which protocol is theirs; without it an answer takes 40 ms longer.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        hint = "give another port, or 0 for any that is free"
        raise Unavailable(f"cannot listen on {host}:{port}: {error.strerror}", hint=hint) from error
    return bound
