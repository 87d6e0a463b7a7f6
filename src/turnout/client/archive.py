"""A workspace in one file: written as it comes and checked on the way; checked again before it goes back in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import urlencode

from turnout.client.appearing import appearing
from turnout.errors import Conflict, HubUnreachable, InvalidInput, Unavailable, from_dict
from turnout.wire import archive
from turnout.wire.archive import BadArchive, Failed, Reader

Progress = Callable[[int, int], None]
_PIECE = 1 << 20


class Answering(Protocol):
    """A stream of bytes, and what was said before it."""

    @property
    def stream(self) -> BinaryIO: ...
    @property
    def headers(self) -> Any: ...


def receive(answer: Answering, file: Path, progress: Progress) -> dict[str, Any]:
    """Writes the archive that is coming to `file`, which appears when all of it is there and checked, or not at all."""
    about = int(answer.headers.get("turnout-about-bytes", "0"))
    with _writing(file), appearing(file) as target:
        reader = _check(_Copying(answer.stream, target), lambda done: progress(done, max(about, done)))
    told = {name: reader.head[name] for name in ("workspace", "jobs", "runs")}
    return {
        "file": str(file), "bytes": file.stat().st_size, "archive": reader.head["id"], **told, "counts": reader.counts,
    }  # fmt: skip


def check_target(file: Path) -> None:
    """Conflict or InvalidInput, before anything is asked of the hub, when `file` cannot be made."""
    if os.path.lexists(file):
        raise Conflict(f"{file} exists", hint="remove it, or give another name")
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{file.parent} is not a directory", hint="make it first, or give another name")


def inspect(file: Path, progress: Progress) -> dict[str, Any]:
    """Reads all of an archive and checks it; what its head says. InvalidInput when it is not whole."""
    try:
        with open(file, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            return archive.check(source, lambda done: progress(done, size)).head
    except BadArchive as error:
        raise InvalidInput(f"{file}: {error}", hint=f"nothing was imported; {error.hint}") from error
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", hint="check the name") from error


class Body:
    """The bytes of a file, from its beginning each time they are asked for."""

    def __init__(self, file: Path, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def __iter__(self) -> Iterator[bytes]:
        done = 0
        with open(self._file, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            while piece := source.read(_PIECE):
                yield piece
                done += len(piece)
                self._progress(done, size)


def import_path(workspace: str | None, prefix: str, *, again: bool) -> str:
    query = {"prefix": prefix, "again": str(again).lower()} | ({"as": workspace} if workspace is not None else {})
    return "/api/import?" + urlencode(query)


class _Copying:
    """Reads one stream, and writes what was read to another."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target

    def read(self, count: int = -1) -> bytes:
        try:
            piece = self._source.read(count)
        except (OSError, HTTPException) as error:
            hint = "nothing was written; try again, which starts a hub; `turnout hub logs` may tell why it went"
            raise HubUnreachable("the hub went away in the middle of the export", hint=hint) from error
        self._target.write(piece)
        return piece


def _check(stream: Any, watch: Callable[[int], None]) -> Reader:
    try:
        return archive.check(stream, watch)
    except Failed as error:
        raise from_dict(error.told) from error
    except BadArchive as error:
        raise Unavailable(f"the export broke off: {error}", hint="try again; see `turnout hub logs`") from error


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    """What goes wrong with the user's file is told as such."""
    try:
        yield
    except FileExistsError as error:
        raise Conflict(f"{file} exists", hint="remove it, or give another name") from error
    except OSError as error:
        hint = "free some space, or write elsewhere"
        raise Unavailable(f"{file} cannot be written: {error.strerror or error}", hint=hint) from error
