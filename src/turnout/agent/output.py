"""What a command prints, as a stream of bytes: the run may cut, replace or remove the file it goes to."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import NamedTuple, Optional, Tuple

from turnout.wire.stream import Outgoing

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 20


class Seal(NamedTuple):
    """How long the output is in the end, and its SHA-256 if that can be told."""

    size: int
    sha256: Optional[str]


class Output:
    """The file is kept open once it holds something; whatever is done to its name then, our descriptor stays.

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
                self._fd = open_regular(self._path)
            length = os.fstat(self._fd).st_size
        except OSError:
            return self.sender.acked
        if self._shift + length < self.sender.acked:
            # It can only grow, or the run cut it: then what the hub has stays, and what comes is put behind.
            self._shift = self.sender.acked
            self.problem = "output: the run cut its own output; what was read before is kept"
        return self._shift + length

    def next(self, most: int) -> Tuple[int, bytes]:
        """Where the next piece begins, and the piece: empty when there is nothing new."""
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
        """Reads all of it, once nothing of the run is alive. It will not be longer than this."""
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


def open_regular(path: str) -> int:
    """A descriptor to read from; OSError for whatever is not a regular file, and nothing is waited for."""
    fd = os.open(path, _OPEN)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a regular file")
    return fd
