"""A read-only view of files in the node's cache: the same files under their names, not copies of them."""

from __future__ import annotations

import os
import shutil
import stat
from typing import Callable, Iterable, List, Set, Tuple

from turnout.agent.cache import Cache, DamagedCache, digest_of_file
from turnout.agent.shelf import Got, Shelf
from turnout.wire.manifest import Entry


class Views:
    """For the thread that has the cache. Each view is made once per manifest."""

    def __init__(self, shelf: Shelf, cache: Cache) -> None:
        self._shelf = shelf
        self._cache = cache
        self._checked: Set[Tuple[int, str]] = set()

    def get(self, digest: str, *, job: int, user: str, is_wanted: Callable[[], bool]) -> Tuple[Got, List[Entry]]:
        """The view of what the manifest `digest` names, for a run in the directory `user`.

        It is looked over once per job: a run of root's could have changed it, and then it is made anew. Raises what
        `Cache.fetch` does, and DamagedCache.
        """
        entries = self._cache.read_manifest(digest, is_wanted)

        def make(target: str, _lock: int) -> int:
            self._cache.fetch((entry.digest for entry in entries if not entry.link), is_wanted)
            return _make(target, entries, self._cache)

        def is_whole(target: str, made: int) -> bool:
            return (job, digest) in self._checked or _is_whole(target, entries, made)

        got = self._shelf.get(digest, user, make, is_wanted=is_wanted, is_whole=is_whole)
        self._checked.add((job, digest))
        return got, entries


def _make(target: str, entries: List[Entry], cache: Cache) -> int:
    """Gives the bytes that it takes beside the cache."""
    os.mkdir(target, 0o700)
    copied = 0
    for entry in sorted(entries, key=lambda each: bool(each.link)):
        path = f"{target}/{entry.path}"
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if entry.link:
            os.symlink(entry.link, path)
        else:
            copied += _put(entry, path, cache)
    make_read_only(target)
    return copied


def _put(entry: Entry, path: str, cache: Cache) -> int:
    """The cached file itself under another name; a copy where that cannot be, or where it must be executable."""
    source = cache.path(entry.digest)
    try:
        if digest_of_file(source) != entry.digest:
            os.unlink(source)
            raise DamagedCache(f"{entry.path!r}: blob {entry.digest} was damaged")
    except FileNotFoundError as error:
        raise DamagedCache(f"{entry.path!r}: blob {entry.digest} is gone") from error
    if not entry.mode & 0o100:
        try:
            os.link(source, path)
            return 0
        except OSError:
            pass  # another file system, or too many names for one file
    shutil.copyfile(source, path)
    if entry.mode & 0o100:
        os.chmod(path, 0o755)
    return entry.size


def make_read_only(target: str) -> None:
    """Files 0444 (0555 if they can be executed), directories 0555."""
    for folder, _, names in os.walk(target, topdown=False):
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                os.chmod(path, 0o555 if mode & 0o100 else 0o444)
        os.chmod(folder, 0o555)


def _is_whole(target: str, entries: Iterable[Entry], made: int) -> bool:
    """Whether every file is there, of its size, and was not written to since."""
    for entry in entries:
        seen = os.lstat(f"{target}/{entry.path}")
        if entry.link:
            if not stat.S_ISLNK(seen.st_mode):
                return False
        elif not stat.S_ISREG(seen.st_mode) or seen.st_size != entry.size or seen.st_mtime_ns > made:
            return False
    return True
