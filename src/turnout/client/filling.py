"""A directory of the user's that gets files the hub keeps: all of them, or it is left as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, Protocol

from turnout.errors import Conflict, HubUnreachable, InvalidInput, Unavailable
from turnout.wire import manifest, pack
from turnout.wire.manifest import BadManifest, Entry
from turnout.wire.restore import Restored, RestoreFailed, restore

Told = Callable[[int, int], None]
"""Is told how many bytes are done, of how many."""

_UNFINISHED = ".turnout-"
_PIECE = 1 << 20
_LARGEST = 1 << 40
_AT_ONCE = 10_000  # blobs asked for in one request


class Source(Protocol):
    """Where blobs come from; a Client is one."""

    def open_blobs(self, digests: Sequence[str]) -> BinaryIO: ...


@contextmanager
def filling(directory: Path) -> Iterator[Path]:
    """A new directory whose contents take their place once all are there. Where `directory` exists it stays itself:
    somebody may be in it. Conflict when it is not empty; InvalidInput, Unavailable when it cannot be written."""
    try:
        is_there = directory.exists()
        if is_there and (names := os.listdir(directory)):
            hint = "give a new or empty directory"
            if all(name.startswith(_UNFINISHED) for name in names):
                hint = f"remove {directory / names[0]}, which one that was killed left there"
            raise Conflict(f"{directory} is not empty", hint=hint)
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        around = directory if is_there else directory.absolute().parent
        new = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=around))
    except OSError as error:
        raise InvalidInput(f"cannot write into {directory}: {error.strerror}", hint="give another directory") from error
    try:
        yield new
        _put_in_place(new, directory, is_there)
    except (pack.BadPack, BadManifest, RestoreFailed) as error:
        raise Unavailable(f"the files are damaged: {error}", hint="try again; see `turnout doctor`") from error
    except OSError as error:
        hint = "free some space, or give another directory"
        raise Unavailable(f"cannot write into {directory}: {error.strerror or error}", hint=hint) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put_in_place(new: Path, directory: Path, is_there: bool) -> None:
    if is_there:
        for each in new.iterdir():
            each.rename(directory / each.name)
        return
    mask = os.umask(0o077)
    os.umask(mask)
    new.chmod(0o777 & ~mask)
    new.rename(directory)


class Blobs:
    """Blobs in files, each fetched once however often it is asked for; gone when it is closed.

    `told` hears of what is fetched, of `total` bytes in all.
    """

    def __init__(self, source: Source, *, told: Told | None = None, total: int = 0, beside: Path | None = None) -> None:
        self._source = source
        self._told = told
        self._total = total
        self._done = 0
        self._files = tempfile.TemporaryDirectory(prefix=".blobs-", dir=beside)

    def __enter__(self) -> Blobs:
        return self

    def __exit__(self, *_error: object) -> None:
        self._files.cleanup()

    def entries(self, digest: str) -> list[Entry]:
        """Those of the manifest with this digest. BadPack, BadManifest."""
        self.fetch([digest])
        return manifest.decode(self._path(digest).read_bytes())

    def write(self, entries: Sequence[Entry], directory: Path) -> Restored:
        """These files into a new directory. BadPack, BadManifest, RestoreFailed."""
        self.fetch(entry.digest for entry in entries if not entry.link)
        return restore(entries, str(directory), lambda digest: str(self._path(digest)))

    def fetch(self, digests: Iterable[str]) -> None:
        """Piece by piece, for one may be larger than the memory. BadPack; HubUnreachable when the hub goes away."""
        wanted = sorted(digest for digest in set(digests) if not self._path(digest).exists())
        try:
            for start in range(0, len(wanted), _AT_ONCE):
                stream = self._source.open_blobs(wanted[start : start + _AT_ONCE])
                for digest, size in pack.headers(stream, max_blob=_LARGEST):
                    self._keep(digest, pack.pieces(stream, size, most=_PIECE))
        except (ConnectionError, HTTPException) as error:
            raise HubUnreachable(f"the hub went away: {error}", hint="try again; see `turnout hub logs`") from error

    def _keep(self, digest: str, pieces: Iterable[bytes]) -> None:
        hashed = hashlib.sha256()
        with open(self._path(digest), "wb") as file:
            for piece in pieces:
                hashed.update(piece)
                file.write(piece)
                self._done += len(piece)
                if self._told is not None:
                    self._told(min(self._done, self._total), self._total)
        if hashed.hexdigest() != digest:
            raise pack.BadPack(f"blob {digest} is damaged")

    def _path(self, digest: str) -> Path:
        return Path(self._files.name, digest)
