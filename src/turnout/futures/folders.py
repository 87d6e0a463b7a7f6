"""Directories of executors: each goes with its executor; when that was killed, with the next one that is started."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MARK = ".executor"


@contextlib.contextmanager
def executor_folder(kind: str, where: str | None = None) -> Iterator[str]:
    """A new one, for this user alone, among the temporary files or in `where`."""
    where = where or tempfile.gettempdir()
    _remove_forgotten(where)
    folder = tempfile.mkdtemp(prefix=f"turnout-{kind}-", dir=where)
    try:
        lock = _mark(folder)
        try:
            yield folder
        finally:
            os.close(lock)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _mark(folder: str) -> int:
    """The file that says that it is in use, for as long as it is open. It is never seen without its lock."""
    new, mark = os.path.join(folder, f"{_MARK}.new"), os.path.join(folder, _MARK)
    file = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(new, mark)
    return file


def _remove_forgotten(where: str) -> None:
    for mark in Path(where).glob(f"turnout-*/{_MARK}"):
        with contextlib.suppress(OSError):  # it is in use, another's, or just being removed
            if mark.parent.lstat().st_uid != os.getuid() or mark.parent.is_symlink():
                continue
            file = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(mark.parent, ignore_errors=True)
            finally:
                os.close(file)
