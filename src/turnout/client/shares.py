"""Putting files into named shares, and getting them out again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from turnout.errors import Conflict, InvalidInput, NotFound, SnapshotRefused, Unavailable
from turnout.model.ids import check_label
from turnout.snapshot import Joined, Limits, Part, Policy, Sink, capture, capture_file, join
from turnout.wire import manifest, pack
from turnout.wire.manifest import BadManifest, Entry
from turnout.wire.restore import RestoreFailed, restore

Told = Callable[[int, int], None]
"""Is told how many bytes are done, of how many."""

_LIMITS = Limits(file_bytes=16 << 30, total_bytes=1 << 40, files=manifest.MAX_ENTRIES)
_PIECE = 1 << 20
_AT_ONCE = 10_000  # blobs asked for in one request


class Source(Protocol):
    """Where blobs come from; a Client is one."""

    def open_blobs(self, digests: Sequence[str]) -> BinaryIO: ...


def gather(
    paths: Sequence[Path], *, place: str, cache: Path, allow_secrets: Collection[str] = (), omit: Sequence[str] = ()
) -> Joined:
    """Files go by their own name, directories with all they hold; all of it to `place` in the share.

    Nothing is left out but what `omit` names: data has no .gitignore. InvalidInput, SnapshotRefused.
    """
    parts = []
    policy = Policy(_LIMITS, tuple(allow_secrets))
    try:
        for path in paths:
            if path.is_dir():
                taken = capture(
                    path,
                    cache=cache,
                    limits=_LIMITS,
                    allow_secrets=allow_secrets,
                    omit=omit,
                    honours_ignore_files=False,
                )
            elif path.exists():
                taken = capture_file(path, policy=policy)
            else:
                raise NotFound(f"no file or directory {str(path)!r}", hint="check the path")
            parts.append(Part(taken, place.strip("/")))
    except SnapshotRefused as error:
        hint = "if something is no secret: --allow-secret PATH; to leave it out: --omit PATTERN"
        raise SnapshotRefused(error.message.replace("the snapshot", "a share"), hint=hint) from error
    joined = join(parts)
    if not joined.entries:
        raise InvalidInput("nothing to upload: no files there", hint="give a directory that holds files, or a file")
    return joined


def deliver(joined: Joined, sink: Sink, told: Told | None = None) -> str:
    """The digest of the manifest of what is in the sink now; see `Joined.deliver`."""
    return joined.deliver(_Counted(sink, joined.entries, told) if told is not None else sink).digest


class _Counted:
    """A sink that tells how much of what it lacked it has."""

    def __init__(self, sink: Sink, entries: Iterable[Entry], told: Told) -> None:
        self._sink = sink
        self._sizes = {entry.digest: entry.size for entry in entries}
        self._told = told
        self._done = self._total = 0

    def missing(self, digests: Iterable[str]) -> list[str]:
        absent = self._sink.missing(digests)
        self._total += sum(self._sizes.get(digest, 0) for digest in absent)
        return absent

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        def counted() -> Iterator[tuple[str, bytes]]:
            for digest, content in blobs:
                yield digest, content
                self._count(len(content))

        self._sink.put_many(counted())

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        self._sink.put_stream(digest, _CountedChunks(chunks, self._count))

    def _count(self, size: int) -> None:
        self._done += size
        self._told(min(self._done, self._total), self._total)


@dataclass(frozen=True, slots=True)
class _CountedChunks:
    """Chunks that can be read again if those they come from can."""

    chunks: Iterable[bytes]
    count: Callable[[int], None]

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            yield chunk
            self.count(len(chunk))


def select(entries: Sequence[Entry], pattern: str | None) -> list[Entry]:
    """Those whose path is `pattern`, lies below it, or matches it as a glob (in which ``*`` passes over slashes)."""
    if not pattern:
        return list(entries)
    plain = pattern.strip("/")
    return [
        entry
        for entry in entries
        if entry.path == plain or entry.path.startswith(plain + "/") or fnmatchcase(entry.path, plain)
    ]


def read_manifest(source: Source, digest: str) -> list[Entry]:
    with tempfile.TemporaryDirectory(prefix="turnout-") as directory:
        _fetch(source, [digest], directory, None, 0)
        return manifest.decode(Path(directory, digest).read_bytes())


def write(source: Source, entries: Sequence[Entry], directory: Path, told: Told | None = None) -> dict[str, Any]:
    """The files in `directory`, which is new or empty: all of them, or it is left as it was. Conflict, Unavailable."""
    with _filling(directory) as new:
        blobs = tempfile.mkdtemp(prefix=".blobs-", dir=new.parent)
        try:
            wanted = sorted({entry.digest for entry in entries if not entry.link})
            _fetch(source, wanted, blobs, told, sum({entry.digest: entry.size for entry in entries}.values()))
            done = restore(entries, str(new), lambda name: os.path.join(blobs, name))
        finally:
            shutil.rmtree(blobs, ignore_errors=True)
    return {"directory": str(directory), "files": done.files, "bytes": done.bytes}


@contextmanager
def _filling(directory: Path) -> Iterator[Path]:
    """A new directory beside it that takes its place once it is filled."""
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Conflict(f"{directory} is not an empty directory", hint="give a new or empty directory")
        directory.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    except OSError as error:
        raise InvalidInput(f"cannot write into {directory}: {error.strerror}", hint="give another directory") from error
    try:
        yield new
        mask = os.umask(0o077)
        os.umask(mask)
        new.chmod(0o777 & ~mask)
        new.rename(directory)
    except (pack.BadPack, BadManifest, RestoreFailed, HTTPException) as error:
        raise Unavailable(f"the files are damaged: {error}", hint="try again; see `turnout doctor`") from error
    except OSError as error:
        hint = "free some space, or give another directory"
        raise Unavailable(f"cannot write into {directory}: {error.strerror or error}", hint=hint) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _fetch(source: Source, digests: Sequence[str], directory: str, told: Told | None, total: int) -> None:
    """Each blob as a file of `directory`, piece by piece, for one may be larger than the memory. BadPack."""
    done = 0
    for start in range(0, len(digests), _AT_ONCE):
        stream = source.open_blobs(digests[start : start + _AT_ONCE])
        for digest, size in pack.headers(stream, max_blob=1 << 40):
            hashed = hashlib.sha256()
            with open(os.path.join(directory, digest), "wb") as file:
                for piece in pack.pieces(stream, size, most=_PIECE):
                    hashed.update(piece)
                    file.write(piece)
                    done += len(piece)
                    if told is not None:
                        told(done, total)
            if hashed.hexdigest() != digest:
                raise pack.BadPack(f"blob {digest} is damaged")


def check_name(name: str) -> str:
    """A name that a share can have; the path in it is another thing."""
    if "/" in name:
        raise InvalidInput(f"{name!r} is not a share's name", hint="write --share NAME --path SUB/PATH")
    return check_label(name, "share")
