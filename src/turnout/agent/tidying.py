"""The node's cache stays within its quota: what was not used for long goes first, what is in use never."""

from __future__ import annotations

import os
import time
from typing import List, NamedTuple, Sequence

from turnout.agent.shelf import Shelf

EVERY_SECONDS = 600.0
_YOUNG_SECONDS = 3600.0  # a file may have been fetched for a run whose directory is being filled


class _Blob(NamedTuple):
    fetched: float
    size: int
    is_loose: bool
    path: str


def tidy(cache: str, shelves: Sequence[Shelf], most: int, *, young: float = _YOUNG_SECONDS) -> int:
    """Removes what is above `most` bytes: cached files first, then things of the shelves that no run uses, and the
    files that were only theirs. How many bytes went, of what can be counted. What cannot be removed is left."""
    gone = 0
    while True:
        blobs = _blobs(cache)
        too_much = sum(blob.size for blob in blobs) + sum(shelf.size() for shelf in shelves) - most
        removed = _remove_loose(blobs, too_much, young)
        gone += removed
        if removed >= too_much or not any(shelf.drop_oldest() for shelf in shelves):
            return gone


def _remove_loose(blobs: List[_Blob], too_much: int, young: float) -> int:
    gone, now = 0, time.time()
    for blob in sorted(blobs):
        if gone >= too_much:
            break
        if blob.is_loose and now - blob.fetched >= young:
            try:
                os.unlink(blob.path)
            except OSError:
                continue
            gone += blob.size
    return gone


def _blobs(cache: str) -> List[_Blob]:
    """Those of which a view has another name are not loose."""
    found = []
    for folder, _, names in os.walk(cache):
        for name in names:
            path = os.path.join(folder, name)
            try:
                seen = os.lstat(path)
            except OSError:
                continue
            found.append(_Blob(seen.st_mtime, seen.st_size, seen.st_nlink == 1, path))
    return found
