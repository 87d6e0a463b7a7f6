"""Large buffers of calls between processes of one machine that talk through another library: each a file in memory, so
that nobody on the way copies, encrypts or keeps it."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import pickle
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from turnout.futures.folders import executor_folder

_MEMORY = "/dev/shm"
_MOST = 1 << 28  # bytes of arguments that lie there at a time

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
    path = os.path.join(folder, f"{os.getpid()}-{next(_count)}")
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
        put = [shelve(each, self.folder) if self._used + each.raw().nbytes <= _MOST else each for each in buffers]
        self._count(put, 1)
        return put

    def remove(self, put: list[Any]) -> None:
        self._count(put, -1)
        for each in put:
            if isinstance(each, Shelved):
                each.remove()

    def _count(self, put: list[Any], sign: int) -> None:
        with self._lock:
            self._used += sign * sum(each.length for each in put if isinstance(each, Shelved))


@contextlib.contextmanager
def open_shelf() -> Iterator[Shelf | None]:
    """None where this machine has no such files."""
    if not os.access(_MEMORY, os.W_OK):
        yield None
        return
    with executor_folder("shelf", _MEMORY) as folder:
        yield Shelf(folder)
