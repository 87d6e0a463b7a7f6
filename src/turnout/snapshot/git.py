"""Which commit a directory is at, and whether it has been changed since.

``git status`` tells all of it in one call, but takes half as long as the capture of an unchanged tree. So it is
started before the capture and asked after it; kept to one thread, it costs next to nothing on a second core. Where it
does not answer in time, or git is not there, the commit and branch are read from ``.git`` and `dirty` is not known.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from turnout.snapshot.ignore import git_top

_PATIENCE = 2.0
_COMMAND = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.preloadIndex=false",
    "status", "--porcelain=v2", "--branch", "--untracked-files=normal",
)  # fmt: skip


def git_state(root: Path) -> dict[str, object] | None:
    """{commit, branch, dirty} of the repository around `root`; None outside of one. Raises nothing.

    `commit` is None before the first one, `branch` None when detached, `dirty` None when git could not tell. Files that
    git does not track count as a change.
    """
    return GitProbe(os.path.realpath(root)).result()


class GitProbe:
    """A question put to git; `result` waits for the answer, at most two seconds from the start."""

    def __init__(self, root: str) -> None:
        self._top = git_top(root)
        self._process: subprocess.Popen[bytes] | None = None
        self._until = time.monotonic() + _PATIENCE
        if self._top is not None:
            try:
                self._process = subprocess.Popen(
                    _COMMAND,
                    cwd=root,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "LC_ALL": "C"},
                )
            except OSError:
                pass

    def result(self) -> dict[str, object] | None:
        if self._top is None:
            return None
        answer = self._answer()
        if answer is None:
            return _from_files(self._top)
        state: dict[str, object] = {"commit": None, "branch": None, "dirty": False}
        for line in answer.splitlines():
            if line.startswith("# branch.oid ") and not line.endswith("(initial)"):
                state["commit"] = line.rpartition(" ")[2]
            elif line.startswith("# branch.head ") and not line.endswith("(detached)"):
                state["branch"] = line[len("# branch.head ") :]
            elif not line.startswith("#"):
                state["dirty"] = True
        return state

    def cancel(self) -> None:
        """The answer is no longer wanted. Nothing happens after `result`."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _answer(self) -> str | None:
        if self._process is None:
            return None
        try:
            answer, _ = self._process.communicate(timeout=max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.cancel()
            return None
        return answer.decode("utf-8", "replace") if self._process.returncode == 0 else None


def _from_files(top: str) -> dict[str, object]:
    try:
        folder = _git_folder(top)
        head = _line(os.path.join(folder, "HEAD"))
        if not head.startswith("ref: "):
            return {"commit": head or None, "branch": None, "dirty": None}
        ref = head.removeprefix("ref: ")
        return {"commit": _commit_of(folder, ref), "branch": ref.removeprefix("refs/heads/"), "dirty": None}
    except OSError:
        return {"commit": None, "branch": None, "dirty": None}


def _git_folder(top: str) -> str:
    path = os.path.join(top, ".git")
    if os.path.isdir(path):
        return path
    return os.path.join(top, _line(path).removeprefix("gitdir: "))  # a worktree or submodule


def _commit_of(folder: str, ref: str) -> str | None:
    common = os.path.join(folder, "commondir")
    folders = [folder, os.path.join(folder, _line(common))] if os.path.exists(common) else [folder]
    for each in folders:
        if os.path.exists(os.path.join(each, ref)):
            return _line(os.path.join(each, ref))
        packed = os.path.join(each, "packed-refs")
        if os.path.exists(packed):
            with open(packed, encoding="utf-8", errors="surrogateescape") as file:
                for line in file:
                    if line.rstrip("\n").endswith(" " + ref):
                        return line.partition(" ")[0]
    return None


def _line(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.readline().strip()
