"""The agent's lines to the hub. Each request may be repeated: the hub knows what it has."""

from __future__ import annotations

import json
from typing import BinaryIO, Callable, Iterator, List, Tuple, TypeVar, Union

from turnout.wire import messages, pack
from turnout.wire.http import Answer, Connection, Unreachable
from turnout.wire.messages import Hello, Orders, Poll, Welcome

_PACK_SIZE = 16 << 20
_PAUSE, _PAUSE_AT_A_SOCKET = 1.0, 0.2  # whether a socket of this machine is there costs nothing to see
T = TypeVar("T")


class Refused(Exception):
    """The hub answered, and said no. `status` 401: it knows us no more. 409: it wants a hello first, or files."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HubLine:
    """One connection, for one thread. Requests raise wire.http.Unreachable or Refused."""

    def __init__(self, address: Union[str, List[str]], token: str) -> None:
        self._connection = Connection(address, token, timeout=30.0)
        is_socket = isinstance(address, str) and address.startswith("/")
        self.longest_pause = _PAUSE_AT_A_SOCKET if is_socket else _PAUSE
        """seconds between tries while the hub does not answer"""

    def hello(self, message: Hello) -> Welcome:
        return _understand(messages.load_welcome, self._ask("/wire/hello", messages.dump(message)))

    def poll(self, message: Poll) -> Orders:
        answer = self._ask("/wire/poll", messages.dump(message), timeout=message.wait + 20.0)
        return _understand(messages.load_orders, answer)

    def report(self, body: bytes) -> Orders:
        return _understand(messages.load_orders, self._ask("/wire/report", body, timeout=60.0))

    def missing(self, digests: List[str]) -> List[str]:
        return list(_understand(json.loads, self._ask("/wire/blobs/missing", json.dumps(digests).encode())))

    def fetch(self, digests: List[str]) -> BinaryIO:
        """A stream of these blobs as wire.pack has them, in this order; it ends early when the hub cannot give one.

        `close` the line when it was not read to its end.
        """
        return self._ask("/wire/blobs/get", json.dumps(digests).encode(), timeout=600.0).stream

    def put(self, blobs: Iterator[Tuple[str, int, BinaryIO]]) -> None:
        """Uploads (digest, size, open file) in packs; each pack is on the hub's disk when the next is begun."""
        waiting: List[bytes] = []
        size = 0
        for digest, length, file in blobs:
            with file:
                if length > _PACK_SIZE:
                    self._ask("/wire/blobs/put", _pieces(digest, length, file), timeout=3600.0).read()
                    continue
                content = file.read(length + 1)
            waiting.append(pack.entry(digest, content))
            size += length
            if size > _PACK_SIZE:
                self._put_pack(waiting)
                waiting, size = [], 0
        if waiting:
            self._put_pack(waiting)

    def close(self) -> None:
        self._connection.close()

    def _put_pack(self, entries: List[bytes]) -> None:
        self._ask("/wire/blobs/put", b"".join(entries), timeout=600.0).read()

    def _ask(self, path: str, body: object, timeout: float = 30.0) -> Answer:
        answer = self._connection.request("POST", path, body, timeout=timeout)  # type: ignore[arg-type]
        if answer.status == 200:
            return answer
        text = answer.read().decode("utf-8", "replace")
        if answer.status >= 500 or answer.status == 429:
            raise Unreachable(f"the hub is in trouble: {text[:200]}")
        raise Refused(answer.status, text[:500])


def _understand(load: Callable[[bytes], T], answer: Answer) -> T:
    try:
        return load(answer.read())
    except (ValueError, TypeError, KeyError) as error:
        raise Unreachable(f"the hub's answer makes no sense: {error}") from error


def _pieces(digest: str, size: int, file: BinaryIO) -> Iterator[bytes]:
    yield pack.header(digest, size)
    while True:
        piece = file.read(1 << 20)
        if not piece:
            return
        yield piece
