"""An attempt's output and spool on their way to the hub, by the rules of ``turnout.agent.streams``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from turnout.testing.simulator.command import Files
from turnout.wire import frames
from turnout.wire.messages import Attempt, Chunk
from turnout.wire.stream import Outgoing

OUTPUT = "output"
PIECE = 80  # of one stream in one report; a frame must fit in


class Spool:
    """One file of frames; the hub takes whole and undamaged ones. `given_up`: no more of it can ever be taken."""

    __slots__ = ("content", "given_up", "offered", "sender", "stuck_at")

    def __init__(self, content: bytearray) -> None:
        self.content = content
        self.sender = Outgoing()
        self.given_up = False
        self.offered = 0
        self.stuck_at = -1

    def next(self) -> tuple[int, bytes]:
        offset, size = self.sender.piece(len(self.content), PIECE)
        if self.given_up or not size or len(self.content) == self.stuck_at:
            return offset, b""
        if self.stuck_at >= 0 and _holds_frame(self.content[offset : self.stuck_at]):
            self.given_up = True
            return offset, b""
        self.sender.mark_sent(offset, size)
        self.offered = offset + size
        return offset, bytes(self.content[offset : offset + size])

    def is_all_offered(self) -> bool:
        size = len(self.content)
        return self.given_up or self.sender.sent >= size or size == self.stuck_at

    def acknowledge(self, have: int) -> None:
        self.stuck_at = self.offered if have == self.sender.acked and have < self.offered else -1
        self.sender.ack(have)


class Shipping:
    """`pieces` are sent; then `acknowledge` for each that was answered, and `rewind` whether it was or not."""

    def __init__(self, ref: Attempt, files: Files) -> None:
        self._ref = ref
        self._files = files
        self._output = Outgoing()
        self._sealed: int | None = None
        self._spools: dict[str, Spool] = {}

    def pieces(self, room: int) -> Iterator[tuple[Chunk, bytes]]:
        offset, size = self._output.piece(self._length(), min(room, PIECE))
        if size:
            self._output.mark_sent(offset, size)
            room -= size
            yield Chunk(*self._ref, OUTPUT, offset, size), bytes(self._files.output[offset : offset + size])
        for name in self._files.spool:
            if name not in self._spools:
                self._spools[name] = Spool(self._files.spool[name])
        for name in list(self._spools):
            if room < PIECE:
                return
            spool = self._spools.pop(name)  # those sent last come last
            self._spools[name] = spool
            offset, content = spool.next()
            if content:
                room -= len(content)
                yield Chunk(*self._ref, name, offset, len(content)), content

    def is_all_offered(self) -> bool:
        return self._output.sent >= self._length() and all(spool.is_all_offered() for spool in self._spools.values())

    def acknowledge(self, name: str, have: int) -> bool:
        """Whether a finished segment could be removed."""
        if name == OUTPUT:
            self._output.ack(have)
            return False
        spool = self._spools.get(name)
        if spool is None:
            return False
        spool.acknowledge(have)
        follower = f"{name[:-4]}{int(name[-4:]) + 1:04d}"
        if follower not in self._spools or spool.given_up or spool.sender.acked != len(spool.content):
            return False
        del self._spools[name]
        self._files.spool.pop(name, None)
        return True

    def rewind(self) -> None:
        self._output.rewind()
        for spool in self._spools.values():
            spool.sender.rewind()

    def seal(self) -> dict[str, object]:
        """Nothing of the attempt is alive: how long its output is, and its hash."""
        self._sealed = max(len(self._files.output), self._output.acked)
        whole = self._sealed == len(self._files.output)
        digest = hashlib.sha256(self._files.output).hexdigest() if whole else None
        return {"output_bytes": self._sealed, "output_sha256": digest}

    def settle(self) -> dict[str, object]:
        """The hub does not agree with the seal: what it has is the output."""
        self._sealed = self._output.acked
        return {"output_bytes": self._sealed, "output_sha256": None}

    def _length(self) -> int:
        return len(self._files.output) if self._sealed is None else self._sealed


def _holds_frame(content: bytes | bytearray) -> bool:
    if len(content) < frames.HEADER.size:
        return False
    length: int = frames.HEADER.unpack_from(content)[0]
    return length > frames.MAX_PAYLOAD or len(content) >= frames.HEADER.size + length
