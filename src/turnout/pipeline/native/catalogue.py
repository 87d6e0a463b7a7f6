"""Which files there are before anything begins, and who makes the others."""

from __future__ import annotations

import posixpath
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from turnout.pipeline.native.paths import ANY, above, escape, fixed_beginning, is_pattern, matcher, may_meet
from turnout.pipeline.plan import Place

Glob = Callable[[str], Sequence[str]]


class Project:
    """The files of the project, asked for by patterns: each question once."""

    def __init__(self, glob: Glob) -> None:
        self._glob = glob
        self._answers: dict[str, tuple[str, ...]] = {}
        self._known: set[str] = set()

    def matching(self, pattern: str) -> tuple[str, ...]:
        """In the order of their names. A guess will do."""
        if pattern not in self._answers:
            asked = pattern
            if ANY in pattern:
                directory = posixpath.dirname(fixed_beginning(pattern))
                asked = posixpath.join(directory, "**/*")
            found = sorted(self._glob(asked))
            if ANY in pattern:
                found = list(filter(matcher(pattern), found))
            self._answers[pattern] = tuple(found)
            self._known.update(found)
        return self._answers[pattern]

    def has(self, path: str) -> bool:
        """Whether there is such a file, or a directory with files."""
        if path in self._known:
            return True
        plain = escape(path)
        return bool(self.matching(plain) or self.matching(posixpath.join(plain, "**/*")))


class Unsure(NamedTuple):
    """Files that match a pattern, of which one run (None: some run of the step) leaves some."""

    pattern: str
    step: str
    run: int | None


class Within(NamedTuple):
    """A path or pattern that one run leaves, and the directory in which that is, which another leaves."""

    path: str
    maker: Place
    directory: str
    owner: Place


class Catalogue:
    """The outputs of all steps: paths that are known, and patterns of those that are not. A path may turn out to be a
    directory, which stands for all it holds."""

    def __init__(self) -> None:
        self.paths: dict[str, Place] = {}
        self._patterns: dict[str, Unsure] = {}
        self._unsure: dict[str, list[Unsure]] = {}  # by what their patterns begin with
        self._lengths: set[int] = set()  # of these beginnings
        self._sorted: list[str] | None = None

    def add(self, path: str, maker: Place) -> Place | None:
        """The run that makes it already, if one does."""
        first = self.paths.setdefault(path, maker)
        return None if first is maker else first

    def add_unsure(self, unsure: Unsure) -> Unsure | None:
        """Who has the same pattern already, if somebody does."""
        beginning = fixed_beginning(unsure.pattern)
        self._unsure.setdefault(beginning, []).append(unsure)
        self._lengths.add(len(beginning))
        first = self._patterns.setdefault(unsure.pattern, unsure)
        return None if first is unsure else first

    def within_others(self) -> Iterator[Within]:
        """What one run leaves in that which another leaves: both may leave it, or the other's is a file, and this
        cannot be. For when all are added."""
        directories: set[str] = set()
        for path in chain(self.paths, self._unsure):
            while (path := path.rpartition("/")[0]) and path not in directories:
                directories.add(path)
        if directories.isdisjoint(self.paths):
            return
        known = [(path, path, maker) for path, maker in self.paths.items()]
        known += [
            (each.pattern, beginning, Place(each.step, each.run))
            for beginning, found in self._unsure.items()
            for each in found
            if each.run is not None
        ]
        for path, beginning, maker in known:
            for directory in above(beginning):
                owner = self.paths.get(directory, maker)
                if owner != maker:
                    yield Within(path, maker, directory, owner)
                    break

    def makers(self, path: str) -> list[tuple[str, int | None]]:
        """Who leaves it: the run that says so, or all whose patterns match. None stands for some run of the step."""
        ways = [path, *above(path)]
        for way in ways:
            if way in self.paths:
                return [self.paths[way]]
        return [
            (each.step, each.run)
            for length in self._lengths
            for each in self._unsure.get(path[:length], ())
            if any(map(matcher(each.pattern), ways))
        ]

    def matching(self, pattern: str) -> list[tuple[str, Place]]:
        """Known paths that match, in the order of their names."""
        if self._sorted is None:
            self._sorted = sorted(self.paths)
        beginning, matches = fixed_beginning(pattern), matcher(pattern)
        found = []
        for at in range(bisect_left(self._sorted, beginning), len(self._sorted)):
            path = self._sorted[at]
            if not path.startswith(beginning):
                break
            if matches(path):
                found.append((path, self.paths[path]))
        return found

    def unsure(self, pattern: str) -> list[str]:
        """Steps that may leave files which match, and nobody knows yet; each once."""
        steps = {self.paths[each].step: None for each in above(fixed_beginning(pattern)) if each in self.paths}
        for of_beginning in self._unsure.values():
            for each in of_beginning:
                if each.step not in steps and may_leave(each.pattern, pattern):
                    steps[each.step] = None
        return list(steps)

    def steps_of(self, guess: str) -> list[str]:
        """Steps that leave, or may leave, files which match; each once."""
        if not is_pattern(guess):
            return list(dict.fromkeys(step for step, _ in self.makers(guess)))
        found = [place.step for _, place in self.matching(guess)]
        return list(dict.fromkeys([*found, *self.unsure(guess)]))


def may_leave(output: str, pattern: str) -> bool:
    """Whether who leaves `output`, a path or a pattern, may leave files that match the other: a path is known, but not
    what is in it, should it be a directory."""
    if is_pattern(output):
        return may_meet(output, pattern) or may_meet(f"{output}/**", pattern)
    return bool(matcher(pattern)(output)) or output in above(fixed_beginning(pattern))
