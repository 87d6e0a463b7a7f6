"""Large buffers between processes of one machine: copied once, into memory that both have.

Who sends has the segments, and uses one again when the other side has let go of what it made of it. A segment is a file
without a name; the other side opens it through ``/proc``.
"""

from __future__ import annotations

import mmap
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from turnout.futures.local.frames import BUFFER
from turnout.futures.packing import LARGE

_KEPT = 1 << 28
"""bytes of free segments that are kept for the next"""


class Segment(NamedTuple):
    number: int
    file: int
    memory: mmap.mmap


class Segments:
    """Of the sending side, of which there should not be more than `most` at a time. From any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 0
        self._used: dict[int, Segment] = {}
        self._free: dict[int, list[Segment]] = {}
        self._kept = 0
        self._lock = threading.RLock()  # whatever is freed amid something else may free one of ours

    @property
    def is_full(self) -> bool:
        return len(self._used) >= self._most

    def put(self, buffer: pickle.PickleBuffer) -> bytes:
        """Copies it; what is sent instead of it."""
        view = buffer.raw()
        length = view.nbytes
        segment = self._take(length)
        segment.memory[:length] = view
        size = len(segment.memory)
        return BUFFER.pack(segment.number, os.getpid(), segment.file, size, length, not view.readonly)

    def free(self, number: int) -> None:
        """Idempotent."""
        with self._lock:
            segment = self._used.pop(number, None)
            if segment is None:
                return
            size = len(segment.memory)
            if self._kept + size <= _KEPT:
                self._kept += size
                self._free.setdefault(size, []).append(segment)
                return
        _close(segment)

    def close(self) -> None:
        with self._lock:
            for segment in [*self._used.values(), *(each for free in self._free.values() for each in free)]:
                _close(segment)
            self._used.clear()
            self._free.clear()

    def _take(self, length: int) -> Segment:
        size = 1 << max(length - 1, LARGE - 1).bit_length()
        with self._lock:
            free = self._free.get(size)
            if free:
                segment = free.pop()
                self._kept -= size
            else:
                self._next += 1
                file = os.memfd_create("turnout", os.MFD_CLOEXEC)
                os.ftruncate(file, size)
                segment = Segment(self._next, file, mmap.mmap(file, size))
            self._used[segment.number] = segment
            return segment


def _close(segment: Segment) -> None:
    os.close(segment.file)
    segment.memory.close()


class Views:
    """Of the receiving side: what was put into segments, as buffers. `freed` is told the number of each of whose buffer
    nothing is left, in whatever thread that happens. Of more than `most` at a time, copies are made."""

    def __init__(self, freed: Callable[[int], object], most: int) -> None:
        self._freed = freed
        self._most = most
        self._open: dict[int, mmap.mmap] = {}
        self._live: set[int] = set()

    def get(self, record: bytes) -> memoryview:
        number, process, file, size, length, is_writable = BUFFER.unpack(record)
        memory = self._open.get(number)
        if memory is None:
            found = os.open(f"/proc/{process}/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
            try:
                memory = self._open[number] = mmap.mmap(found, size)
            finally:
                os.close(found)
        is_copied = len(self._live) >= self._most
        view = self._copied(number, memory, length) if is_copied else self._lent(number, memory, length)
        return view if is_writable else view.toreadonly()

    def _copied(self, number: int, memory: mmap.mmap, length: int) -> memoryview:
        copy = memoryview(bytearray(length))
        copy[:] = memoryview(memory)[:length]
        self._let_go(number)
        return copy

    def _lent(self, number: int, memory: mmap.mmap, length: int) -> memoryview:
        import ctypes
        from weakref import finalize

        array: Any = (ctypes.c_char * length).from_buffer(memory)
        self._live.add(number)
        finalize(array, self._let_go, number).atexit = False
        return memoryview(array).cast("B")

    def _let_go(self, number: int) -> None:
        """What is open stays so for the next time, unless it is much: the other side may have given it up."""
        self._live.discard(number)
        if sum(map(len, list(self._open.values()))) > _KEPT:
            self._open.pop(number, None)
        self._freed(number)
