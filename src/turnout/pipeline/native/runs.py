"""The runs of a step, made from what they are done to, whom they wait for and which files they find."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, filterfalse
from typing import NamedTuple, Protocol, TypeVar

from turnout.pipeline.native.commands import Filling
from turnout.pipeline.native.fans import Row
from turnout.pipeline.native.joins import Join
from turnout.pipeline.native.paths import escape, is_pattern, objection
from turnout.pipeline.native.preparing import Prepared
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.plan import Place, RunPlan

T = TypeVar("T")
_OWN_FILE = ""  # what the file is called that a run is done to, among its inputs


class Found(NamedTuple):
    """Files, and the runs that leave them."""

    files: tuple[str, ...]
    places: tuple[Place, ...] = ()
    is_sure: bool = True  # else there may be more of them


class Finder(Protocol):
    """Knows which files a run will find. It is asked for every run."""

    def own(self, path: str) -> Found:
        """The file that a run is done to, of which it is known that it will be there."""

    def find(self, path: str) -> Found | None:
        """None = it will not be there."""

    def match(self, pattern: str) -> Found:
        """In the order of their names."""

    def instead(self, path: str) -> str:
        """What to do about a path that was not found."""


def called(step: str, label: str) -> str:
    """A run, for people."""
    return f"{step}[{label}]" if label else step


class Maker:
    """Makes the runs of one step. Of the steps in `by_run`, a run waits for those runs that agree with it; for other
    steps that it is joined with it waits as a whole, which is said in the plan of its step. Unless it `fills`, its runs
    get no command, for it is not known yet which files there will be. What is wrong is among the problems, and
    then runs are missing. Runs of steps that are `passing` may be skipped: then it matters which of them it reads from,
    also where it waits for all."""

    def __init__(
        self, prepared: Prepared, joins: Sequence[Join], by_run: Collection[str], finder: Finder, problems: Problems,
        *, fills: bool = True, passing: Collection[str] = (),
    ) -> None:  # fmt: skip
        self._prepared = prepared
        self._fills = fills
        through = () if prepared.inputs else prepared.through
        self._joins = [
            (join, join.step in by_run, join.step in through, join.step in prepared.beside) for join in joins
        ]
        self._as_a_whole = {join.step for join in joins if join.step not in by_run and join.step not in passing}
        self._finder = finder
        self._problems = problems
        self._place = f"steps.{prepared.step.name}"
        self._reads_file = prepared.has_own_files or "file" in prepared.asks
        self._may_lack_files = prepared.condition is not None and prepared.condition.bears_failures
        self._pickers = [(place, _picker(place, prepared)) for place in prepared.places_of_files] if fills else []

    def make(self, rows: Sequence[Row], outputs: Sequence[tuple[str, ...]]) -> tuple[RunPlan, ...]:
        """`outputs` has for each row a path or a pattern of each output."""
        made = []
        for row, leaves in zip(rows, outputs, strict=True):
            run = self._run(row, leaves)
            if run is not None:
                made.append(run)
            elif self._problems.has_enough_of(f"{self._place}.inputs"):
                break
        return tuple(made)

    def _run(self, row: Row, outputs: tuple[str, ...]) -> RunPlan | None:
        needs: list[tuple[Place, ...]] = []
        beside: dict[str, tuple[str, ...]] = {}
        parts = self._parts(row, needs, beside)
        if parts is None:
            return None
        inputs = _together(list(parts.values()))
        parts = beside | parts if beside else parts
        files: dict[str, tuple[str, ...]] = {}
        for place, pick in self._pickers:
            found = pick(parts, inputs, outputs)
            if found is None and self._may_lack_files and place != "input":
                found = ()
            if found is None:
                self._tell_not_one(row, place, len(inputs))
                return None
            files[place] = found
        if self._reads_file:
            inputs = _together([(row.texts["file"],), inputs])
        return RunPlan(
            label=row.label,
            argv=self._prepared.command.fill(Filling(row.values, row.texts, files)) if self._fills else (),
            values=row.values,
            inputs=inputs if not any(map(_is_elsewhere, inputs)) else tuple(filterfalse(_is_elsewhere, inputs)),
            outputs=self._declared(outputs),
            needs=_together(needs),
        )

    def _parts(
        self, row: Row, needs: list[tuple[Place, ...]], beside: dict[str, tuple[str, ...]]
    ) -> dict[str, tuple[str, ...]] | None:
        """Its inputs by name; None = one is missing, or somebody to wait for. It adds to `needs`, and to `beside` what
        is asked for by the names of steps."""
        parts: dict[str, tuple[str, ...]] = {}
        if self._prepared.has_own_files:
            self._wait(self._finder.own(row.texts["file"]), needs)
            if not self._prepared.inputs:
                parts[_OWN_FILE] = (row.texts["file"],)
        for join, is_by_run, is_through, is_beside in self._joins:
            group = join.group_of(row.texts)
            if group is None:
                self._tell_alone(row, join)
                return None
            if is_by_run:
                needs.append(group.places)
            if is_through:
                parts[join.step] = group.files
            if is_beside:
                beside[join.step] = group.files
        for entry in self._prepared.inputs:
            path = entry.fill(row.texts)
            found = self._finder.match(path) if entry.is_pattern else self._finder.find(path)
            if found is None or (not found.files and found.is_sure):
                self._tell_missing(row, path, is_pattern=entry.is_pattern)
                return None
            self._wait(found, needs)
            parts[entry.name] = found.files
        return parts

    def _wait(self, found: Found, needs: list[tuple[Place, ...]]) -> None:
        if found.places:
            places = found.places
            if self._as_a_whole:
                places = tuple(place for place in places if place.step not in self._as_a_whole)
            needs.append(places)

    def _declared(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """Patterns, and paths of which nothing is to be taken for one."""
        if not any(map(is_pattern, outputs)):
            return outputs
        pairs = zip(self._prepared.outputs, outputs, strict=True)
        return tuple([path if entry.is_pattern else escape(path) for entry, path in pairs])

    def _tell_alone(self, row: Row, join: Join) -> None:
        values = ",".join(f"{name}={row.texts[name]}" for name in join.names)
        what = f"no run of {join.step} has {values}, as {called(self._prepared.step.name, row.label)} has"
        self._problems.add(self._place, what, "give both steps the same values, or call them otherwise")

    def _tell_missing(self, row: Row, path: str, *, is_pattern: bool) -> None:
        run = called(self._prepared.step.name, row.label)
        why, instead = objection(path), self._finder.instead(path)
        if is_pattern:
            what = f"nothing matches {path}, which {run} reads"
        elif why is not None:
            what = f"{path or 'an empty text'} {why}, and {run} reads it"
            instead = "bring it into the directory of the pipeline, or give its absolute path"
        else:
            what = f"{path} is missing, which {run} reads: it is no file of the project, and no step leaves it"
        self._problems.add(f"{self._place}.inputs", what, instead)

    def _tell_not_one(self, row: Row, place: str, count: int) -> None:
        run = called(self._prepared.step.name, row.label)
        what, instead = f"{{{place}}} is one file, and {run} has {count}", "write {inputs} for all there are"
        if place != "input" or not count:
            what = f"there is nothing for {{{place}}} of {run}"
            instead = f"write what they leave into `outputs:` of {', '.join(self._prepared.through)}"
        key = "args" if self._prepared.step.command is None else "command"
        self._problems.add(f"{self._place}.{key}", what, instead)


_Parts = Mapping[str, tuple[str, ...]]
_Picker = Callable[[_Parts, tuple[str, ...], tuple[str, ...]], tuple[str, ...] | None]
"""Picks the files for a place out of the inputs by name, all inputs and all outputs; None = there is no such."""


def _picker(place: str, prepared: Prepared) -> _Picker:
    kind, _, name = place.partition(".")
    if place == "inputs":
        return lambda parts, inputs, outputs: inputs or None
    if place == "outputs" or kind == "output":
        return lambda parts, inputs, outputs: outputs
    if kind == "outputs":
        (at,) = (number for number, entry in enumerate(prepared.outputs) if entry.name == name)
        return lambda parts, inputs, outputs: (outputs[at],)
    if kind == "input":
        return lambda parts, inputs, outputs: inputs if len(inputs) == 1 else None
    if prepared.inputs or name in prepared.through or name in prepared.beside:
        return lambda parts, inputs, outputs: parts[name] or None
    return lambda parts, inputs, outputs: inputs[int(name) : int(name) + 1] or None


def _is_elsewhere(path: str) -> bool:
    """On the machine, and there already."""
    return path.startswith("/")


def _together(parts: Sequence[tuple[T, ...]]) -> tuple[T, ...]:
    """All of them, each once. What is alone stays the same object: there may be a million of it."""
    if len(parts) == 1:
        return parts[0]
    return tuple(dict.fromkeys(chain.from_iterable(parts))) if parts else ()
