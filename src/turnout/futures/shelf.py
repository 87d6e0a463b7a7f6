"""Large buffers of calls between processes of one machine that talk through another library: each a file in memory, so
that nobody on the way copies, encrypts or keeps it."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle
import secrets
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from turnout.futures.folders import executor_folder

_MEMORY = "/dev/shm"
_MOST = 1 << 28  # bytes of arguments that lie there at a time

_TOKEN = secrets.token_hex(8)  # processes may come to have the number of another
_count = itertools.count()


class Shelved(NamedTuple):
    """A buffer that lies in a file."""

    path: str
    length: int
    is_writable: bool

    def look(self) -> memoryview:
        """What was put there, in memory that is changed by nobody else."""
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            view = memoryview(mmap.mmap(file, self.length, access=mmap.ACCESS_COPY))
        finally:
            os.close(file)
        return view if self.is_writable else view.toreadonly()

    def take(self) -> memoryview:
        """As `look`; and nothing is left there."""
        try:
            return self.look()
        finally:
            self.remove()

    def remove(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


def shelve(buffer: pickle.PickleBuffer, folder: str) -> Shelved | pickle.PickleBuffer:
    """What to send in its place; itself where there is no room."""
    view = buffer.raw()
    path = os.path.join(folder, f"{os.getpid()}-{_TOKEN}-{next(_count)}")
    try:
        with open(path, "xb", buffering=0) as file:
            written = 0
            while written < view.nbytes:
                written += file.write(view[written:])
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        return buffer
    return Shelved(path, view.nbytes, not view.readonly)


class Shelf:
    """Of an executor, for arguments of calls."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._used = 0
        self._lock = threading.Lock()

    def put(self, buffers: list[Any]) -> list[Any]:
        """What to send in place of these; `remove` is to be called with it."""
        return [self._put(each) for each in buffers]

    def remove(self, put: list[Any]) -> None:
        for each in put:
            if isinstance(each, Shelved):
                each.remove()
                self._reserve(-each.length)

    def _put(self, buffer: pickle.PickleBuffer) -> Shelved | pickle.PickleBuffer:
        length = buffer.raw().nbytes
        if not self._reserve(length):
            return buffer
        put = shelve(buffer, self.folder)
        if not isinstance(put, Shelved):
            self._reserve(-length)
        return put

    def _reserve(self, length: int) -> bool:
        with self._lock:
            if length > 0 and self._used + length > _MOST:
                return False
            self._used += length
            return True


@contextlib.contextmanager
def open_shelf() -> Iterator[Shelf | None]:
    """None where this machine has no such files."""
    if not os.access(_MEMORY, os.W_OK):
        yield None
        return
    with executor_folder("shelf", _MEMORY) as folder:
        yield Shelf(folder)
