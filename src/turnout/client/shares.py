"""Putting files into named shares, and getting them out again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from turnout.client.filling import Blobs, Source, Told, filling
from turnout.errors import InvalidInput, NotFound, SnapshotRefused
from turnout.model.ids import check_label
from turnout.snapshot import Joined, Limits, Part, Policy, Sink, capture, capture_file, join
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry

_LIMITS = Limits(file_bytes=16 << 30, total_bytes=1 << 40, files=manifest.MAX_ENTRIES)


def gather(
    paths: Sequence[Path], *, place: str, cache: Path, allow_secrets: Collection[str] = (), omit: Sequence[str] = ()
) -> Joined:
    """Files go by their own name, directories with all they hold; all of it to `place` in the share.

    No file is left out but what `omit` names: data has no .gitignore. InvalidInput, SnapshotRefused.
    """
    place = _check_place(place)
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
            parts.append(Part(taken, place))
    except SnapshotRefused as error:
        hint = "if something is no secret: --allow-secret PATH; to leave it out: --omit PATTERN"
        raise SnapshotRefused(error.message.replace("the snapshot", "a share"), hint=hint) from error
    try:
        joined = join(parts)
    except InvalidInput as error:
        hint = "upload them one after the other, each to its own --path"
        raise InvalidInput(error.message.replace("one tree", "put into one place"), hint=hint) from error
    if not joined.entries:
        raise InvalidInput("nothing to upload: no files there", hint="give a directory that holds files, or a file")
    return joined


def _check_place(place: str) -> str:
    try:
        return manifest.check_path(place.rstrip("/")) if place else ""
    except BadManifest as error:
        hint = "write a path inside the share, such as train/images"
        raise InvalidInput(f"{place!r} is no path in a share", hint=hint) from error


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
    with Blobs(source) as blobs:
        return blobs.entries(digest)


def write(source: Source, entries: Sequence[Entry], directory: Path, told: Told | None = None) -> dict[str, Any]:
    """The files in `directory`, which is new or empty: all of them, or it is left as it was. Conflict, Unavailable."""
    total = sum({entry.digest: entry.size for entry in entries}.values())
    with filling(directory) as new, Blobs(source, told=told, total=total, beside=new.parent) as blobs:
        done = blobs.write(entries, new)
    return {"directory": str(directory), "files": done.files, "bytes": done.bytes}


def check_name(name: str) -> str:
    """A name that a share can have; the path in it is another thing."""
    if "/" in name:
        raise InvalidInput(f"{name!r} is not a share's name", hint="write --share NAME --path SUB/PATH")
    return check_label(name, "share")
