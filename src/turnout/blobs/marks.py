"""Which blobs were found unwanted, and when: the memory between the two phases of a collection.

Kept in a file, because a hub that nobody uses leaves long before the second phase is due. Its first line has all marks
of a collection; each line behind it has those that were released since, so that wanting one blob does not write down
all the others again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress

from turnout.blobs.packs import sync_directory


class Marks:
    """digest -> the time it was first found unwanted. Every change is durable when the call returns."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.since: dict[str, float] = {}
        self._is_sound = False
        with suppress(FileNotFoundError, ValueError, AttributeError, TypeError), open(path, encoding="ascii") as file:
            # Damaged counts as absent: the first phase begins again. A last line that is not whole was not answered.
            first, *released = file.read().split("\n")
            self.since = {str(digest): float(when) for digest, when in json.loads(first).items()}
            for line in released[:-1]:
                for digest in json.loads(line):
                    self.since.pop(digest, None)
            self._is_sound = released[-1:] == [""]

    def release(self, digests: Iterable[str]) -> None:
        """Somebody wants these again."""
        wanted = self.since.keys() & set(digests) if self.since else set()
        if not wanted:
            return
        if self._is_sound:
            self._append(json.dumps(sorted(wanted)) + "\n")
            for digest in wanted:
                del self.since[digest]
        else:
            self.replace({digest: when for digest, when in self.since.items() if digest not in wanted})

    def replace(self, since: dict[str, float]) -> None:
        """Remember exactly these."""
        if since == self.since and (self._is_sound or not since):
            return
        temporary = self._path + ".new"
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(json.dumps(since) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, self._path)
        sync_directory(os.path.dirname(self._path))
        self.since = since
        self._is_sound = True

    def _append(self, line: str) -> None:
        self._is_sound = False  # until all of it is there: what a failure left behind is not to be written behind
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._is_sound = True
