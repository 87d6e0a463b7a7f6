"""Reading files as they are, or not at all: what is hashed is one state of the file, never a mixture of two."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass, field

from turnout.snapshot import secrets
from turnout.snapshot.cache import RACY_NS, Known
from turnout.snapshot.problems import Kind, Problems
from turnout.snapshot.walk import Tree, is_same
from turnout.wire.manifest import file_mode

KEPT_SIZE = 64 << 10
KEPT_TOTAL = 64 << 20
"""How much content a capture keeps in memory, of files up to KEPT_SIZE, so that an upload need not read it again."""

_WHOLE = 1 << 20
_TRIES = 3
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Changing(Exception):
    """The file was different every time we looked."""


@dataclass(slots=True)
class Kept:
    """Content read by a capture, by digest, up to a budget."""

    by_digest: dict[str, bytes] = field(default_factory=dict)
    left: int = KEPT_TOTAL

    def offer(self, digest: str, content: bytes) -> None:
        if self.left >= len(content) and digest not in self.by_digest:
            self.by_digest[digest] = content
            self.left -= len(content)


def read_pending(tree: Tree, problems: Problems, kept: Kept, *, now_ns: int) -> None:
    """Read what the walk left to be read; the results go into `tree.folders`, the contents into `kept`."""
    for path, files in tree.pending.items():
        into = tree.folders[path].files
        try:
            fd = os.open(os.path.join(tree.root, path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            for name, seen in files:
                try:
                    into[name] = read_known(fd, path + name, name, seen, now_ns, kept)
                except FileNotFoundError:
                    continue  # gone between the look and the reading: it is not part of the tree
                except Changing:
                    problems.add(path + name, "keeps changing while it is read", Kind.CHANGING)
                except OSError as error:
                    problems.add(path + name, f"cannot be read ({error.strerror})", Kind.ACCESS)
        finally:
            os.close(fd)


def read_known(fd: int, path: str, name: str, seen: os.stat_result, now_ns: int, kept: Kept) -> Known:
    """One file as a Known; Changing or OSError."""
    digest, head, seen = read_stable(fd, name, seen)
    size, ctime, mtime = seen.st_size, seen.st_ctime_ns, seen.st_mtime_ns
    if size <= KEPT_SIZE:
        kept.offer(digest, head)
    if ctime > now_ns - RACY_NS or abs(now_ns - mtime) < RACY_NS:
        mtime = -1
    return size, mtime, ctime, seen.st_ino, file_mode(seen.st_mode), digest, secrets.judge(path, head)


def read_stable(fd: int | None, name: str, seen: os.stat_result) -> tuple[str, bytes, os.stat_result]:
    """The digest, the content or its beginning, and the stat of one state of a file; Changing or OSError.

    `seen` is what its lstat said just now: while that still holds after the reading, nothing happened in between.
    """
    for _ in range(_TRIES):
        file = os.open(name, _FILE, dir_fd=fd)
        try:
            if seen.st_size <= _WHOLE:
                head = os.read(file, seen.st_size + 1)
                digest, size = hashlib.sha256(head).hexdigest(), len(head)
            else:
                digest, head, size = _hash_large(file)
            now = os.fstat(file)
        finally:
            os.close(file)
        if size == seen.st_size and is_same(now, seen):
            return digest, head, now
        if not stat.S_ISREG(now.st_mode):
            raise OSError(errno.EINVAL, "no longer a regular file")
        seen = now
    raise Changing(name)


def _hash_large(file: int) -> tuple[str, bytes, int]:
    found, size, head = hashlib.sha256(), 0, b""
    while block := os.read(file, _WHOLE):
        head = head or block
        found.update(block)
        size += len(block)
    return found.hexdigest(), head, size
