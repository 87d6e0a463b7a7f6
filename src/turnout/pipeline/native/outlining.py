"""The steps of a pipeline as they refer to each other, before there are runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.pipeline.native import braces, conditions, joins
from turnout.pipeline.native.graph import in_order
from turnout.pipeline.native.model import Pipeline, Step
from turnout.pipeline.native.paths import ANY, clean
from turnout.pipeline.native.preparing import Prepared, prepare
from turnout.pipeline.native.problems import Problems

_OF_PATTERNS = frozenset("*?[/.")


@dataclass(slots=True)
class Outline:
    """`prepared` has the sound steps, each after those that it names; the others are `broken`: they, or one that they
    name, have a problem. `origins` are the steps that the files come from which runs are done to."""

    steps: dict[str, Step]
    prepared: dict[str, Prepared] = field(default_factory=dict)
    named: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """the steps that a step names: that of its `each` first, then those it collects, those it needs, and those that its
    condition asks about"""
    origins: dict[str, str] = field(default_factory=dict)
    _naming: dict[str, list[str]] | None = None
    """the prepared steps that name a step, once somebody has asked"""

    @property
    def broken(self) -> list[Step]:
        return [step for name, step in self.steps.items() if name not in self.prepared]

    def after(self, name: str) -> set[str]:
        """All steps that name it, or name one that does, and so on. For when all are prepared."""
        if self._naming is None:
            self._naming = {}
            for other in self.prepared:
                for named in self.named[other]:
                    self._naming.setdefault(named, []).append(other)
        found: set[str] = set()
        left = [name]
        while left:
            news = [other for other in self._naming.get(left.pop(), ()) if other not in found]
            found.update(news)
            left += news
        return found

    def shared(self, name: str, other: str) -> tuple[str, ...]:
        """The names by which runs of both are joined."""
        names = self.prepared[name].names
        if not names:
            return ()
        same_files = self.origins.get(name) == self.origins.get(other)
        return joins.shared(names, self.prepared[other].names, same_files=same_files)


def outline(pipeline: Pipeline, problems: Problems) -> Outline:
    """The steps, made ready; what is wrong with their names and places is among the problems."""
    found = Outline({step.name: step for step in pipeline.steps})
    found.named = {name: _named(step, found.steps) for name, step in found.steps.items()}
    unsound = {step.name for step in pipeline.steps if not _names_are_known(step, found.steps, problems)}
    order, circles = in_order(found.named)
    for circle in circles:
        tell_circle(circle, problems)
    for name in order:
        if name in unsound or not found.prepared.keys() >= set(found.named[name]):
            continue
        told = Problems("")
        guesses = _guesses(found, found.steps[name], told)
        prepared = prepare(found.steps[name], guesses, found.steps, told)
        problems.take(told)
        if not told:
            found.prepared[name] = prepared
    return found


def tell_circle(circle: list[str], problems: Problems) -> None:
    problems.add("steps", f"they wait for each other: {' -> '.join(circle)}", "let one of them begin without the other")


def _named(step: Step, steps: Collection[str]) -> tuple[str, ...]:
    named = ([step.each] if step.each is not None else []) + [*step.collect, *step.needs, *_asked(step, steps)]
    return tuple(dict.fromkeys(each for each in named if each in steps))


def _asked(step: Step, steps: Collection[str]) -> tuple[str, ...]:
    """The steps that its condition asks about, if that can be read."""
    try:
        return conditions.read(step.when, steps).steps if step.when is not None else ()
    except InvalidInput:
        return ()  # told when the step is prepared


def _guesses(outline: Outline, step: Step, problems: Problems) -> dict[str, str]:
    """Patterns of the values that runs of the step have."""
    inherited: dict[str, str] = {}
    if step.each in outline.prepared:
        inherited = dict(outline.prepared[step.each].guesses)
        if step.each in outline.origins:
            outline.origins[step.name] = outline.origins[step.each]
    elif step.each is not None:
        inherited = {"file": clean(step.each)}
        outline.origins[step.name] = step.name
    for name in step.own_names:
        if name in inherited:
            instead = "leave it out of one of them, or call it otherwise"
            problems.add(f"steps.{step.name}.matrix.{name}", f"comes from {step.each} already", instead)
    return inherited | {name: _guess(step, name) for name in step.own_names}


def _guess(step: Step, name: str) -> str:
    has_slash = any("/" in str(value) for row in step.matrix for value in row[name])
    return ANY if has_slash else "*"


def _names_are_known(step: Step, steps: Collection[str], problems: Problems) -> bool:
    told = Problems("")
    place = f"steps.{step.name}"
    for key, names in (("collect", step.collect), ("needs", step.needs)):
        for name in names:
            if name not in steps:
                told.add(f"{place}.{key}", f"there is no step {name}", _instead(name, steps))
    if step.each is not None and step.each not in steps:
        if not _OF_PATTERNS.intersection(step.each):
            what = f"{step.each} is no step, and no pattern of files"
            told.add(f"{place}.each", what, _instead(step.each, steps))
        if clean(step.each).startswith("../"):
            told.add(
                f"{place}.each", f"{step.each} leads out of the directory of the pipeline", "move the files into it"
            )
        for name in braces.slots(braces.parse(step.each)):
            what = f"{{{name}}} is not filled in here"
            told.add(f"{place}.each", what, "write a pattern of files as it is, and use `matrix:` for values")
    problems.take(told)
    return not told


def _instead(name: str, steps: Collection[str]) -> str:
    near = nearest(name, steps)
    return f"did you mean {near}?" if near else f"there are {', '.join(steps)}"
