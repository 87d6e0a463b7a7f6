"""Filling a run's directory with what was frozen at submit."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List

from turnout.agent.cache import Cache
from turnout.agent.rundir import RunDir
from turnout.wire import manifest
from turnout.wire.manifest import Entry
from turnout.wire.messages import Grant, JobOrder
from turnout.wire.restore import RestoreFailed, restore

_ARGUMENTS = "$RUN_ARGS$"
_KEPT = "output/"


def needs_files(grant: Grant, job: JobOrder) -> bool:
    """Whether files have to be moved to fill the directory."""
    return job.before is not None or grant.carry is not None


def fill(directory: RunDir, grant: Grant, job: JobOrder, cache: Cache, is_wanted: Callable[[], bool]) -> Dict[str, Any]:
    """Puts the frozen files, what earlier attempts left in the output directory, and the run script in place.

    Says how much that was. Raises what `Cache.fetch` and `restore` raise; the directory has to be made anew then.
    """
    told: Dict[str, Any] = {"files": 0, "bytes": 0, "downloaded": 0}
    if needs_files(grant, job):
        if job.before is not None:
            entries = cache.read_manifest(job.before, is_wanted)
            directory.make_way(entry.path for entry in entries)
            told = _restore(entries, directory.work, cache, is_wanted)
        if grant.carry is not None:
            _put_back(cache.read_manifest(grant.carry, is_wanted), directory.work, cache, is_wanted)
        directory.complete()
    if job.script is not None:
        _write_script(directory, job)
    return told


def script_path(directory: RunDir, job: JobOrder) -> str:
    if job.script_path is None:
        return os.path.join(directory.ctl, "run.sh")
    return os.path.join(directory.work, manifest.check_path(job.script_path))


def _write_script(directory: RunDir, job: JobOrder) -> None:
    """The run script with its place for the arguments filled: they come as the shell's own, never as text."""
    assert job.script is not None
    text = job.script.replace(f'"{_ARGUMENTS}"', '"$@"').replace(_ARGUMENTS, '"$@"')
    path = script_path(directory, job)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _restore(entries: List[Entry], target: str, cache: Cache, is_wanted: Callable[[], bool]) -> Dict[str, Any]:
    missing = cache.fetch((entry.digest for entry in entries if not entry.link), is_wanted)
    try:
        done = restore(entries, target, cache.path)
    except RestoreFailed as error:
        if cache.drop_damaged(entries):
            raise DamagedCache(str(error)) from error
        raise
    return {"files": done.files, "bytes": done.bytes, "downloaded": missing}


def _put_back(entries: List[Entry], target: str, cache: Cache, is_wanted: Callable[[], bool]) -> None:
    """What the earlier attempts left in the output directory, over the files that are there already."""
    left = [entry for entry in entries if entry.path.startswith(_KEPT)]
    for entry in left:
        path = os.path.join(target, entry.path)
        if os.path.lexists(path):
            os.unlink(path)
    _restore(left, target, cache, is_wanted)


class DamagedCache(Exception):
    """A blob on this node was not what it should be. It is gone now: filling the directory anew will fetch it."""
