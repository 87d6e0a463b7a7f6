"""Writing the files of a manifest into a directory, whatever the manifest or the directory may try.

The whole manifest is checked before the first byte is written. Every directory is opened once, from its parent, without
following links; every file is created, never opened; links come last, so nothing is ever written through one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import sys
from typing import Callable, List, NamedTuple, Sequence, Tuple, Union

from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

Source = Union[bytes, str]
"""Where a blob's content comes from: the bytes, or the path of a local file that holds them."""

MAX_TOTAL = 1 << 40
_WHOLE = 1 << 20  # content up to this size goes through memory and is checked on the way
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FICLONE = 0x40049409


class RestoreFailed(Exception):
    """A file could not be written as the manifest says; the message names it. What was written before it is left."""


class Restored(NamedTuple):
    files: int
    bytes: int


def restore(
    entries: Sequence[Entry],
    target: str,
    read: Callable[[str], Source],
    *,
    max_entries: int = manifest.MAX_ENTRIES,
    max_total: int = MAX_TOTAL,
) -> Restored:
    """Write all `entries` below the directory `target` (made, 0700, when missing) and say how much that was.

    `read(digest)` gives each content; it is checked against size and digest, so a damaged source is found here and
    never lands as good. Returning means every file is there. BadManifest: the manifest is unsafe or over a cap, and
    nothing was written. RestoreFailed: something is in the way (never replaced, never followed) or a source is bad.
    """
    manifest.check(entries, max_entries=max_entries)
    total = sum(entry.size for entry in entries)
    if total > max_total:
        raise BadManifest(f"{total} bytes are over the limit of {max_total}")
    tree = _Tree(target)
    try:
        # Links last; within each half a directory's entries lie together, so that it is opened once.
        for entry in sorted(entries, key=lambda e: (bool(e.link), e.path.replace("/", "\0"))):
            _write(tree, entry, read)
    finally:
        tree.close()
    return Restored(len(entries), total)


class _Tree:
    """The chain of open directories from the target down to the one being written."""

    def __init__(self, target: str) -> None:
        try:
            os.mkdir(target, 0o700)
        except FileExistsError:
            pass
        try:
            self._open: List[Tuple[str, int]] = [("", os.open(target, _DIRECTORY))]
        except OSError as error:
            raise RestoreFailed(f"{target}: not a directory to write into ({error.strerror})") from error
        self._at = ""

    def directory(self, path: str) -> int:
        """A descriptor of `path` below the target, made when missing; valid until the next call."""
        if path == self._at:
            return self._open[-1][1]
        parts = path.split("/") if path else []
        shared = 0
        while shared < len(parts) and shared + 1 < len(self._open) and self._open[shared + 1][0] == parts[shared]:
            shared += 1
        while len(self._open) > shared + 1:
            os.close(self._open.pop()[1])
        self._at = "/".join(parts[:shared])
        for part in parts[shared:]:
            self._open.append((part, _enter(self._open[-1][1], part)))
            self._at = f"{self._at}/{part}" if self._at else part
        return self._open[-1][1]

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop()[1])


def _enter(parent: int, name: str) -> int:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        pass
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _write(tree: _Tree, entry: Entry, read: Callable[[str], Source]) -> None:
    folder, _, name = entry.path.rpartition("/")
    try:
        parent = tree.directory(folder)
        if entry.link:
            os.symlink(entry.link, name, dir_fd=parent)
            return
        source = read(entry.digest)
        fd = os.open(name, _CREATE, entry.mode, dir_fd=parent)
        try:
            _fill(fd, source, entry)
        except BaseException:
            os.unlink(name, dir_fd=parent)
            raise
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise RestoreFailed(f"{entry.path!r}: a link or a file is where a directory belongs") from error
        raise RestoreFailed(f"{entry.path!r}: {error.strerror or error}") from error


def _fill(fd: int, source: Source, entry: Entry) -> None:
    """Put the content into the new file; RestoreFailed when it is not what the entry says."""
    if isinstance(source, str):
        origin = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            seen = os.fstat(origin)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size != entry.size:
                raise _damaged(entry)
            if entry.size > _WHOLE:
                _copy(origin, fd, entry.size)
                if _digest(fd) != entry.digest:
                    raise _damaged(entry)
                return
            source = os.read(origin, entry.size)
        finally:
            os.close(origin)
    if len(source) != entry.size or hashlib.sha256(source).hexdigest() != entry.digest:
        raise _damaged(entry)
    _write_all(fd, source)


def _copy(origin: int, fd: int, size: int) -> None:
    """The cheapest way the kernel offers: share the extents, copy inside the kernel, copy through memory."""
    if sys.platform == "linux":
        try:
            fcntl.ioctl(fd, _FICLONE, origin)
            return
        except OSError:
            pass
        try:
            while size:
                done = os.copy_file_range(origin, fd, size)
                if not done:
                    return  # the source shrank; the digest will say so
                size -= done
            return
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
    while True:  # from wherever the kernel's copy stopped: both positions moved with it
        block = os.read(origin, _WHOLE)
        if not block:
            return
        _write_all(fd, block)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _digest(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    found = hashlib.sha256()
    while True:
        block = os.read(fd, _WHOLE)
        if not block:
            return found.hexdigest()
        found.update(block)


def _damaged(entry: Entry) -> RestoreFailed:
    return RestoreFailed(f"{entry.path!r}: blob {entry.digest} is damaged")
