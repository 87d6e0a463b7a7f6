"""Outputs that are links: whoever reads them elsewhere gets what they lead to.

What else a run leaves keeps its links as they are, and nothing is read through one. An output was declared by whoever
wrote the command, and the command had the rights that we have: so it is followed, also out of the run's directory, to a
regular file. In a container a path leads elsewhere than out here, so there nothing is followed out.

A link is taken apart by its text, and what that comes to is opened anew without following anything: who puts another
link in its place meanwhile makes that fail.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Callable, Collection, Dict, FrozenSet, NamedTuple, Optional, Sequence, Set

from turnout.agent.after import Found, entry_of, open_directory, open_regular_in, visit
from turnout.agent.rundir import LINK, PRINTED
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry
from turnout.wire.patterns import Rest, above, advance, compile_pattern, matcher, onward

#: How many links to directories are gone through: directories that link to each other are many very soon.
MOST = 1000
_LONGEST = 200
#: To open what lies in a directory, it need not be readable. macOS has no such way.
_PASSING = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: What is in there is no file, whatever it looks like: reading it asks the kernel, about us.
_PSEUDO = ("/proc", "/sys", "/dev")


class Followed(NamedTuple):
    """`sources` are where the content lies of what a link led to: below the run's directory, or from the root.
    `refused` are links that are no outputs, and why."""

    sources: Dict[str, str]
    refused: Dict[str, str]


def follow(
    work: str, found: Found, outputs: Sequence[str], given: Collection[str] = (), *, is_contained: bool = False
) -> Followed:
    """Of the links in `found`, those that are `outputs`, or that one lies behind, become what they lead to.

    One that leads to what is an output as well, and not just was `given`, stays a link. One to a directory brings the
    files of that; only one that is named or matched is gone through, as ``**`` does not. What leads nowhere, round in a
    circle, to no file or to a directory elsewhere is left out, and named in the problems. Reads only; raises nothing
    for what a run can do to its directory.
    """
    if not found.links:
        return Followed({}, {})
    following = _Following(work, found, outputs, given, is_contained)
    following.all()
    return Followed(following.sources(), following.refused)


def open_source(work: str, source: str) -> int:
    """A descriptor for reading what lies there, no link followed on the way. OSError when it is no regular file now."""
    top, path = ("/", source[1:]) if source.startswith("/") else (work, manifest.check_path(source))
    folder, _, name = path.rpartition("/")
    parent = open_directory(top, folder, _PASSING)
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):  # opening it may do something
            raise OSError(errno.EINVAL, "not a regular file", source)
        return open_regular_in(parent, name)
    finally:
        os.close(parent)


class _Refused(Exception):
    """It is no output; says what the link is."""


class _Following:
    def __init__(
        self, work: str, found: Found, outputs: Sequence[str], given: Collection[str], is_contained: bool
    ) -> None:
        self._work = work
        self._root = os.path.realpath(work)
        self._found = found
        self._outputs = frozenset(rest for rest in map(compile_pattern, outputs) if rest is not None)
        self._given = given
        self._is_contained = is_contained
        self._ahead: Dict[str, Callable[[str], FrozenSet[Rest]]] = {}
        is_output = matcher(outputs)
        self._files = {path for path in found.entries if path not in given and is_output(path)}
        self._folders = {folder for path in self._files for folder in above(path)}
        self._places: Dict[str, str] = {}
        """Links that were gone through, and the directories behind them."""
        self._origins: Dict[str, str] = {}
        self.refused: Dict[str, str] = {}

    def all(self) -> None:
        """Those that are met in a directory behind a link come last, and are followed, too."""
        seen: Set[str] = set()
        while len(seen) < len(self._found.links):
            for path in sorted(set(self._found.links) - seen):
                seen.add(path)
                self._one(path)

    def sources(self) -> Dict[str, str]:
        behind = {path: self._real(path) for path in self._found.entries} if self._places else {}
        return {**{path: real for path, real in behind.items() if path != real}, **self._origins}

    def _one(self, path: str) -> None:
        rests = self._rests_behind(path)
        text = self._found.links[path]
        if not rests or path in self._given or (path, text) == (PRINTED, LINK):
            return
        try:
            if () in rests:
                self._take(path, text)
            else:
                self._pass(path, rests)
        except (_Refused, OSError, BadManifest) as error:
            told = str(error) if isinstance(error, _Refused) else f"which cannot be read ({_reason(error)})"
            self.refused[path] = f"a link to {shown(text)}, {told}"
            if () in rests:
                self._found.forget(path)
                self._found.problem(path, self.refused[path])

    def _take(self, path: str, text: str) -> None:
        """It is an output itself."""
        real = self._target(path)
        inside = self._inside(real)
        kind = os.lstat(real).st_mode
        if stat.S_ISDIR(kind):
            if inside is None:
                raise _Refused("a directory out of the run's: copy it, or what is needed of it")
            if () in self._rests(inside) and self._stays(path, text, inside, self._folders):
                return
            if not self._go_through(path, inside, frozenset([()])):
                raise _Refused("which has no files")
        elif not stat.S_ISREG(kind):
            raise _Refused("which is neither a file nor a directory")
        elif inside is None:
            self._keep(path, self._allowed(real))
        elif not self._stays(path, text, inside, self._files):
            self._keep(path, inside)

    def _pass(self, path: str, rests: FrozenSet[Rest]) -> None:
        """Outputs may lie behind it, if it leads to a directory."""
        real = self._target(path)
        inside = self._inside(real)
        if stat.S_ISDIR(os.lstat(real).st_mode):
            if inside is None:
                raise _Refused("a directory out of the run's")
            self._go_through(path, inside, rests)

    def _target(self, path: str) -> str:
        """What it leads to in the end: a path without links, where something is."""
        folder, _, name = path.rpartition("/")
        link = os.path.join(self._root, self._real(folder), name)
        trouble: Optional[OSError] = None
        try:
            os.stat(link)
        except OSError as error:
            trouble = error
        if trouble is not None and trouble.errno == errno.ELOOP:
            raise _Refused("which leads round in a circle, or over too many links")
        real = os.path.realpath(link)
        if self._is_contained and self._inside(real) is None:
            raise _Refused("out of the run's directory, and out of its container that is another file: copy it")
        if isinstance(trouble, (FileNotFoundError, NotADirectoryError)):
            raise _Refused("which is not there")
        if trouble is not None:
            raise trouble
        return real

    def _inside(self, real: str) -> Optional[str]:
        """Its path below the run's directory; None when it is elsewhere."""
        if real == self._root:
            return ""
        return real[len(self._root) + 1 :] if real.startswith(self._root + "/") else None

    def _allowed(self, real: str) -> str:
        """A regular file elsewhere, if it is one that may be read for the run."""
        if real.startswith(f"{os.path.dirname(self._root)}/ctl/"):
            raise _Refused("out of the run's directory")
        pseudo = {os.stat(path).st_dev for path in _PSEUDO if os.path.isdir(path)} - {os.stat("/").st_dev}
        if os.lstat(real).st_dev in pseudo:
            raise _Refused("which is neither a file nor a directory")
        return real

    def _stays(self, path: str, text: str, inside: str, kept: Set[str]) -> bool:
        """Whether it is kept as a link, for what it leads to will be there, too; it may have to say that otherwise."""
        folder = path.rpartition("/")[0]
        named = os.path.normpath(os.path.join(folder, text))
        if path in self._files and ("" if named == "." else named) in kept:
            return True
        if inside not in kept:
            return False
        try:
            self._put(manifest.link_entry(path, os.path.relpath(inside or ".", folder or ".")))
        except BadManifest:
            return False
        return True

    def _keep(self, path: str, source: str) -> None:
        """The content of a file."""
        if self._found.full and path not in self._found.entries:
            raise _Refused("and there are too many files")
        fd = open_source(self._work, source)
        try:
            entry = entry_of(manifest.check_path(path), fd)
            if source.startswith("/") and entry.size != os.fstat(fd).st_size:
                raise _Refused("which changes while it is read, or is no file")
        finally:
            os.close(fd)
        self._put(entry)
        self._origins[path] = source

    def _put(self, entry: Entry) -> None:
        self._found.forget(entry.path)
        self._found.entries[entry.path] = entry

    def _go_through(self, path: str, inside: str, rests: FrozenSet[Rest]) -> bool:
        """What is in a directory, under the path of a link to it; whether there is anything."""
        if any(inside in (real, "", *above(real)) for real in map(self._real, above(path))):
            raise _Refused("in which it lies itself")
        if len(self._places) >= MOST:
            raise _Refused(f"and no more than {MOST} links to directories are gone through")
        fd = open_directory(self._work, inside)
        try:
            self._places[path] = inside
            before = len(self._found.entries), len(self._found.links)
            visit(fd, f"{path}/", rests, self._omitted(path), self._found)
        finally:
            os.close(fd)
        if (len(self._found.entries), len(self._found.links)) == before:
            return False
        self._found.forget(path)
        return True

    def _real(self, path: str) -> str:
        """Where that lies, without the links that were gone through on the way."""
        for folder in (path, *above(path)):
            if folder in self._places:
                return f"{self._places[folder]}{path[len(folder) :]}".lstrip("/")
        return path

    def _rests(self, path: str) -> FrozenSet[Rest]:
        return _advanced(self._outputs, path)

    def _rests_behind(self, path: str) -> FrozenSet[Rest]:
        """What of the outputs goes on behind a link; ``**`` does not."""
        folder, _, name = path.rpartition("/")
        if folder not in self._ahead:
            around = self._rests(folder)
            deep = frozenset(rest for rest in around if rest and rest[0].any_depth)
            ahead = onward(around)
            self._ahead[folder] = lambda each: ahead(each) - deep
        return self._ahead[folder](name)

    def _omitted(self, path: str) -> FrozenSet[Rest]:
        return _advanced(self._found.omitted, path)


def _advanced(rests: FrozenSet[Rest], path: str) -> FrozenSet[Rest]:
    for part in path.split("/") if path else []:
        rests = advance(rests, part)
    return rests


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def shown(text: str) -> str:
    """As it may stand in a sentence: no control characters, not endless."""
    return text if text.isprintable() and len(text) <= _LONGEST else repr(text[:_LONGEST])
