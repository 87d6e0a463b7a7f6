"""What a run leaves behind: the files to keep, found and hashed on the node once the run is over.

The run's directory belongs to the run, which may have put anything there. So every step goes through a descriptor of
the directory before it, nothing is followed, and only regular files are ever opened.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Dict, FrozenSet, Iterator, List, Optional, Sequence, Set, Tuple

from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry
from turnout.wire.patterns import Rest, Step, advance, compile_omitted, compile_pattern, onward

MAX_FILES = 100_000
_BLOCK = 1 << 20
_SHOWN = 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def capture_after(work: str, patterns: Sequence[str], artifacts: Sequence[str]) -> Tuple[List[Entry], List[str]]:
    """The files below `work` that match `patterns` or are named in `artifacts`, and what could not be taken.

    Patterns are globs relative to `work`: ``*`` and ``?`` stay within a directory, ``**`` is any number of them, and a
    directory stands for all it holds; what matches a pattern behind ``!`` is left out again, one without a slash in any
    directory. Artifacts are literal paths, relative or absolute, inside `work`. Links that stay
    inside are kept as links; all else that is not a regular readable file is left out and named in the problems, which
    are text for people, at most a screenful. Reads only; raises nothing for what a run can do to its directory.
    """
    found = gather(work, patterns, artifacts)
    return found.kept(), found.shown()


def gather(work: str, patterns: Sequence[str], artifacts: Sequence[str]) -> Found:
    """The same as `capture_after`, for who looks closer."""
    found = Found(frozenset(filter(None, map(compile_omitted, patterns))))
    rests = {rest for rest in map(compile_pattern, patterns) if rest is not None}
    named: Set[str] = set()
    for path in artifacts:
        inside = _inside(work, path)
        if inside is None:
            found.problem(path, "not inside the run's directory")
        else:
            named.add(inside)
            rests.add(tuple(Step(part) for part in inside.split("/")) if inside else ())
    if rests:
        _capture(work, frozenset(rests), found)
    if found.omitted:  # what the run named itself is taken all the same
        omitted, found.omitted = found.omitted, frozenset()
        left = {tuple(Step(part) for part in path.split("/")) for path in named if path and not found.has(path)}
        if left:
            _capture(work, frozenset(left), found)
        found.omitted = omitted
    for path in sorted(named):
        if not found.has(path):
            found.problem(path, "no such file")
    return found


def open_after(work: str, path: str) -> int:
    """A descriptor for reading the regular file `path` (as in an Entry) below `work`, no link followed on the way.

    OSError when it is no longer there or no longer a regular file; BadManifest when `path` is not a plain path.
    """
    folder, _, name = manifest.check_path(path).rpartition("/")
    parent = open_directory(work, folder)
    try:
        return open_regular_in(parent, name)
    finally:
        os.close(parent)


def open_directory(top: str, path: str, how: int = _DIRECTORY) -> int:
    """A descriptor of the directory `path` below `top`, opened like that, no link followed on the way. OSError."""
    parent = os.open(top, how)
    for part in path.split("/") if path else []:
        try:
            child = os.open(part, how, dir_fd=parent)
        finally:
            os.close(parent)
        parent = child
    return parent


def open_regular_in(directory: int, name: str) -> int:
    """A descriptor for reading this file of an open directory; OSError when it is no regular file, or a link."""
    fd = os.open(name, _FILE, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


class Found:
    """What was found so far. `links` are those that were met, with what they say: those that are kept, that lead out,
    and that lie where a pattern goes on behind them."""

    def __init__(self, omitted: FrozenSet[Rest] = frozenset()) -> None:
        self.omitted = omitted
        self.entries: Dict[str, Entry] = {}
        self.links: Dict[str, str] = {}
        self.directories: Set[str] = set()
        self._problems: Dict[str, str] = {}

    @property
    def full(self) -> bool:
        return len(self.entries) >= MAX_FILES

    def problem(self, path: str, reason: str) -> None:
        self._problems.setdefault(path, reason)

    def has(self, path: str) -> bool:
        return path in self.entries or path in self.directories or path in self._problems

    def kept(self) -> List[Entry]:
        return sorted(self.entries.values())

    def forget(self, path: str) -> None:
        """As if it had not been met."""
        self.entries.pop(path, None)
        self._problems.pop(path, None)

    def shown(self) -> List[str]:
        lines = [f"{path!r}: {reason}" for path, reason in self._problems.items()]
        return lines if len(lines) <= _SHOWN else [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more"]


def _inside(work: str, path: str) -> Optional[str]:
    """`path` relative to `work` with plain parts only, or None when it leads out (or could)."""
    if os.path.isabs(path):
        for base in {os.path.abspath(work), os.path.realpath(work)}:
            if path == base or path.startswith(base + "/"):
                path = path[len(base) :]
                break
        else:
            return None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in parts or "\0" in path else "/".join(parts)


def _capture(work: str, rests: FrozenSet[Rest], found: Found) -> None:
    try:
        fd = os.open(work, _DIRECTORY)
    except OSError as error:
        found.problem(work, f"cannot be read ({error.strerror})")
        return
    try:
        visit(fd, "", rests, found.omitted, found)
    finally:
        os.close(fd)


def visit(directory: int, prefix: str, rests: FrozenSet[Rest], omitted: FrozenSet[Rest], found: Found) -> None:
    """Take what matches in one open directory and is not omitted, and go down. What is found is called `prefix` and
    its name."""
    found.directories.add(prefix.rstrip("/"))
    ahead = onward(rests)
    for name in _candidates(directory, prefix, rests, found):
        if found.full:
            found.problem(prefix or ".", f"more than {MAX_FILES} files; the rest is left out")
            return
        below, left_out = ahead(name), advance(omitted, name)
        if below and () not in left_out:
            _take(directory, prefix + name, name, below, left_out, found)


def _candidates(directory: int, prefix: str, rests: FrozenSet[Rest], found: Found) -> Iterator[str]:
    """The names worth a look. Where every pattern goes on with a plain name, nothing needs to be listed."""
    if all(rest and rest[0].matches is None and not rest[0].any_depth for rest in rests):
        yield from {rest[0].name for rest in rests}
        return
    try:
        with os.scandir(directory) as listing:
            for item in listing:
                yield item.name
    except OSError as error:
        found.problem(prefix.rstrip("/") or ".", f"cannot be read ({error.strerror})")


def _take(directory: int, path: str, name: str, rests: FrozenSet[Rest], omitted: FrozenSet[Rest], found: Found) -> None:
    """One name: go into a directory, keep a file or link that is matched."""
    try:
        kind = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            found.links[path] = os.readlink(name, dir_fd=directory)
        if stat.S_ISDIR(kind):
            _enter(directory, path, name, rests, omitted, found)
        elif () not in rests:
            return
        elif stat.S_ISREG(kind):
            found.entries[path] = _entry(directory, path, name)
        elif stat.S_ISLNK(kind):
            found.entries[path] = manifest.link_entry(path, found.links[path])
        else:
            found.problem(path, "neither a file nor a directory")
    except BadManifest:
        found.problem(path, "a link out of the run's directory" if stat.S_ISLNK(kind) else "a name too long or odd")
    except OSError as error:
        if error.errno != errno.ENOENT:  # gone meanwhile, or a plain name of a pattern that never was
            found.problem(path, f"cannot be read ({error.strerror})")


def _enter(
    directory: int, path: str, name: str, rests: FrozenSet[Rest], omitted: FrozenSet[Rest], found: Found
) -> None:
    if path.count("/") >= manifest.MAX_DEPTH - 1:
        found.problem(path, "nested too deeply")
        return
    fd = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        visit(fd, path + "/", rests, omitted, found)
    finally:
        os.close(fd)


def _entry(directory: int, path: str, name: str) -> Entry:
    manifest.check_path(path)
    fd = open_regular_in(directory, name)
    try:
        return entry_of(path, fd)
    finally:
        os.close(fd)


def entry_of(path: str, fd: int) -> Entry:
    """An open regular file, hashed. Its size is what was hashed, even if something still writes to it."""
    seen = os.fstat(fd)
    hashed, size = hashlib.sha256(), 0
    while True:
        block = os.read(fd, min(_BLOCK, max(seen.st_size - size, 0) + 1))
        if not block:
            return Entry(path, manifest.file_mode(seen.st_mode), size, hashed.hexdigest())
        hashed.update(block)
        size += len(block)
