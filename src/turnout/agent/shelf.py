"""Things that are made once on this node and used by many runs: views of shares, environments of setups.

``<shelf>/<key>/thing`` is one; it counts only beside the mark ``made``, which comes last. Who makes it holds the lock
``<shelf>/<key>.lock``, and so do the processes it starts for that: after a kill the next waits for the last of them,
and begins anew. ``uses/`` has a link to the directory of each run that uses it: the thing stays for as long as one of
those is there, whatever became of the agent that put it down. Several agents may share a shelf.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from typing import Callable, List, NamedTuple, Optional

from turnout.agent.cache import Abandoned

_PAUSE = 0.02
_OPEN = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class Got(NamedTuple):
    """`found`: it was there already."""

    path: str
    found: bool


Make = Callable[[str, int], int]
"""Makes the thing at a path that is free; the second argument is the lock, for processes that it starts. Gives how many
bytes that took."""


class Shelf:
    """Every method may be called from any thread."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def get(
        self, key: str, user: str, make: Make, *, is_wanted: Callable[[], bool], is_whole: Callable[[str, int], bool]
    ) -> Got:
        """The thing, made if it is not there or not whole; it stays at least as long as the directory `user`.

        `is_whole(path, made_ns)` looks at one that was made then. Raises what `make` does, Abandoned when it is not
        wanted any more, OSError. Nothing half made is ever given out.
        """
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        lock = self._lock(key, is_wanted)
        try:
            place = self._place(key)
            thing = f"{place}/thing"
            found = self._is_made(place, is_whole)
            if not found:
                remove_tree(place)
                os.makedirs(f"{place}/uses", mode=0o700)
                size = make(thing, lock)
                _write_mark(place, size)
            _note_use(place, user)
            return Got(thing, found)
        finally:
            os.close(lock)

    def drop_oldest(self) -> bool:
        """Removes the thing that was used longest ago and is not used now; whether there was one."""
        for key in self._oldest_first():
            lock = self._lock_now(key)
            if lock is None:
                continue
            try:
                place = self._place(key)
                if not _is_used(place):
                    remove_tree(place)
                    os.unlink(f"{place}.lock")
                    return True
            except OSError:
                continue
            finally:
                os.close(lock)
        return False

    def size(self) -> int:
        """Bytes that all whole things together took when they were made."""
        return sum(_size(self._place(key)) for key in self._keys())

    def _place(self, key: str) -> str:
        return f"{self._directory}/{key}"

    def _keys(self) -> List[str]:
        try:
            return [name for name in os.listdir(self._directory) if not name.endswith(".lock")]
        except FileNotFoundError:
            return []

    def _oldest_first(self) -> List[str]:
        def used(key: str) -> float:
            try:
                return os.stat(f"{self._place(key)}/used").st_mtime
            except OSError:
                return 0.0

        return sorted(self._keys(), key=used)

    def _is_made(self, place: str, is_whole: Callable[[str, int], bool]) -> bool:
        try:
            made = os.stat(f"{place}/made").st_mtime_ns
            return is_whole(f"{place}/thing", made)
        except OSError:
            return False

    def _lock(self, key: str, is_wanted: Callable[[], bool]) -> int:
        while True:
            lock = self._lock_now(key)
            if lock is not None:
                return lock
            if not is_wanted():
                raise Abandoned(key)
            time.sleep(_PAUSE)

    def _lock_now(self, key: str) -> Optional[int]:
        """None when another has it. A lock that was removed with its thing while we opened it is none."""
        path = f"{self._place(key)}.lock"
        lock = os.open(path, _OPEN, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.stat(path).st_ino == os.fstat(lock).st_ino:
                return lock
        except BlockingIOError:
            pass
        os.close(lock)
        return None


def remove_tree(path: str) -> None:
    """Also what is read-only. OSError when something of it is left."""
    if not os.path.lexists(path):
        return
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    shutil.rmtree(path)


def _write_mark(place: str, size: int) -> None:
    temporary = f"{place}/made.new"
    with open(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        json.dump({"bytes": size}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, f"{place}/made")


def _note_use(place: str, user: str) -> None:
    link = f"{place}/uses/{hashlib.sha256(os.fsencode(user)).hexdigest()[:32]}"
    try:
        os.symlink(user, link)
    except FileExistsError:
        pass
    with open(f"{place}/used", "w"):
        pass


def _is_used(place: str) -> bool:
    """Links to directories that are gone are removed on the way."""
    try:
        names = os.listdir(f"{place}/uses")
    except FileNotFoundError:
        return False
    used = False
    for name in names:
        if os.path.isdir(f"{place}/uses/{name}"):
            used = True
        else:
            os.unlink(f"{place}/uses/{name}")
    return used


def _size(place: str) -> int:
    try:
        with open(f"{place}/made", encoding="utf-8") as file:
            return int(json.load(file)["bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0
