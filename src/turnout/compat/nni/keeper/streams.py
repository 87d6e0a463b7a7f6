"""What a trial writes, kept in the keeper's directory until the hub has it: byte by byte, and once."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from turnout.compat.nni.keeper.printed import Printed, points
from turnout.wire import frames, nni
from turnout.wire.stream import Outgoing

OUTPUT = "output"
#: Of one stream in one report.
_PIECE = 2 << 20
_PRINTED = "printed"
_LOGGED = re.compile(r"[0-9]{1,20}-[0-9a-f]{8}\.[0-9]{4,8}\Z")
_BLOCK = 1 << 20


class File:
    """One stream: a file that grows."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sender = Outgoing()

    def next(self) -> tuple[int, bytes]:
        """Where the next piece begins, and the piece; empty when there is nothing new."""
        offset, count = self.sender.piece(self.size(), _PIECE)
        if count <= 0:
            return offset, b""
        try:
            with open(self.path, "rb") as file:
                content = os.pread(file.fileno(), count, offset)
        except OSError:
            return offset, b""
        self.sender.mark_sent(offset, len(content))
        return offset, content

    def size(self) -> int:
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0


class Streams:
    """Of the trial whose keeper has this directory. `metrics` is the file of NNI's library; a `silent` trial's output
    stays here. For one thread."""

    def __init__(self, directory: str, metrics: str, *, silent: bool) -> None:
        self.output, self.track = f"{directory}/{OUTPUT}", f"{directory}/track"
        self._silent = silent
        self._files = {} if silent else {OUTPUT: File(self.output)}
        self._files[f"track/{nni.STREAM}"] = File(metrics)
        self._printed, self._read_to = Printed(), 0
        self._frames = File(f"{directory}/{_PRINTED}")
        self._files[f"track/{_PRINTED}"] = self._frames
        self._count, self._unwritten = 0, b""

    def look(self) -> None:
        """Searches what was printed since for metrics."""
        try:
            with open(self.output, "rb") as file:
                while piece := os.pread(file.fileno(), _BLOCK, self._read_to):
                    self._read_to += len(piece)
                    self._keep(self._printed.take(piece))
        except FileNotFoundError:
            return  # the trial removed it: what the hub has of it is kept

    def pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """Name, offset and bytes of what the hub may not have yet."""
        for name in sorted(os.listdir(self.track)) if os.path.isdir(self.track) else ():
            if _LOGGED.match(name):
                self._files.setdefault(f"track/{name}", File(f"{self.track}/{name}"))
        for name, file in self._files.items():
            offset, content = file.next()
            if content:
                yield name, offset, content

    def acknowledge(self, acks: dict[str, int]) -> None:
        """By stream, what the hub has. Only that counts: all else is told again."""
        for name, have in acks.items():
            if name in self._files:
                self._files[name].sender.ack(have)
        for file in self._files.values():
            file.sender.rewind()

    def is_all_offered(self) -> bool:
        """Whether the pieces since the last `acknowledge` reach the end of every stream."""
        return all(file.sender.sent >= file.size() for file in self._files.values())

    def taken(self) -> int:
        """How much of the output the hub has."""
        return self._files[OUTPUT].sender.acked if not self._silent else 0

    def seal(self) -> tuple[int, str]:
        """The length of the output that is told, and its SHA-256."""
        digest, size = hashlib.sha256(), 0
        if not self._silent and os.path.exists(self.output):
            with open(self.output, "rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
                    size += len(block)
        return size, digest.hexdigest()

    def _keep(self, records: bytes) -> None:
        """Records that were printed become frames, in a file: they are made once, also for who tells them later. Those
        for which there is no room on the disk are written with the next."""
        for point in points(records, time.time()) if records else ():
            self._unwritten += frames.encode(self._count, json.dumps(point).encode())
            self._count += 1
        if not self._unwritten:
            return
        size = self._frames.size()
        try:
            with open(self._frames.path, "ab") as file:
                file.write(self._unwritten)
            self._unwritten = b""
        except OSError:
            with suppress(OSError):
                os.truncate(self._frames.path, size)
