"""Filling a run's directory with what was frozen at submit."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from turnout.agent import shared
from turnout.agent.cache import Cache
from turnout.agent.inputs import needs_carrying, place
from turnout.agent.rundir import PARAMS, RunDir
from turnout.agent.setups import FAILED, entrance
from turnout.agent.views import Views
from turnout.wire import manifest, nni
from turnout.wire.long_words import shorten
from turnout.wire.manifest import Entry
from turnout.wire.messages import Grant, JobOrder
from turnout.wire.patterns import given, is_glob, matcher
from turnout.wire.script import filled

_KEPT = "output/"
_MOST_SAID = 1000


def needs_files(grant: Grant, job: JobOrder) -> bool:
    """Whether files have to be moved to fill the directory."""
    has_files = job.before is not None or grant.carry is not None or grant.inputs or grant.outputs or grant.shared
    return bool(has_files) or needs_carrying(job)


class Filled(NamedTuple):
    """`told` says how much it was; `env` names directories for the run."""

    told: Dict[str, Any]
    env: Dict[str, str]


def fill(
    directory: RunDir, grant: Grant, job: JobOrder, cache: Cache, views: Views, is_wanted: Callable[[], bool]
) -> Filled:
    """Puts the frozen files, what other runs left for it, what earlier attempts left in the output directory, the run
    script or a long text of its command, data and model in place.

    Raises what `Cache.restore` and `inputs.place` raise; the directory has to be made anew then.
    """
    told: Dict[str, Any] = {"files": 0, "bytes": 0, "downloaded": 0}
    if needs_files(grant, job):
        told.update(_lay_out(directory, grant, job, cache, is_wanted))
    script = script_of(directory, grant, job)
    if script is not None:
        _write_script(script)
    shortened = None if grant.script else shorten(grant.argv, directory.text)
    if shortened is not None:
        _write(Script(shortened.text, directory.text), mode=0o600)
    if has_params(grant, job):
        directory.write_params(_params(grant))
    else:
        directory.remove_params()
    placed = place(directory, job, cache, views, is_wanted)
    return Filled({**told, **placed.told}, placed.env)


def _lay_out(
    directory: RunDir, grant: Grant, job: JobOrder, cache: Cache, is_wanted: Callable[[], bool]
) -> Dict[str, Any]:
    """The files that are moved; says how many of them were frozen. It is remembered how outputs look that are there
    already. What earlier attempts left is the run's own."""
    told: Dict[str, Any] = {}
    laid: List[Entry] = []
    if job.before is not None:
        laid = cache.read_manifest(job.before, is_wanted)
        directory.make_way(entry.path for entry in laid)
        told = dict(cache.restore(laid, directory.work, is_wanted))
    directory.make_way(output for output in grant.outputs if output != os.path.basename(directory.kept))
    for digest, patterns in grant.inputs:
        left = _taken(cache.read_manifest(digest, is_wanted), patterns)
        directory.make_way(entry.path for entry in left)
        _put_over(left, directory.work, cache, is_wanted)
        laid += left
    if grant.shared:
        directory.remember_outputs(shared.enter(grant.shared, grant.outputs))
    elif grant.outputs:
        _make_room(directory.work, grant.outputs)
        is_output = matcher(grant.outputs)
        outputs = (entry.path for entry in laid if is_output(entry.path))
        directory.remember_outputs(shared.looks(directory.work, outputs))
    if grant.carry is not None:
        _put_back(cache.read_manifest(grant.carry, is_wanted), directory.work, cache, is_wanted)
    directory.complete(grant.outputs)
    return told


class Script(NamedTuple):
    text: str
    path: str


def script_of(directory: RunDir, grant: Grant, job: JobOrder) -> Optional[Script]:
    """The script that is executed with the run's arguments, and where it lies; None when they are the command."""
    text, path = (job.parent_script, job.parent_script_path) if grant.script else (job.script, job.script_path)
    if text is None:
        return None
    if path is None:
        return Script(text, os.path.join(directory.ctl, "run.sh"))
    return Script(text, os.path.join(directory.work, manifest.check_path(path)))


def entrance_path(directory: RunDir) -> str:
    return f"{directory.ctl}/setup.sh"


def entrance_trouble(directory: RunDir) -> str:
    """Why the command was not executed: its setup could not be switched on. Empty when it could."""
    try:
        with open(entrance_path(directory) + FAILED, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_SAID).strip()
    except OSError:
        return ""


def write_entrance(directory: RunDir, job: JobOrder, environment: Optional[str]) -> None:
    """What the run's command is executed by: it switches the job's setup on."""
    assert job.setup is not None
    _write(Script(entrance(job.setup, environment), entrance_path(directory)))


def _write_script(script: Script) -> None:
    _write(script._replace(text=filled(script.text)))


def _write(script: Script, mode: int = 0o700) -> None:
    path = script.path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(script.text)


def has_params(grant: Grant, job: JobOrder) -> bool:
    """Whether it has parameters of its own, and may be a script of NNI's: one of a search, or one that got some as it
    was submitted. A parent script has none."""
    return (job.search or bool(grant.params)) and not grant.script


def number_of(grant: Grant) -> int:
    """Which of its siblings it is, from 1."""
    _, is_child, number = grant.name.rpartition(".")
    return int(number) if is_child else 1


def _params(grant: Grant) -> Dict[str, bytes]:
    """For scripts that look into a file, and for those that ask NNI's library."""
    return {PARAMS: json.dumps(grant.params).encode(), nni.PARAMETERS: nni.parameters(number_of(grant), grant.params)}


def _taken(entries: List[Entry], patterns: List[str]) -> List[Entry]:
    """Of what another run left; also what links among that lead to."""
    is_taken = given(patterns)
    taken = {entry.path: entry for entry in entries if is_taken(entry.path)}
    links = [entry for entry in taken.values() if entry.link]
    while links:
        link = links.pop()
        target = os.path.normpath(os.path.join(os.path.dirname(link.path), link.link))
        for entry in entries:
            if entry.path not in taken and (entry.path == target or entry.path.startswith(f"{target}/")):
                taken[entry.path] = entry
                links += [entry] if entry.link else []
    return list(taken.values())


def _make_own(target: str, folder: str) -> None:
    """Where this directory is a link, or lies behind one, a directory of its own with links to what is there instead:
    nothing is written through a link."""
    at = target
    for part in folder.split("/"):
        at = os.path.join(at, part)
        if not os.path.islink(at):
            continue
        there = os.path.realpath(at)
        names = os.listdir(there) if os.path.isdir(there) else []
        os.unlink(at)
        os.mkdir(at, 0o755)
        for name in names:
            os.symlink(os.path.relpath(os.path.join(there, name), os.path.realpath(at)), os.path.join(at, name))


def _make_room(target: str, outputs: List[str]) -> None:
    """The directories in which it has to leave something, as far as they are named."""
    for pattern in outputs:
        named = list(itertools.takewhile(lambda part: not is_glob(part), pattern.split("/")[:-1]))
        if named:
            os.makedirs(os.path.join(target, manifest.check_path("/".join(named))), exist_ok=True)


def _put_back(entries: List[Entry], target: str, cache: Cache, is_wanted: Callable[[], bool]) -> None:
    """What the earlier attempts left in the output directory, over the files that are there already."""
    _put_over([entry for entry in entries if entry.path.startswith(_KEPT)], target, cache, is_wanted)


def _put_over(entries: List[Entry], target: str, cache: Cache, is_wanted: Callable[[], bool]) -> None:
    """Over the files that are there already."""
    for folder in sorted({entry.path.rpartition("/")[0] for entry in entries}):
        _make_own(target, folder)
    for entry in entries:
        path = os.path.join(target, entry.path)
        if os.path.lexists(path):
            os.unlink(path)
    cache.restore(entries, target, is_wanted)
