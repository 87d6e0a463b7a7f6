"""Getting the files of a run back, into a directory of the user's choice."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from turnout.errors import Conflict, InvalidInput, Unavailable
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest
from turnout.wire.pack import BadPack
from turnout.wire.restore import RestoreFailed, restore

_PARTS = ("before", "after")
_OUTPUT = "output.txt"


class Source(Protocol):
    """Where the files come from; a Client is one."""

    def files(self, name: str) -> dict[str, Any]: ...
    def download(self, digests: Sequence[str]) -> Iterator[tuple[str, bytes]]: ...
    def output(self, name: str) -> Iterator[bytes]: ...


def extract(source: Source, name: str, directory: Path) -> dict[str, Any]:
    """``{"run", "directory", "before": files, "after": files}``; see `Client.extract`."""
    files = source.files(name)
    told: dict[str, Any] = {"run": name, "directory": str(directory)}
    with _filling(directory):
        for part in _PARTS:
            told[part] = _write_files(source, files[part], directory / part) if files[part] else 0
        with open(directory / _OUTPUT, "wb") as file:
            for piece in source.output(name):
                file.write(piece)
    return told


@contextmanager
def _filling(directory: Path) -> Iterator[None]:
    """The directory, made or found empty. What goes wrong meanwhile leaves it as it was."""
    try:
        made = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise Conflict(f"{directory} is not empty", hint="give a new or empty directory")
    except OSError as error:
        raise InvalidInput(f"cannot write into {directory}: {error.strerror}", hint="give another directory") from error
    try:
        yield
    except BaseException as error:
        for part in _PARTS:
            shutil.rmtree(directory / part, ignore_errors=True)
        (directory / _OUTPUT).unlink(missing_ok=True)
        if made:
            directory.rmdir()
        if isinstance(error, BadPack | BadManifest | RestoreFailed):
            raise Unavailable(f"the files are damaged: {error}", hint="try again; see `turnout hub logs`") from error
        if isinstance(error, OSError):
            why = error.strerror or str(error)
            raise Unavailable(
                f"cannot write into {directory}: {why}", hint="free some space, or give another directory"
            ) from error
        raise


def _write_files(source: Source, digest: str, directory: Path) -> int:
    """The files of one manifest, through files beside it: they may be larger than the memory."""
    ((_, listing),) = source.download([digest])
    entries = manifest.decode(listing)
    wanted = sorted({entry.digest for entry in entries if not entry.link})
    with tempfile.TemporaryDirectory(prefix=".blobs-", dir=directory.parent) as blobs:
        for name, content in source.download(wanted) if wanted else ():
            Path(blobs, name).write_bytes(content)
        return restore(entries, str(directory), lambda name: os.path.join(blobs, name)).files
