"""A snapshot that is kept, as files in a directory again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from turnout.blobs import Blobs
from turnout.errors import Internal
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest
from turnout.wire.restore import RestoreFailed, restore


def lay_out(blobs: Blobs, digest: str | None, directory: Path) -> None:
    """Puts the files of this snapshot, or none, into `directory`, which appears as a whole; one that is there stays as
    it is. NotFound when a blob is not there, Internal when something is damaged or in the way."""
    if directory.is_dir():
        return
    fresh = directory.with_name(f"{directory.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    try:
        if digest is not None:
            restore(manifest.decode(blobs.read(digest)), str(fresh), blobs.read)
        fresh.replace(directory)
    except (BadManifest, RestoreFailed) as error:
        raise Internal(f"snapshot {digest} cannot be laid out: {error}", hint="see `turnout doctor`") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
