"""The spool files of a run's processes: what they log, in frames (wire.frames), one file after the other for each."""

from __future__ import annotations

import json
import os
import re
import stat
from typing import Iterator, Set, Tuple

from turnout.agent.output import open_regular
from turnout.wire import frames
from turnout.wire.stream import Outgoing

PIECE = 2 << 20  # of one stream in one report; a frame must fit in
_ARTIFACT = b'"a":'
_NAME = re.compile(r"[0-9]{1,20}-[0-9a-f]{8}\.[0-9]{4,8}\Z")
_LARGEST = 64 << 20  # a file of ours has 4 MB


def is_spool(name: str) -> bool:
    """Whether this is a name that a process of ours gives: ``PID-TAG.SEGMENT``. Others stay here."""
    return _NAME.match(name) is not None


def following(name: str) -> str:
    """What the next file of the same process is called; when it is there, this one will not grow."""
    writer, _, segment = name.rpartition(".")
    return f"{writer}.{int(segment) + 1:0{len(segment)}d}"


class Spool:
    """The hub takes whole, undamaged frames only. When it took nothing of a piece, that piece is the beginning of a
    frame (then more bytes help) or damaged (then nothing does, and the rest of the file is given up)."""

    __slots__ = ("_is_whole", "_path", "_stuck_at", "problem", "sender")

    def __init__(self, path: str) -> None:
        self.sender = Outgoing()
        self.problem = ""
        self._path = path
        self._is_whole = True
        self._stuck_at = -1

    def next(self, *, is_last: bool) -> Tuple[int, bytes]:
        """Where the next piece begins, and the piece: empty when there is nothing new.

        `is_last`: the file will not grow any more, so it can be told whether the hub will take all of it.
        """
        size = self._size()
        offset, count = self.sender.piece(size, PIECE)
        if self.problem or count <= 0 or size == self._stuck_at:
            return offset, b""
        content = self._read(offset, count)
        if is_last:
            self._is_whole = self._ends_whole(content)
        self.sender.mark_sent(offset, len(content))
        return offset, content

    def is_all_offered(self) -> bool:
        size = self._size()
        return bool(self.problem) or size == self._stuck_at or (self.sender.sent >= size and self._is_whole)

    def acknowledge(self, have: int) -> None:
        sent = self.sender.sent
        is_stuck = have == self.sender.acked and have < sent
        self.sender.ack(have)
        self._stuck_at = sent if is_stuck else -1
        self._is_whole = self._is_whole or have == sent
        if is_stuck and self._is_damaged(self._read(have, sent - have)):  # what was sent: more may be there by now
            self.problem = f"damaged at byte {have}; what follows was not read"

    def remove_if_done(self) -> bool:
        """For one that does not grow any more: removes it when the hub has all of it. Whether it is gone.

        One that names artifacts stays: whoever captures them will ask for those.
        """
        size = self._size()
        if self.problem or self.sender.acked != size or any(artifacts_in(self._read(0, size))):
            return False
        try:
            os.unlink(self._path)
        except OSError:
            return False
        return True

    def _ends_whole(self, content: bytes) -> bool:
        return _ends_with_frame(content)

    def _is_damaged(self, content: bytes) -> bool:
        return _holds_frame(content)

    def _read(self, offset: int, count: int) -> bytes:
        try:
            return _read_regular(self._path, offset, count)
        except OSError as error:
            self.problem = f"cannot be read ({error.strerror})"
            return b""

    def _size(self) -> int:
        try:
            found = os.lstat(self._path)
        except OSError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0


class TrialMetrics(Spool):
    """The file in which NNI's library tells metrics: lines. What is no record of its the hub passes over."""

    def _ends_whole(self, content: bytes) -> bool:
        return content.endswith(b"\n")

    def _is_damaged(self, content: bytes) -> bool:
        return False


def find_artifacts(track: str) -> Set[str]:
    """The paths a run asked to keep, from all the spool files that are in this directory. For any thread."""
    found: Set[str] = set()
    try:
        names = [name for name in os.listdir(track) if is_spool(name)]
    except OSError:
        return found
    for name in names:
        try:
            found.update(artifacts_in(_read_regular(f"{track}/{name}", 0, _LARGEST)))
        except OSError:
            continue
    return found


def artifacts_in(content: bytes) -> Iterator[str]:
    """The paths a run asked to keep, from a piece of its spool that begins with a frame."""
    if _ARTIFACT not in content:
        return
    for frame in frames.scan(content, first_seq=_first_seq(content)):
        if _ARTIFACT not in frame.payload:
            continue
        try:
            record = json.loads(frame.payload)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("a"), str):
            yield record["a"]


def _ends_with_frame(content: bytes) -> bool:
    """Whether this, which begins with a frame, is whole frames up to its end."""
    end = 0
    for frame in frames.scan(content, first_seq=_first_seq(content)):
        end = frame.end
    return end == len(content)


def _first_seq(content: bytes) -> int:
    return int(frames.HEADER.unpack_from(content)[2]) if len(content) >= frames.HEADER.size else 0


def _holds_frame(content: bytes) -> bool:
    """Whether this is as long as its first frame says, or that is a length no frame has."""
    if len(content) < frames.HEADER.size:
        return False
    length: int = frames.HEADER.unpack_from(content)[0]
    return length > frames.MAX_PAYLOAD or len(content) >= frames.HEADER.size + length


def _read_regular(path: str, offset: int, size: int) -> bytes:
    fd = open_regular(path)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)
