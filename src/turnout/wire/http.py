"""A small HTTP client over a Unix socket or TCP, for agent and client. One connection, one request at a time."""

from __future__ import annotations

import http.client
import json
import socket
from typing import BinaryIO, Dict, Iterable, Mapping, Optional, Tuple, Union

Body = Union[bytes, Iterable[bytes], None]
_DEAD = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Unreachable(OSError):
    """No answer: nobody listens, the connection broke, or time ran out. The request may or may not have been done."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("turnout", timeout=timeout or 60.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Answer:
    """The status and the body, read lazily when it is a stream."""

    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.stream: BinaryIO = raw

    def read(self) -> bytes:
        try:
            return self.stream.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the answer broke off: {error}") from error

    def json(self) -> object:
        return json.loads(self.read() or b"null")


class Connection:
    """Keeps one connection open. Not for use by two threads.

    Retries nothing, except on a kept connection that turned out dead before a byte was answered, and then only requests
    marked `again` (those the hub may get twice).
    """

    def __init__(self, address: str, token: str, *, timeout: float = 60.0) -> None:
        """`address` is a socket path, or ``host:port`` behind ``tcp:``."""
        self._address = address
        self._headers = {"Authorization": f"Bearer {token}", "Host": "turnout"}
        self._timeout = timeout
        self._raw: Optional[http.client.HTTPConnection] = None

    def request(
        self,
        method: str,
        path: str,
        body: Body = None,
        *,
        headers: Optional[Mapping[str, str]] = None,
        timeout: Optional[float] = None,
        again: bool = True,
    ) -> Answer:
        """Raises Unreachable when there is no answer; an answer of any status is returned."""
        fresh = self._raw is None
        try:
            return self._once(method, path, body, headers, timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            stale = not fresh and isinstance(error, _DEAD)
            if not (stale and again and (body is None or isinstance(body, bytes))):
                raise Unreachable(f"{self._address}: {str(error) or type(error).__name__}") from error
        try:
            return self._once(method, path, body, headers, timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unreachable(f"{self._address}: {str(error) or type(error).__name__}") from error

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _once(
        self, method: str, path: str, body: Body, headers: Optional[Mapping[str, str]], timeout: Optional[float]
    ) -> Answer:
        if self._raw is None:
            self._raw = self._connect()
        limit = timeout or self._timeout
        if self._raw.sock is None:
            self._raw.connect()
        self._raw.sock.settimeout(limit)
        merged: Dict[str, str] = {**self._headers, **(headers or {})}
        self._raw.request(method, path, body, merged, encode_chunked=not isinstance(body, (bytes, type(None))))
        return Answer(self._raw.getresponse())

    def _connect(self) -> http.client.HTTPConnection:
        if self._address.startswith("tcp:"):
            host, port = split_tcp(self._address)
            self._headers["Host"] = f"{host}:{port}"
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        return _UnixConnection(self._address, self._timeout)


def split_tcp(address: str) -> Tuple[str, int]:
    host, _, port = address[len("tcp:") :].rpartition(":")
    return host, int(port)
