"""A small HTTP client over a Unix socket, TCP or TLS, for agent and client. One connection, one request at a time."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import ssl
from typing import BinaryIO, Dict, Iterable, Mapping, Optional, Sequence, Tuple, Union

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


class _PinnedConnection(http.client.HTTPSConnection):
    """To whoever has the certificate with this SHA-256 fingerprint, under whichever name; to nobody else."""

    def __init__(self, host: str, port: int, fingerprint: str, timeout: float) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the fingerprint says more than a name
        super().__init__(host, port, timeout=timeout, context=context)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        super().connect()
        shown = self.sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), self._fingerprint):
            self.close()
            raise OSError("it is not the hub that answers: its certificate is another")


class Answer:
    """The status and the body, read lazily when it is a stream."""

    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.stream: BinaryIO = raw

    def read(self) -> bytes:
        """All of it. Nothing is left for a destructor to close: what a signal raises in one of those is lost."""
        try:
            with self.stream:
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

    def __init__(self, address: Union[str, Sequence[str]], token: str, *, timeout: float = 60.0) -> None:
        """`address` is a socket path, ``tcp:HOST:PORT``, ``tls:HOST:PORT#SHA256`` (of the certificate), or the path of
        a file that has one of these, behind ``file:``; or several of them, of which the first that can be reached is
        used."""
        self._address = [address] if isinstance(address, str) else list(address)
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
                raise Unreachable(f"{self._address[0]}: {str(error) or type(error).__name__}") from error
        try:
            return self._once(method, path, body, headers, timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unreachable(f"{self._address[0]}: {str(error) or type(error).__name__}") from error

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _once(
        self, method: str, path: str, body: Body, headers: Optional[Mapping[str, str]], timeout: Optional[float]
    ) -> Answer:
        if self._raw is None:
            self._raw = self._connect()
        elif self._raw.sock is None:
            self._raw.connect()
        self._raw.sock.settimeout(timeout or self._timeout)
        merged: Dict[str, str] = {**self._headers, **(headers or {})}
        self._raw.request(method, path, body, merged, encode_chunked=not isinstance(body, (bytes, type(None))))
        return Answer(self._raw.getresponse())

    def _connect(self) -> http.client.HTTPConnection:
        """To the first address that can be reached."""
        problem: OSError = ConnectionError("no address to connect to")
        for address in self._address:
            try:
                raw = self._open(address)
                raw.connect()
                return raw
            except OSError as error:
                problem = error
        raise problem

    def _open(self, address: str) -> http.client.HTTPConnection:
        if address.startswith("file:"):
            with open(address[len("file:") :], encoding="utf-8") as file:
                return self._open(file.read().strip())
        if address.startswith("tls:"):
            where, _, fingerprint = address.partition("#")
            host, port = split_tcp(where)
            return _PinnedConnection(host, port, fingerprint, self._timeout)
        if address.startswith("tcp:"):
            host, port = split_tcp(address)
            self._headers["Host"] = f"{host}:{port}"
            return http.client.HTTPConnection(host, port, timeout=self._timeout)
        return _UnixConnection(address, self._timeout)


def split_tcp(address: str) -> Tuple[str, int]:
    host, _, port = address.partition(":")[2].rpartition(":")
    return host, int(port)
