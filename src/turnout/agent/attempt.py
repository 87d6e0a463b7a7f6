"""One attempt on this node, from grant to the hub's last acknowledgement."""

from __future__ import annotations

import hashlib
import json
import os
import time
from enum import Enum
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from turnout.agent.stage import RunDir
from turnout.agent.tree import ProcessId
from turnout.wire import frames
from turnout.wire.messages import Chunk, Fact, Grant
from turnout.wire.stream import Outgoing

OUTPUT = "output"
_ARTIFACT = b'"a":'


class Phase(Enum):
    STAGING = 1  # its directory is being filled
    READY = 2  # may be started once confirmed and a slot is free
    STARTED = 3  # the launcher was asked
    RUNNING = 4
    ENDED = 5  # over; its files are being captured
    CAPTURED = 6  # all is known; being told
    OVER = 7  # fenced or told: to be removed


class Attempt:
    """State of one attempt; used by the node's main thread alone, except `staged` and `captured`, which workers fill."""

    def __init__(self, grant: Grant, after: List[str], directory: RunDir) -> None:
        self.grant = grant
        self.after = after
        self.directory = directory
        self.phase = Phase.STAGING
        self.confirmed = False
        self.granted = time.monotonic()
        self.started = 0.0
        self.gpus: List[str] = []
        self.supervisor: Optional[ProcessId] = None
        self.pidfd: Optional[int] = None
        self.stop_cause: Optional[str] = None
        self.facts: List[Fact] = []
        self.result: Optional[Dict[str, Any]] = None
        self.quiet = 0
        self.artifacts: Set[str] = set()
        self._streams: Dict[str, Outgoing] = {}

    @property
    def ref(self) -> Tuple[int, int]:
        return self.grant.run, self.grant.attempt

    @property
    def key(self) -> str:
        return f"{self.grant.run}.{self.grant.attempt}"

    @property
    def uses_slot(self) -> bool:
        return self.phase in (Phase.STARTED, Phase.RUNNING)

    def add_fact(self, kind: str, body: Dict[str, Any]) -> None:
        self.facts.append(Fact(self.grant.run, self.grant.attempt, kind, time.time(), body))

    def chunks(self, budget: int) -> Iterator[Tuple[Chunk, bytes]]:
        """New bytes of output and spool, at most about `budget`."""
        for name, path in self._sources():
            stream = self._streams.setdefault(name, Outgoing())
            try:
                available = os.stat(path).st_size
                offset, size = stream.piece(available, budget)
                if size <= 0:
                    continue
                content = _read(path, offset, size)
            except OSError:
                continue
            if content:
                if name != OUTPUT and _ARTIFACT in content:
                    self.artifacts.update(_artifacts(content))
                stream.mark_sent(offset, len(content))
                budget -= len(content)
                yield Chunk(self.grant.run, self.grant.attempt, name, offset, len(content)), content

    def is_all_sent(self) -> bool:
        """Whether every byte there is has been offered to the hub."""
        for name, path in self._sources():
            stream = self._streams.get(name)
            try:
                size = os.stat(path).st_size
            except OSError:
                continue
            if size and (stream is None or stream.sent < size):
                return False
        return True

    def acknowledge(self, name: str, have: int) -> None:
        """The hub has so much. Of a spool it may have less than was sent: a last frame that was torn."""
        stream = self._streams.get(name)
        if stream is None:
            return
        stream.ack(have)
        if name != OUTPUT:
            self._drop_finished_segment(name, have)

    def rewind(self) -> None:
        """After an answer, or none: only what was acknowledged counts."""
        for stream in self._streams.values():
            stream.rewind()

    def output_seal(self) -> Tuple[int, str]:
        """Length and hash of the whole output."""
        digest, size = hashlib.sha256(), 0
        try:
            with open(self.directory.output, "rb") as file:
                while True:
                    piece = file.read(1 << 20)
                    if not piece:
                        break
                    digest.update(piece)
                    size += len(piece)
        except FileNotFoundError:
            pass
        return size, digest.hexdigest()

    def _drop_finished_segment(self, name: str, have: int) -> None:
        """A segment that the hub has whole, and behind which its writer began another, is not needed any more."""
        writer, _, segment = name.rpartition(".")
        follower = f"{writer}.{int(segment) + 1:0{len(segment)}d}" if segment.isdigit() else ""
        path = os.path.join(self.directory.ctl, name)
        if follower and os.path.exists(os.path.join(self.directory.ctl, follower)) and os.stat(path).st_size == have:
            os.unlink(path)

    def _sources(self) -> Iterator[Tuple[str, str]]:
        yield OUTPUT, self.directory.output
        try:
            names = sorted(os.listdir(self.directory.track))
        except OSError:
            return
        for name in names:
            yield f"track/{name}", os.path.join(self.directory.track, name)


def _artifacts(content: bytes) -> Iterator[str]:
    """Paths the run asked to keep, from a piece of its spool that begins with a frame."""
    first = frames.HEADER.unpack_from(content)[2] if len(content) >= frames.HEADER.size else 0
    for frame in frames.scan(content, first_seq=first):
        if _ARTIFACT in frame.payload:
            record = json.loads(frame.payload)
            if isinstance(record, dict) and isinstance(record.get("a"), str):
                yield record["a"]


def _read(path: str, offset: int, size: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)
