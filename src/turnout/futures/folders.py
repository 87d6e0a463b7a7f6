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


class ExecutorFolder:
    """A new one, for this user alone; known as forgotten once this process has ended without removing it."""

    def __init__(self, kind: str, where: str) -> None:
        self.path = tempfile.mkdtemp(prefix=f"turnout-{kind}-", dir=where)
        self._lock = _mark(self.path)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


@contextlib.contextmanager
def executor_folder(kind: str, where: str | None = None) -> Iterator[str]:
    """One among the temporary files, or in `where`, from where those that were forgotten are removed."""
    where = where or tempfile.gettempdir()
    for _ in forgotten_folders(where):
        pass
    folder = ExecutorFolder(kind, where)
    try:
        yield folder.path
    finally:
        folder.remove()


def forgotten_folders(where: str) -> Iterator[Path]:
    """Those there whose executor was killed; each is removed when the next is asked for."""
    for mark in sorted(Path(where).glob(f"turnout-*/{_MARK}")):
        with contextlib.suppress(OSError), _locked(mark):
            yield mark.parent
            shutil.rmtree(mark.parent, ignore_errors=True)


@contextlib.contextmanager
def _locked(mark: Path) -> Iterator[None]:
    """OSError when it is in use, another's, or just being removed."""
    if mark.parent.lstat().st_uid != os.getuid() or mark.parent.is_symlink():
        raise PermissionError(mark)
    file = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def _mark(folder: str) -> int:
    """The file that says that it is in use, for as long as it is open. It is never seen without its lock."""
    new, mark = os.path.join(folder, f"{_MARK}.new"), os.path.join(folder, _MARK)
    file = os.open(new, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.rename(new, mark)
    return file
