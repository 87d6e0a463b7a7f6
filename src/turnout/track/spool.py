"""How records leave the user's process: framed, appended to a file of its own, one write each.

Nothing is buffered, so nothing is lost when the process is killed; at most its last frame is torn. A frame is
``length (u32) | crc32 (u32) | sequence (u64) | payload``, little-endian, the checksum over sequence and payload.

A file is ``<pid>-<8 hex digits>.<segment>``, the segment counting from 0000. It is finished when the next segment of
the same name exists or its process is gone; until then it only grows.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from _thread import RLock  # what threading.RLock is, without importing threading
from zlib import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

MAX_PAYLOAD = 1 << 20
SEGMENT_BYTES = 4 << 20
_HEADER = struct.Struct("<IIQ")
_SEQ = struct.Struct("<Q")


class Segment:
    """One file of frames, open for appending."""

    __slots__ = ("_fd", "number", "seq", "size", "stem")

    def __init__(self, directory: str, stem: str, number: int) -> None:
        """Creates the file. Raises FileExistsError when there is one of that name, OSError when it cannot."""
        path = os.path.join(directory, f"{stem}.{number:04d}")
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self.stem = stem
        self.number = number
        self.seq = 0
        self.size = 0

    def append(self, payload: bytes) -> None:
        """Writes one frame. OSError means that the file is as it was before."""
        seq = self.seq
        frame = _HEADER.pack(len(payload), crc32(payload, crc32(_SEQ.pack(seq))), seq) + payload
        written = os.write(self._fd, frame)
        if written != len(frame):  # the disk is full: no later frame could be read behind half a one
            os.ftruncate(self._fd, self.size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.seq = seq + 1
        self.size += written

    def close(self) -> None:
        try:
            os.close(self._fd)
        except OSError:  # what was accepted and then lost by the file system: the reader sees the gap
            pass


class Spool:
    """A process's way into the spool directory. Any thread, and a signal handler at any moment, may append."""

    def __init__(self, directory: str) -> None:
        """Touches nothing: the first file is made by the first record."""
        self.directory = directory
        self.lost = 0
        self._lock = RLock()
        self._idle: List[Segment] = []

    def append(self, payload: bytes) -> None:
        """On return the record is in the file, or counted in `lost` (with a warning on stderr for the first).

        Raises ValueError for a payload over MAX_PAYLOAD; never OSError.
        """
        if len(payload) > MAX_PAYLOAD:
            raise ValueError(f"a record holds at most {MAX_PAYLOAD} bytes, not {len(payload)}")
        with self._lock:
            # The segment is taken away while it is written to. A signal handler that logs in the middle of this, or
            # an interrupt that leaves a frame half accounted for, then makes the next record go to another file.
            segment = self._idle.pop() if self._idle else None
            try:
                if segment is None or segment.size >= SEGMENT_BYTES:
                    segment = self._next(segment)
                segment.append(payload)
            except OSError as error:
                self._lose(error)
            if segment is not None:
                self._idle.append(segment)

    def after_fork(self) -> None:
        """In a forked child: leaves the parent's file to the parent."""
        self._lock = RLock()
        for segment in self._idle:
            segment.close()
        self._idle = []

    def _next(self, full: Optional[Segment]) -> Segment:
        if full is not None:
            segment = Segment(self.directory, full.stem, full.number + 1)
            full.close()
            return segment
        while True:
            try:
                return Segment(self.directory, f"{os.getpid()}-{os.urandom(4).hex()}", 0)
            except FileExistsError:
                continue

    def _lose(self, error: OSError) -> None:
        self.lost += 1
        if self.lost > 1:
            return
        try:
            print(f"turnout: cannot record to {self.directory}: {error}; the run goes on without", file=sys.stderr)
        except (OSError, ValueError):  # stderr is closed, or its disk is full too: the count still tells
            pass
