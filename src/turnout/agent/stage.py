"""A run's directory: made fresh, filled with what was frozen at submit, emptied and removed when all is told."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any, Dict, List, Optional

from turnout.agent.hub import HubLine, cached, keep
from turnout.wire import manifest
from turnout.wire.manifest import Entry
from turnout.wire.messages import Grant, JobOrder
from turnout.wire.restore import restore

_GRANT = "grant.json"
_ARGUMENTS = "$RUN_ARGS$"


class RunDir:
    """``<node>/runs/<run>.<attempt>``: ``ctl/`` is ours, ``work/`` is the run's."""

    __slots__ = ("ctl", "path", "track", "work")

    def __init__(self, path: str) -> None:
        self.path = path
        self.ctl = os.path.join(path, "ctl")
        self.work = os.path.join(path, "work")
        self.track = os.path.join(self.ctl, "track")

    @property
    def output(self) -> str:
        return os.path.join(self.ctl, "output")

    @property
    def marker(self) -> str:
        """An entry of the run's environment that no other process on this machine has."""
        return f"TURNOUT_SPOOL={self.track}"

    def make(self) -> None:
        """Fresh and private; what an earlier, never begun try left is removed."""
        try:
            os.mkdir(self.path, 0o700)
        except FileExistsError:
            shutil.rmtree(self.path)
            os.mkdir(self.path, 0o700)
        for directory in (self.ctl, self.work, self.track):
            os.mkdir(directory, 0o700)

    def finish(self) -> None:
        """What every run finds in its directory beside its files."""
        for make in (
            lambda: os.mkdir(os.path.join(self.work, "output")),
            lambda: os.symlink(os.path.join("..", "ctl", "output"), os.path.join(self.work, "output.txt")),
        ):
            try:
                make()
            except FileExistsError:
                pass

    def remember(self, grant: Grant, job: JobOrder) -> None:
        """Who this is, for an agent that comes after this one. No environment: its values stay in memory."""
        known = {"grant": vars(grant), "after": job.after, "job": job.job}
        fd = os.open(os.path.join(self.ctl, _GRANT), os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(known, file)

    def recall(self) -> Optional[Dict[str, Any]]:
        try:
            with open(os.path.join(self.ctl, _GRANT), encoding="utf-8") as file:
                known = json.load(file)
            known["grant"] = Grant(**known["grant"])
            return dict(known)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def remove(self) -> None:
        """Also what a run made unreadable for itself; what cannot be removed is left."""
        shutil.rmtree(self.path, onerror=_open_up)


def fill(directory: RunDir, grant: Grant, job: JobOrder, cache: str, line: HubLine) -> Dict[str, Any]:
    """Puts the frozen files, what earlier attempts left in the output directory, and the run script in place."""
    told: Dict[str, Any] = {"files": 0, "bytes": 0, "downloaded": 0}
    if job.before is not None:
        told = _restore(_manifest(job.before, cache, line), directory.work, cache, line)
    if grant.carry is not None:
        entries = [entry for entry in _manifest(grant.carry, cache, line) if entry.path.startswith("output/")]
        _replace(entries, directory.work, cache, line)
    if job.script is not None:
        write_script(directory, job)
    directory.finish()
    return told


def write_script(directory: RunDir, job: JobOrder) -> None:
    """The run script with its place for the arguments filled: they come as the shell's own, never as text."""
    assert job.script is not None
    text = job.script.replace(f'"{_ARGUMENTS}"', '"$@"').replace(_ARGUMENTS, '"$@"')
    path = script_path(directory, job)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def script_path(directory: RunDir, job: JobOrder) -> str:
    if job.script_path is None:
        return os.path.join(directory.ctl, "run.sh")
    return os.path.join(directory.work, manifest.check_path(job.script_path))


def _manifest(digest: str, cache: str, line: HubLine) -> List[Entry]:
    path = cached(cache, digest)
    if not os.path.exists(path):
        for found, content in line.fetch([digest]):
            path = keep(cache, found, content)
    with open(path, "rb") as file:
        content = file.read()
    if manifest.digest_of(content) != digest:
        os.unlink(path)
        raise OSError(f"the cached manifest {digest} is damaged")
    return manifest.decode(content)


def _restore(entries: List[Entry], target: str, cache: str, line: HubLine) -> Dict[str, Any]:
    wanted = {entry.digest for entry in entries if not entry.link}
    missing = [digest for digest in sorted(wanted) if not os.path.exists(cached(cache, digest))]
    if missing:
        for digest, content in line.fetch(missing):
            keep(cache, digest, content)
    done = restore(entries, target, lambda digest: cached(cache, digest))
    return {"files": done.files, "bytes": done.bytes, "downloaded": len(missing)}


def _replace(entries: List[Entry], target: str, cache: str, line: HubLine) -> None:
    """As `_restore`, over files that may be there already."""
    for entry in entries:
        path = os.path.join(target, entry.path)
        if os.path.lexists(path):
            os.unlink(path)
    _restore(entries, target, cache, line)


def _open_up(function: Any, path: str, _error: object) -> None:
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700, follow_symlinks=False) if not os.path.islink(path) else None
        function(path)
    except OSError:
        pass
