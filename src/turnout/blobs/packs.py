"""Small blobs in pack files: appended many at a time, one fsync for all of them.

A pack describes itself (`turnout.wire.pack`), so the packs are the truth and everything else about them can be found
again by reading. A crash can only leave a torn tail; it is cut when the store is opened.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from turnout.blobs.index import Place
from turnout.wire import pack

PACK_BYTES = 64 << 20
LARGEST = 64 << 10
"""of a blob in a pack: bounds what a header in a damaged place can make us read"""
_IOV = 1000  # parts handed to the kernel at once; the limit is 1024


class Packs:
    """The pack files of one directory, `lengths` in bytes by number. Its owner holds a lock; `read` needs none."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.lengths: dict[int, int] = {}
        for name in os.listdir(directory):
            stem, dot, suffix = name.partition(".")
            if suffix == "pack" and dot and stem.isdigit():
                self.lengths[int(stem)] = os.stat(os.path.join(directory, name)).st_size
        self._sealed: set[int] = set()

    def append(self, blobs: Mapping[bytes, bytes]) -> dict[bytes, Place]:
        """Write contents by digest, make them durable, and say where they lie. OSError: none of them is there."""
        number = self._active()
        start = at = self.lengths.get(number, 0)
        parts: list[bytes] = []
        places: dict[bytes, Place] = {}
        for digest, content in blobs.items():
            parts += (pack.raw_header(digest, len(content)), content)
            places[digest] = Place(number, at + pack.HEADER.size, len(content))
            at += pack.HEADER.size + len(content)
        self._write(number, start, parts)
        self.lengths[number] = at
        return places

    def read(self, place: Place) -> bytes:
        """The bytes there, unchecked; b"" when the pack has been removed meanwhile."""
        try:
            fd = os.open(self._path(place.pack), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(fd, place.size, place.offset)
        finally:
            os.close(fd)

    def scan(self, number: int, start: int = 0) -> Iterator[tuple[bytes, Place]]:
        """Every sound blob of a pack from byte `start` on; damage is stepped over."""
        if self.lengths[number] <= start:
            return
        with open(self._path(number), "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = start
            while at >= 0:
                found = _blob_at(content, at)
                if found is None:
                    at = content.find(pack.MAGIC, at + 1)
                    continue
                digest, size = found
                yield digest, Place(number, at + pack.HEADER.size, size)
                at += pack.HEADER.size + size

    def cut(self, number: int, length: int) -> None:
        """Drop what lies behind `length`: a tail that a crash has torn."""
        if length < self.lengths[number]:
            os.truncate(self._path(number), length)
            self.lengths[number] = length

    def seal(self, numbers: Iterable[int]) -> None:
        """Append no more to these."""
        self._sealed.update(numbers)

    def remove(self, number: int) -> None:
        """Delete a pack whose blobs are no longer wanted, or lie elsewhere too."""
        os.unlink(self._path(number))
        del self.lengths[number]

    def _write(self, number: int, start: int, parts: list[bytes]) -> None:
        fd = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if number not in self.lengths:
                sync_directory(self._directory)
            os.lseek(fd, start, os.SEEK_SET)
            _write_all(fd, parts)
            os.fsync(fd)
        except OSError:
            # What a failed write or sync left behind is unknown: cut it off, and never append behind it.
            self._sealed.add(number)
            with suppress(OSError):
                os.ftruncate(fd, start)
            raise
        finally:
            os.close(fd)

    def _active(self) -> int:
        last = max([*self.lengths, *self._sealed], default=0)
        full = last in self._sealed or self.lengths.get(last, PACK_BYTES) >= PACK_BYTES
        return last + 1 if full else last

    def _path(self, number: int) -> str:
        return os.path.join(self._directory, f"{number:08d}.pack")


def sync_directory(path: str) -> None:
    """Make names created, renamed or removed in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_durably(path: str) -> None:
    """Remove a file, there or not, so that not even a power cut brings it back."""
    with suppress(FileNotFoundError):
        os.unlink(path)
        sync_directory(os.path.dirname(path))


def _blob_at(content: mmap.mmap, at: int) -> tuple[bytes, int] | None:
    """(digest, size) of the blob whose header is at `at`, when all of it is there and sound."""
    parsed = pack.parse_header(content[at : at + pack.HEADER.size])
    if parsed is None:
        return None
    size, digest = parsed
    if size > LARGEST:
        return None
    start = at + pack.HEADER.size
    with memoryview(content) as view, view[start : start + size] as body:
        sound = len(body) == size and hashlib.sha256(body).digest() == digest
    return (digest, size) if sound else None


def _write_all(fd: int, parts: list[bytes]) -> None:
    """Write the parts one behind the other."""
    for first in range(0, len(parts), _IOV):
        some = parts[first : first + _IOV]
        done = os.writev(fd, some)
        if done < sum(map(len, some)):
            rest = memoryview(b"".join(some))[done:]
            while rest:
                rest = rest[os.write(fd, rest) :]
