"""What an attempt writes and the hub is to have, byte by byte and once: its output, and its processes' spool files.

The files lie where the run can get at them, and it may cut, replace or remove them, or put anything beside them. None of
that may stop us: what cannot be had is named in `problems`, and all else goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from turnout.agent.rundir import RunDir
from turnout.wire import frames
from turnout.wire.messages import Chunk
from turnout.wire.stream import Outgoing

OUTPUT = "output"
PIECE = 2 << 20  # of one stream in one report; a frame must fit in
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 20
_ARTIFACT = b'"a":'
_SPOOL_NAME = re.compile(r"[0-9]{1,20}-[0-9a-f]{8}\.[0-9]{4,8}\Z")
_LARGEST_SPOOL = 64 << 20  # a segment of ours has 4 MB


class Seal(NamedTuple):
    """How long the output is in the end, and its SHA-256 if that can be told."""

    size: int
    sha256: Optional[str]


class Streams:
    """For the main thread, one report at a time: `pieces` are sent; then comes `acknowledge` for each that was
    answered, and `rewind` whether it was or not."""

    def __init__(self, run: int, attempt: int, directory: RunDir) -> None:
        self._run = run
        self._attempt = attempt
        self._output = _Output(directory.output)
        self._track = directory.track
        self._spools: Dict[str, _Spool] = {}
        self._is_finished = False
        self.artifacts: Set[str] = set()

    def pieces(self, most: int) -> Iterator[Tuple[Chunk, bytes]]:
        """Of each stream what the hub may not have yet, `most` bytes in all. The streams sent last come last."""
        offset, content = self._output.next(min(most, PIECE))
        if content:
            most -= len(content)
            yield Chunk(self._run, self._attempt, OUTPUT, offset, len(content)), content
        self._find_spools()
        for name in list(self._spools):
            if most < PIECE:
                return
            spool = self._spools.pop(name)
            self._spools[name] = spool
            offset, content = spool.next(is_last=self._is_finished)
            if content:
                most -= len(content)
                if _ARTIFACT in content:
                    self.artifacts.update(_artifacts(content))
                yield Chunk(self._run, self._attempt, f"track/{name}", offset, len(content)), content

    def is_all_offered(self) -> bool:
        """Whether the pieces since the last `rewind` reach the end of every stream."""
        return self._output.is_all_offered() and all(spool.is_all_offered() for spool in self._spools.values())

    def acknowledge(self, stream: str, have: int) -> None:
        """The hub has so much of it on its disk. Of a spool that can be less than was sent: it takes whole frames."""
        if stream == OUTPUT:
            self._output.sender.ack(have)
            return
        name = stream[len("track/") :]
        spool = self._spools.get(name)
        if spool is not None:
            spool.acknowledge(have)
            if not self._is_finished and spool.is_finished(self._follower(name)):
                spool.remove()
                del self._spools[name]

    def rewind(self) -> None:
        """Only what was acknowledged counts."""
        self._output.sender.rewind()
        for spool in self._spools.values():
            spool.sender.rewind()

    def output_size(self) -> int:
        return self._output.size()

    @property
    def has_spools(self) -> bool:
        """Whether any was seen."""
        return bool(self._spools)

    def seal(self) -> Seal:
        """Once nothing of the run is alive: reads all the output. May be called from another thread."""
        return self._output.seal()

    def measure(self) -> Seal:
        """The same without reading it."""
        return self._output.measure()

    def settle(self) -> Seal:
        """The hub does not agree with the seal, whatever the reason: what it has is the output."""
        return self._output.settle()

    def finish(self) -> None:
        """Nothing of the run is alive: what is there now is all."""
        self._find_spools()
        self._is_finished = True

    def mute(self) -> None:
        """No more is sent."""
        self._spools = {}
        self._is_finished = True
        self._output.settle()

    def problems(self) -> List[str]:
        """What was lost, in words."""
        found = [f"track/{name}: {spool.problem}" for name, spool in self._spools.items() if spool.problem]
        return [self._output.problem, *found] if self._output.problem else found

    def close(self) -> None:
        self._output.close()

    def _find_spools(self) -> None:
        if self._is_finished:
            return
        try:
            names = os.listdir(self._track)
        except OSError:
            return
        for name in names:
            if name not in self._spools and _SPOOL_NAME.match(name):
                self._spools[name] = _Spool(f"{self._track}/{name}")

    def _follower(self, name: str) -> bool:
        """Whether its writer began the next segment, so that this one will not grow."""
        writer, _, segment = name.rpartition(".")
        return f"{writer}.{int(segment) + 1:0{len(segment)}d}" in self._spools


class _Output:
    """One file, kept open once it holds something: it may be removed or replaced, our descriptor stays.

    `shift` is where in the stream the file begins: not at 0 after the run cut it short.
    """

    def __init__(self, path: str) -> None:
        self.sender = Outgoing()
        self.problem = ""
        self._path = path
        self._fd: Optional[int] = None
        self._shift = 0
        self._sealed: Optional[int] = None

    def size(self) -> int:
        """Of the stream, as far as can be seen now."""
        if self._sealed is not None:
            return self._sealed
        try:
            if self._fd is None:
                if not os.lstat(self._path).st_size:
                    return self._shift
                self._fd = _open_regular(self._path)
            length = os.fstat(self._fd).st_size
        except OSError:
            return self.sender.acked
        if self._shift + length < self.sender.acked:
            # It can only grow, or the run cut it: then what the hub has stays, and what comes is put behind.
            self._shift = self.sender.acked
            self.problem = "output: the run cut its own output; what was read before is kept"
        return self._shift + length

    def next(self, most: int) -> Tuple[int, bytes]:
        offset, count = self.sender.piece(self.size(), most)
        if count <= 0 or self._fd is None:
            return offset, b""
        content = os.pread(self._fd, count, offset - self._shift)
        if not content and self._sealed is not None:  # cut behind our back: no more than this will come
            self._sealed = offset
        self.sender.mark_sent(offset, len(content))
        return offset, content

    def is_all_offered(self) -> bool:
        return self.sender.sent >= self.size()

    def seal(self) -> Seal:
        size = self.size()
        digest = hashlib.sha256()
        position = 0
        while self._fd is not None and position < size - self._shift:
            block = os.pread(self._fd, min(_BLOCK, size - self._shift - position), position)
            if not block:
                break
            digest.update(block)
            position += len(block)
        self._sealed = size
        is_whole = not self._shift and position == size
        return Seal(size, digest.hexdigest() if is_whole else None)

    def measure(self) -> Seal:
        self._sealed = self.size()
        return Seal(self._sealed, None)

    def settle(self) -> Seal:
        self._sealed = self.sender.acked
        self.problem = "output: the run changed its own output; what was read is kept"
        return Seal(self._sealed, None)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class _Spool:
    """One file of frames. The hub takes whole, undamaged frames only. When it took nothing of a piece, that piece is the
    beginning of a frame (then more bytes help) or damaged (then nothing does, and the rest of the file is given up)."""

    __slots__ = ("_is_whole", "_path", "_stuck_at", "problem", "sender")

    def __init__(self, path: str) -> None:
        self.sender = Outgoing()
        self.problem = ""
        self._path = path
        self._is_whole = True
        self._stuck_at = -1

    def next(self, *, is_last: bool) -> Tuple[int, bytes]:
        """`is_last`: it will not grow any more, so whether the hub will take all of it can be told."""
        size = self._size()
        offset, count = self.sender.piece(size, PIECE)
        if self.problem or count <= 0 or size == self._stuck_at:
            return offset, b""
        content = self._read(offset, count)
        if is_last:
            self._is_whole = _ends_with_frame(content)
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
        if is_stuck and _holds_frame(self._read(have, PIECE)):
            self.problem = f"damaged at byte {have}; what follows was not read"

    def is_finished(self, has_follower: bool) -> bool:
        return has_follower and not self.problem and self.sender.acked == self._size()

    def remove(self) -> None:
        try:
            os.unlink(self._path)
        except OSError:
            pass

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


def find_artifacts(directory: RunDir) -> Set[str]:
    """The paths a run asked to keep, from all the spool files that are still there. For any thread."""
    found: Set[str] = set()
    try:
        names = [name for name in os.listdir(directory.track) if _SPOOL_NAME.match(name)]
    except OSError:
        return found
    for name in names:
        try:
            content = _read_regular(f"{directory.track}/{name}", 0, _LARGEST_SPOOL)
        except OSError:
            continue
        if _ARTIFACT in content:
            found.update(_artifacts(content))
    return found


def _artifacts(content: bytes) -> Iterator[str]:
    """Paths the run asked to keep, from a piece of its spool that begins with a frame."""
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


def _open_regular(path: str) -> int:
    fd = os.open(path, _OPEN)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return fd


def _read_regular(path: str, offset: int, size: int) -> bytes:
    fd = _open_regular(path)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)
