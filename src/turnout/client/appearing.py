"""A file of the user's that appears under its name when all of it is on the disk, or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_PREFIX, _SUFFIX = ".turnout-", ".part"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ABANDONED_SECONDS = 60.0


@contextmanager
def appearing(file: Path) -> Iterator[BinaryIO]:
    """What is written is `file` once this is left without an error. OSError; FileExistsError rather than over a file
    that is there by then.

    Who is killed on the way leaves nothing: until then it has no name. Where the file system cannot do that it has one,
    and the next to come this way removes it.
    """
    folder = file.absolute().parent
    fd, part = _open(folder)
    try:
        with open(fd, "r+b") as target:
            yield target
            target.flush()
            os.fsync(fd)
            _give_name(fd, part, file)
        _sync(folder)
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def _open(folder: Path) -> tuple[int, Path | None]:
    if sys.platform == "linux":
        with suppress(OSError):  # not on every file system
            fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
            if os.path.exists(_by_number(fd)):
                return fd, None
            os.close(fd)
    _remove_abandoned(folder)
    part = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    fd = os.open(part, _CREATE, 0o600)
    with suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd, part


def _remove_abandoned(folder: Path) -> None:
    """Those whose writer is gone: nobody holds their lock, and nobody wrote to them lately."""
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            fd = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(fd).st_mtime > _ABANDONED_SECONDS:
                    part.unlink()
            finally:
                os.close(fd)


def _give_name(fd: int, part: Path | None, file: Path) -> None:
    """A link, unlike a rename, never replaces a file that is there."""
    try:
        if part is None:
            folder = os.open(file.absolute().parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # with a directory, for only then Python follows the link that /proc has
                os.link(_by_number(fd), file.name, dst_dir_fd=folder, follow_symlinks=True)
            finally:
                os.close(folder)
        else:
            os.link(part, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: a memory stick, some network drives
        if part is None:
            raise
        if os.path.lexists(file):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
        os.rename(part, file)


def _by_number(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
