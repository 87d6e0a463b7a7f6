"""Which files runs will find: before anything has begun, and when the steps before are over."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property

from turnout.model.likeness import nearest
from turnout.pipeline.native.catalogue import Catalogue, Project
from turnout.pipeline.native.paths import matcher
from turnout.pipeline.native.runs import Found
from turnout.pipeline.plan import Place

_MOST_COMPARED = 2000


class Ahead:
    """For the runs of one step, before anything has begun; `after` tells, when it is asked, which steps wait for it. It
    notes in `needs` the steps that have to be over as a whole, because nobody knows yet which of their runs leaves a
    file; in `by_run` those of which it named runs; and in `reads` the files of the project."""

    def __init__(
        self,
        step: str,
        catalogue: Catalogue,
        project: Project,
        late: Collection[str],
        after: Callable[[], Collection[str]],
    ) -> None:
        self._step = step
        self._tell_after = after
        self._catalogue = catalogue
        self._project = project
        self._late = late
        self._matched: dict[str, Found] = {}
        self.needs: dict[str, None] = {}
        self.by_run: dict[str, None] = {}
        self.reads: dict[str, None] = {}

    @cached_property
    def _after(self) -> Collection[str]:
        return self._tell_after()

    def own(self, path: str) -> Found:
        makers = [maker for maker in self._catalogue.makers(path) if maker[1] is not None]
        if not makers:
            self.reads[path] = None
        return Found((path,), self._to_wait_for(makers))

    def find(self, path: str) -> Found | None:
        if path.startswith(("/", "../")):
            return Found((path,)) if path[0] == "/" else None
        maker = self._catalogue.paths.get(path)
        if maker is not None and maker.step not in self._late and maker.step != self._step:
            self.by_run[maker.step] = None
            return Found((path,), (maker,))
        makers = self._catalogue.makers(path)
        if maker is None and self._project.has(path):
            self.reads[path] = None
            makers = [each for each in makers if each[0] not in self._after]
        elif not makers:
            return None
        return Found((path,), self._to_wait_for(makers))

    def match(self, pattern: str) -> Found:
        """Files that the step itself leaves, or one after it, are none of them: they are there from an earlier time."""
        if pattern not in self._matched:
            found = self._catalogue.matching(pattern)
            made = {path: place for path, place in found if place.step != self._step and place.step not in self._after}
            there = [path for path in self._project.matching(pattern) if not self._is_written(path)]
            self.reads.update(dict.fromkeys(there))
            passed = {self._step, *self._after}
            unsure = [step for step in self._catalogue.unsure(pattern) if step not in passed]
            self.needs.update(dict.fromkeys(unsure))
            places = self._to_wait_for(made.values())
            self._matched[pattern] = Found(tuple(sorted([*made, *there])), places, is_sure=not unsure)
        return self._matched[pattern]

    def instead(self, path: str) -> str:
        known = self._catalogue.paths
        near = nearest(path, known) if len(known) <= _MOST_COMPARED else None
        return f"did you mean {near}?" if near else "make it, or write it as the step does that leaves it"

    def _is_written(self, path: str) -> bool:
        return path in self._catalogue.paths or any(step == self._step for step, _ in self._catalogue.makers(path))

    def _to_wait_for(self, makers: Iterable[tuple[str, int | None]]) -> tuple[Place, ...]:
        places = []
        for step, run in makers:
            if run is None or step in self._late or step == self._step:
                self.needs[step] = None
            else:
                places.append(Place(step, run))
                self.by_run[step] = None
        return tuple(places)


class AmongLeft:
    """For the runs of a late step: the files that others have left, and those of the project."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = sorted(set(files))
        self._known = set(self._files)
        self._directories = {path[:at] for path in self._files for at, char in enumerate(path) if char == "/"}
        self._matched: dict[str, Found] = {}

    def own(self, path: str) -> Found:
        return Found((path,))

    def find(self, path: str) -> Found | None:
        is_there = path.startswith("/") or path in self._known or path in self._directories
        return Found((path,)) if is_there else None

    def match(self, pattern: str) -> Found:
        if pattern not in self._matched:
            self._matched[pattern] = Found(tuple(filter(matcher(pattern), self._files)))
        return self._matched[pattern]

    def instead(self, path: str) -> str:
        near = nearest(path, self._files) if len(self._files) <= _MOST_COMPARED else None
        return f"did you mean {near}?" if near else "let one of the steps it needs leave it"
