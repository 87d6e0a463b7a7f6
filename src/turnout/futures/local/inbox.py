"""What workers say, taken apart."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import NamedTuple

from turnout.futures.local.frames import BUFFER, HEAD, RESULT

_AT_ONCE = 1 << 18


class Frame(NamedTuple):
    kind: int
    body: bytes


class Result(NamedTuple):
    """See `packing.make`; `buffers` are what segments are called."""

    number: int
    ended: int
    seconds: float
    data: bytes
    buffers: list[bytes]


class Inbox:
    def __init__(self, line: socket.socket) -> None:
        """`line` does not block."""
        self._line = line
        self._read = bytearray()

    def take(self) -> list[Frame]:
        """All that has arrived whole."""
        while True:
            try:
                data = self._line.recv(_AT_ONCE)
            except OSError:  # there is no more now, or ever
                break
            self._read += data
            if len(data) < _AT_ONCE:
                break
        found, at = [], 0
        while len(self._read) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(self._read, at)
            end = at + HEAD.size + length
            if len(self._read) < end:
                break
            found.append(Frame(kind, bytes(self._read[at + HEAD.size : end])))
            at = end
        del self._read[:at]
        return found


def results(body: bytes) -> Iterator[Result]:
    at = 0
    while at < len(body):
        number, ended, seconds, length, count = RESULT.unpack_from(body, at)
        at += RESULT.size
        data = body[at : at + length]
        at += length
        end = at + count * BUFFER.size
        buffers = [body[each : each + BUFFER.size] for each in range(at, end, BUFFER.size)]
        at = end
        yield Result(number, ended, seconds, data, buffers)
