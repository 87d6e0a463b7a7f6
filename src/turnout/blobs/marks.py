"""Which blobs were found unwanted, and when: the memory between the two phases of a collection.

Kept in a file, because a hub that nobody uses leaves long before the second phase is due.
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
        with suppress(FileNotFoundError, ValueError, AttributeError), open(path, encoding="ascii") as file:
            # Damaged counts as absent: the first phase begins again.
            self.since = {str(digest): float(when) for digest, when in json.load(file).items()}

    def release(self, digests: Iterable[str]) -> None:
        """Somebody wants these again."""
        if self.since:
            wanted = self.since.keys() & set(digests)
            if wanted:
                self.replace({digest: when for digest, when in self.since.items() if digest not in wanted})

    def replace(self, since: dict[str, float]) -> None:
        """Remember exactly these."""
        if since != self.since:
            temporary = self._path + ".new"
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="ascii") as file:
                json.dump(since, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, self._path)
            sync_directory(os.path.dirname(self._path))
            self.since = since
