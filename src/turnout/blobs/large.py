"""Large blobs, one file each, named by digest. The directory is the index."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

from turnout.blobs import faults
from turnout.blobs.packs import sync_directory
from turnout.wire.manifest import is_digest

_BLOCK = 1 << 20
_NEW = ".new-"
_DAMAGED = ".damaged-"


class LargeBlobs:
    """The files of one directory, `sizes` by digest. Any thread may call: each change of a dict is one step."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.sizes: dict[str, int] = {}
        self._verified: dict[str, tuple[int, int, int]] = {}
        with os.scandir(directory) as listing:
            for item in listing:
                if is_digest(item.name):
                    self.sizes[item.name] = item.stat(follow_symlinks=False).st_size
                elif item.name.startswith(_NEW):
                    os.unlink(item.path)  # a write that a crash cut short

    def put(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Make the file durable. InvalidInput when the content is not that of `digest`, and then there is no file."""
        temporary = self._path(_NEW + secrets.token_hex(8))
        with faults.writing():
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = _fill(fd, digest, chunks)
            with faults.writing():
                os.fsync(fd)
                os.rename(temporary, self._path(digest))
        except BaseException:
            os.unlink(temporary)
            raise
        finally:
            os.close(fd)
        with faults.writing():
            sync_directory(self._directory)
        self.sizes[digest] = size

    def open(self, digest: str) -> BinaryIO:
        """The file, checked: read once, and again only when it has changed. NotFound, or Internal when damaged."""
        if digest not in self.sizes:
            raise faults.unknown(digest)
        try:
            file = open(self._path(digest), "rb")  # noqa: SIM115  the caller closes it
        except FileNotFoundError:
            self.sizes.pop(digest, None)
            raise faults.damaged(digest) from None
        if not self._sound(digest, file.fileno()):
            file.close()
            self._set_aside(digest)
            raise faults.damaged(digest)
        return file

    def forget(self) -> None:
        """Read every file again at its next opening."""
        self._verified.clear()

    def remove(self, digests: Iterable[str]) -> None:
        """Delete these, and whatever was set aside as damaged."""
        for digest in digests:
            self.sizes.pop(digest, None)
            self._verified.pop(digest, None)
            with suppress(FileNotFoundError):
                os.unlink(self._path(digest))
        for name in os.listdir(self._directory):
            if name.startswith(_DAMAGED):
                os.unlink(self._path(name))

    def _sound(self, digest: str, fd: int) -> bool:
        seen = os.fstat(fd)
        identity = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        if self._verified.get(digest) == identity:
            return True
        found, at = hashlib.sha256(), 0
        while block := os.pread(fd, _BLOCK, at):
            found.update(block)
            at += len(block)
        if found.hexdigest() != digest:
            return False
        self._verified[digest] = identity
        return True

    def _set_aside(self, digest: str) -> None:
        """What is left of a damaged file stays until the next collection, for a person to look at."""
        self.sizes.pop(digest, None)
        with suppress(FileNotFoundError):
            os.rename(self._path(digest), self._path(_DAMAGED + digest))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


def _fill(fd: int, digest: str, chunks: Iterable[bytes]) -> int:
    found, size = hashlib.sha256(), 0
    for chunk in chunks:
        found.update(chunk)
        size += len(chunk)
        with faults.writing():
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
    if found.hexdigest() != digest:
        raise faults.mismatch(digest)
    return size
