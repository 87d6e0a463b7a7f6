"""The node's own copies of blobs.

Several agents may share one directory. A file appears in it whole, but may be damaged later.
"""

from __future__ import annotations

import hashlib
import http.client
import os
from typing import BinaryIO, Callable, Dict, Iterable, List, Sequence

from turnout.agent.hub import HubLine
from turnout.wire import manifest, pack
from turnout.wire.manifest import Entry
from turnout.wire.restore import RestoreFailed, restore

_BLOCK = 1 << 20
_LARGEST = 1 << 40
_NEW = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Abandoned(Exception):
    """What was being fetched is not wanted any more."""


class BrokenOff(Exception):
    """The hub has what was asked for, but its answer ended early. Trying again may help."""


class DamagedCache(Exception):
    """A blob on this node was not what it should be, or was gone. It is fetched anew when this is tried again."""


class _Cut(Exception):
    pass


class Cache:
    """For one thread."""

    def __init__(self, directory: str, line: HubLine) -> None:
        self._directory = directory
        self._line = line

    def path(self, digest: str) -> str:
        return f"{self._directory}/{digest[:2]}/{digest}"

    def fetch(self, digests: Iterable[str], is_wanted: Callable[[], bool]) -> int:
        """All of them are here on return; gives how many were not.

        Unreachable, BrokenOff: try again. Refused, BadPack, OSError: one cannot be had. Abandoned: `is_wanted` says no.
        """
        missing = [digest for digest in sorted(set(digests)) if not os.path.exists(self.path(digest))]
        if not missing:
            return 0
        try:
            stream = self._line.fetch(missing)
            for digest in missing:
                if not is_wanted():
                    raise Abandoned(digest)
                self._keep(digest, stream)
            stream.read()  # the end of the answer, so that the line can be used again
        except (_Cut, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            self._line.close()
            gone = self._line.missing(missing)
            if gone:
                raise pack.BadPack(f"the hub has no blob {gone[0]}") from error
            raise BrokenOff(f"the hub's answer ended early: {error}") from error
        except BaseException:
            self._line.close()  # what was not read is still in it
            raise
        return len(missing)

    def read_manifest(self, digest: str, is_wanted: Callable[[], bool]) -> List[Entry]:
        self.fetch([digest], is_wanted)
        with open(self.path(digest), "rb") as file:
            content = file.read()
        if manifest.digest_of(content) != digest:
            os.unlink(self.path(digest))
            raise OSError(f"the cached manifest {digest} is damaged")
        return manifest.decode(content)

    def restore(self, entries: Sequence[Entry], target: str, is_wanted: Callable[[], bool]) -> Dict[str, int]:
        """Writes them below the directory `target`, and says how much that was and how many had to be fetched.

        Raises what `fetch` does, DamagedCache, and RestoreFailed for what is wrong with the target.
        """
        fetched = self.fetch((entry.digest for entry in entries if not entry.link), is_wanted)
        try:
            done = restore(entries, target, self.path)
        except RestoreFailed as error:
            if self._drop_damaged(entries):
                raise DamagedCache(str(error)) from error
            raise
        return {"files": done.files, "bytes": done.bytes, "downloaded": fetched}

    def _drop_damaged(self, entries: Iterable[Entry]) -> bool:
        """Removes those that are not what their digest says, so that they are fetched anew; whether any is missing."""
        missing = False
        for digest in {entry.digest for entry in entries if not entry.link}:
            path = self.path(digest)
            if os.path.exists(path) and digest_of_file(path) != digest:
                os.unlink(path)
            missing = missing or not os.path.exists(path)
        return missing

    def _keep(self, digest: str, stream: BinaryIO) -> None:
        """The next blob of the stream, piece by piece and checked. It appears whole or not at all."""
        path = self.path(digest)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        try:
            with open(os.open(temporary, _NEW, 0o600), "wb") as file:
                _copy_blob(digest, stream, file)
            os.replace(temporary, path)
        except BaseException:
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise


def _copy_blob(digest: str, stream: BinaryIO, file: BinaryIO) -> None:
    parsed = pack.parse_header(_exactly(stream, pack.HEADER.size))
    if parsed is None or parsed[0] > _LARGEST or parsed[1].hex() != digest:
        raise pack.BadPack(f"blob {digest} is not what came")
    left, hashed = parsed[0], hashlib.sha256()
    while left:
        block = _exactly(stream, min(left, _BLOCK))
        hashed.update(block)
        file.write(block)
        left -= len(block)
    if hashed.hexdigest() != digest:
        raise pack.BadPack(f"blob {digest} is damaged")


def _exactly(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise _Cut("nothing came any more")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def digest_of_file(path: str) -> str:
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            hashed.update(block)
    return hashed.hexdigest()
