"""Runs that are executed in a directory which all nodes see. What they leave stays there, and nothing is copied.

How it is told there whether an output was written anew holds for a run's own directory, too: by its look.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set

from turnout.agent import links
from turnout.agent.inputs import NoInput
from turnout.wire.patterns import is_glob, matcher

MOST = 100_000
Looks = Dict[str, List[int]]
"""How files looked, by their paths: their device and inode, size and time."""


class Left(NamedTuple):
    """`files` match the outputs that are patterns; `missing` are outputs for which there is nothing new. `problems` say
    which of those are links that lead nowhere."""

    files: List[str]
    missing: List[str]
    problems: List[str]


def enter(directory: str, outputs: Sequence[str]) -> Looks:
    """Makes the directories that outputs are to be left in. Gives how those outputs look that are there already: they
    are of an earlier time, and count only when they are written anew. NoInput where there is no such directory."""
    if not os.path.isdir(directory):
        raise NoInput(f"there is no directory {directory} on this node; it has to be one that all nodes see")
    for output in outputs:
        named = _beginning(output)
        os.makedirs(os.path.join(directory, named), exist_ok=True)
    return looks(directory, (path for output in outputs for path in _found(directory, output)))


def looks(directory: str, paths: Iterable[str]) -> Looks:
    """How those of these files look that are there. Who writes one anew changes that, also with the same content."""
    found = ((path, _look(directory, path)) for path in paths)
    return {path: look for path, look in found if look}


def unchanged(directory: str, before: Looks) -> Set[str]:
    """Those that look as they did."""
    return {path for path, look in before.items() if _look(directory, path) == look}


def left(directory: str, outputs: Sequence[str], before: Looks) -> Left:
    """What there is once the command has ended. Of a pattern, everything counts that matches."""
    files: Dict[str, None] = {}
    missing, problems = [], []
    for output in outputs:
        looks = {path: _look(directory, path) for path in _found(directory, output)}
        if all(look == before.get(path, []) for path, look in looks.items()):
            missing.append(output)
            problems += [_instead(directory, output, path) for path, look in looks.items() if not look][:1]
        elif is_glob(output):
            files.update((path, None) for path, look in looks.items() if look)
    return Left(list(files)[:MOST], missing, problems)


def _instead(directory: str, output: str, path: str) -> str:
    """What there is where an output should be, and leads nowhere."""
    try:
        told = f"a link to {links.shown(os.readlink(os.path.join(directory, path)))}, which is not there"
    except OSError:
        told = "gone again"
    return f"{output!r}: {told}" if path == output else f"{output!r}: {path} is {told}"


def _beginning(output: str) -> str:
    """The directories that are named in it."""
    parts = output.split("/")[:-1]
    at = next((number for number, part in enumerate(parts) if is_glob(part)), len(parts))
    return "/".join(parts[:at])


def _found(directory: str, output: str) -> List[str]:
    """The files that an output stands for: itself, what matches, or all that a directory holds."""
    path = os.path.join(directory, output)
    if not is_glob(output):
        if os.path.isdir(path):
            return sorted(os.path.relpath(each, directory) for each in _below(path))
        return [output] if os.path.lexists(path) else []
    is_taken = matcher([output])
    below = _below(os.path.join(directory, _beginning(output)))
    return sorted(each for each in (os.path.relpath(file, directory) for file in below) if is_taken(each))


def _below(path: str) -> Iterator[str]:
    """The files there, and links, which are not gone through: a directory elsewhere may be endless."""
    for folder, directories, names in os.walk(path):
        for name in names:
            yield os.path.join(folder, name)
        for name in directories:
            if os.path.islink(os.path.join(folder, name)):
                yield os.path.join(folder, name)


def _look(directory: str, path: str) -> List[int]:
    """Of a link, its own look as well as that of what it leads to; nothing when that is not there."""
    try:
        found = os.stat(os.path.join(directory, path))
        itself = os.lstat(os.path.join(directory, path))
    except OSError:
        return []
    link = [itself.st_ino, itself.st_mtime_ns] if stat.S_ISLNK(itself.st_mode) else []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, *link]
