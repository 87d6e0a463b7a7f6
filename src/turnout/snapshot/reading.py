"""Reading files as they are, or not at all: what is hashed is one state of the file, never a mixture of two."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator

from turnout.snapshot import secrets
from turnout.snapshot.cache import RACY_NS, Identity
from turnout.snapshot.problems import Kind, Problems
from turnout.snapshot.walk import Looked, Tree, identity
from turnout.wire.manifest import file_mode

KEPT_SIZE = 64 << 10
KEPT_TOTAL = 64 << 20
"""How much content a capture keeps in memory, of files up to KEPT_SIZE, so that an upload need not read it again."""

_WHOLE = 1 << 20
_TRIES = 3
_AT_ONCE = 1 << 20
OPENING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""What once was a file may be a link or a pipe by now."""


class Changing(Exception):
    """The file was different every time we looked."""


FileRead = tuple[str, bytes, Identity, int]
"""One state of a file: its digest, its content or the beginning of it, its identity and mode."""


def read_pending(tree: Tree, problems: Problems, *, now_ns: int) -> dict[str, bytes]:
    """Read what the walk left to be read, into `tree.folders`; returns some of the contents, by digest."""
    contents: dict[str, bytes] = {}
    room = KEPT_TOTAL
    for path, looked in tree.pending.items():
        files = tree.folders[path].files
        for some in _batches(looked):
            found = _read_files(tree.root, path, some, problems)
            verdicts = secrets.judge_all([(path + name, head) for name, (_, head, _, _) in found])
            for (name, (digest, head, (size, mtime, ctime, inode), mode)), verdict in zip(found, verdicts, strict=True):
                if ctime > now_ns - RACY_NS or abs(now_ns - mtime) < RACY_NS:
                    mtime = -1  # too young for its times to be believed
                files[name] = (size, mtime, ctime, inode, mode, digest, verdict)
                if size <= KEPT_SIZE and size <= room:
                    contents[digest] = head
                    room -= size
    return contents


def _batches(looked: list[Looked]) -> Iterator[list[Looked]]:
    """Some files at a time: judging many at once is cheap, having them all in memory is not."""
    batch, size = [], 0
    for name, seen in looked:
        batch.append((name, seen))
        size += min(seen[0], _WHOLE)
        if size > _AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _read_files(root: str, path: str, looked: list[Looked], problems: Problems) -> list[tuple[str, FileRead]]:
    found: list[tuple[str, FileRead]] = []
    try:
        fd = os.open(os.path.join(root, path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return found
    try:
        for name, seen in looked:
            try:
                found.append((name, read_stable(fd, name, seen)))
            except FileNotFoundError:
                continue  # gone between the look and the reading: it is not part of the tree
            except Changing:
                problems.add(path + name, "keeps changing while it is read", Kind.CHANGING)
            except OSError as error:
                problems.add(path + name, f"cannot be read ({error.strerror})", Kind.ACCESS)
    finally:
        os.close(fd)
    return found


def read_stable(fd: int | None, name: str, seen: Identity) -> FileRead:
    """One state of a file; Changing or OSError.

    `seen` is what its lstat said just now: while that still holds after the reading, nothing happened in between.
    """
    for _ in range(_TRIES):
        file = os.open(name, OPENING, dir_fd=fd)
        try:
            if seen[0] <= _WHOLE:
                head = os.read(file, seen[0] + 1)
                while len(head) < seen[0] and (more := os.read(file, seen[0] + 1 - len(head))):
                    head += more
                digest, size = hashlib.sha256(head).hexdigest(), len(head)
            else:
                digest, head, size = _hash_large(file)
            now = os.fstat(file)
        finally:
            os.close(file)
        before, seen = seen, identity(now)
        if size == seen[0] and seen == before:
            return digest, head, seen, file_mode(now.st_mode)
        if not stat.S_ISREG(now.st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
    raise Changing(name)


def _hash_large(file: int) -> tuple[str, bytes, int]:
    found, size, head = hashlib.sha256(), 0, b""
    while block := os.read(file, _WHOLE):
        head = head or block
        found.update(block)
        size += len(block)
    return found.hexdigest(), head, size
