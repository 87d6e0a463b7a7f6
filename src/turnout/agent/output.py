"""What a command prints, as a stream of bytes: the run may cut, replace or remove the file it goes to."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from typing import NamedTuple, Optional, Tuple

from turnout.agent.mask import Mask
from turnout.wire.stream import Outgoing

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 20


class Seal(NamedTuple):
    """How long the output is in the end, and its SHA-256 if that can be told."""

    size: int
    sha256: Optional[str]


class Output:
    """The file is kept open once it holds something; whatever is done to its name then, our descriptor stays.

    What the hub has is final. `shift` is where in the stream the file begins: not at 0 after the file became shorter
    than that. It is noted beside the file, for an agent that comes after this one. What `mask` covers never leaves.
    """

    def __init__(self, path: str) -> None:
        self.sender = Outgoing()
        self.mask = Mask()
        self.problem = ""
        self._path = path
        self._fd: Optional[int] = None
        self._shift = 0
        self._seen = 0
        self._sealed: Optional[int] = None

    def size(self) -> int:
        """Of the stream, as far as can be seen now."""
        if self._sealed is not None:
            return self._sealed
        try:
            if self._fd is None:
                if not os.lstat(self._path).st_size:
                    return self._shift
                self._fd = open_regular(self._path)
                self._shift = _read_note(self._path)
            length = os.fstat(self._fd).st_size
        except OSError:
            return self.sender.acked
        if self._shift + length < self.sender.acked:
            # It can only grow, or the run cut it: then what the hub has stays, and what comes is put behind.
            self._begin_at(self.sender.acked)
            self.problem = "output: the run cut its own output; what was read before is kept"
        self._seen = max(self._seen, self._shift + length)
        return self._shift + length

    def next(self, most: int) -> Tuple[int, bytes]:
        """Where the next piece begins, and the piece: empty when there is nothing new."""
        settled = self._settled()
        self.sender.mark_sent(self._shift, 0)  # what lies before is nowhere but at the hub
        offset, count = self.sender.piece(settled, most)
        if count <= 0 or self._fd is None:
            return offset, b""
        content = self._read(self._fd, offset - self._shift, count)
        if not content and self._sealed is not None:  # cut behind our back: no more than this will come
            self._sealed = offset
        self.sender.mark_sent(offset, len(content))
        return offset, content

    def acknowledge(self, have: int) -> None:
        """The hub has so much of it on its disk."""
        if have > self._seen:
            # An earlier agent sent what is not here any more. What is here is taken for the beginning of that: none
            # of it may go twice; what comes is put behind.
            self._begin_at(self._shift + have - self._seen)
            self._seen = have
            self.problem = "output: it is shorter than what was read of it before, which is kept"
        elif have < self._shift:  # the note was wrong
            self._begin_at(have)
        self.sender.ack(have)

    def is_all_offered(self) -> bool:
        return self.sender.sent >= self._settled()

    def seal(self) -> Seal:
        """Reads all of it, once nothing of the run is alive. It will not be longer than this."""
        size = self.size()
        digest = hashlib.sha256()
        position = 0
        while self._fd is not None and position < size - self._shift:
            block = self._read(self._fd, position, min(_BLOCK, size - self._shift - position))
            if not block:
                break
            digest.update(block)
            position += len(block)
        self._sealed = size
        is_whole = not self._shift and position == size
        return Seal(size, digest.hexdigest() if is_whole else None)

    def measure(self) -> Seal:
        """The same without reading it."""
        self._sealed = self.size()
        return Seal(self._sealed, None)

    def settle(self) -> Seal:
        """Whatever we believe: what the hub has is the output."""
        self._sealed = self.sender.acked
        self.problem = "output: the run changed its own output; what was read is kept"
        return Seal(self._sealed, None)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _settled(self) -> int:
        """The size without an end that may turn out to be the beginning of a secret."""
        size = self.size()
        if self._sealed is not None or self._fd is None or not self.mask:
            return size
        length = size - self._shift
        end = os.pread(self._fd, self.mask.reach, max(0, length - self.mask.reach))
        return size - self.mask.unsure(end[:length])

    def _read(self, fd: int, position: int, count: int) -> bytes:
        """What may leave of so much of the file."""
        before = min(position, self.mask.reach)
        content = os.pread(fd, before + count + self.mask.reach, position - before)
        return self.mask.cover(content)[before : before + count]

    def _begin_at(self, shift: int) -> None:
        self._shift = shift
        _write_note(self._path, shift)


def open_regular(path: str) -> int:
    """A descriptor to read from; OSError for whatever is not a regular file, and nothing is waited for."""
    fd = os.open(path, _OPEN)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return fd


def _write_note(path: str, shift: int) -> None:
    """As the target of a link: it is there whole or not at all. Best effort: without it, a next agent may miss some."""
    with suppress(OSError):
        os.unlink(f"{path}.shift")
    with suppress(OSError):
        os.symlink(str(shift), f"{path}.shift")


def _read_note(path: str) -> int:
    try:
        return max(0, int(os.readlink(f"{path}.shift")))
    except (OSError, ValueError):
        return 0
