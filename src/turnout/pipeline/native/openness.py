"""What is left open before anything begins: which runs steps have, what these execute, whether they are done at all."""

from __future__ import annotations

from collections.abc import Iterable

from turnout.model.pipeline import Gate
from turnout.pipeline.native.fanning import Fans
from turnout.pipeline.native.outlining import Outline
from turnout.pipeline.native.preparing import Entry, Prepared


class Openness:
    """The runs of `late` steps are not known; those of `skippable` ones may be skipped, by conditions or for others."""

    def __init__(self, outline: Outline, fans: Fans) -> None:
        self._outline = outline
        self._catalogue = fans.catalogue
        self.late = self._late_ones(fans)
        self.skippable = self._skippable_ones()
        self._fills: dict[str, bool] = {}

    def has_patterns(self, name: str) -> bool:
        """Whether it is not known which files it leaves."""
        return any(entry.is_pattern for entry in self._outline.prepared[name].outputs)

    def gate(self, name: str) -> Gate:
        """What its runs have. One that waits for a single run which is skipped is so, too, and nobody has to look."""
        prepared = self._outline.prepared[name]
        condition = prepared.condition
        if condition is None and not prepared.inputs and not prepared.places_of_files and not self.skippable:
            return Gate.NONE  # as most often
        if condition is not None and condition.waits:
            return Gate.ANYHOW if condition.bears_failures else Gate.IF_WELL
        return Gate.IF_WELL if self.fills(name) or self._collects(name) else Gate.NONE

    def fills(self, name: str) -> bool:
        """Whether it is known only at the gates which files its commands name."""
        if name not in self._fills:
            self._fills[name] = self._find_out(name, self._outline.prepared[name])
        return self._fills[name]

    def _find_out(self, name: str, prepared: Prepared) -> bool:
        if any(self._is_unsure(name, entry) for entry in prepared.inputs):
            return True
        if not prepared.asks_for_inputs:
            return False
        steps = (*prepared.beside, *(() if prepared.inputs else prepared.through))
        if any(self.has_patterns(each) or (each in self.late and name not in self.late) for each in steps):
            return True
        if prepared.condition is not None and prepared.condition.bears_failures:
            return True
        return bool(self.skippable) and self._reads_what_may_be_skipped(prepared, steps)

    def _is_unsure(self, name: str, entry: Entry) -> bool:
        """Whether a pattern may match what nobody knows yet."""
        if not entry.is_pattern:
            return False
        others = set(self._catalogue.unsure(entry.guess)) - {name}
        return bool(others) and not others <= self._outline.after(name)

    def _reads_what_may_be_skipped(self, prepared: Prepared, steps: Iterable[str]) -> bool:
        patterns = [entry.guess for entry in prepared.inputs if entry.is_pattern]
        makers = {step for guess in patterns for step in self._catalogue.steps_of(guess)}
        others = makers.union(steps) - {prepared.step.name, prepared.step.each}
        return not self.skippable.isdisjoint(others)

    def _collects(self, name: str) -> bool:
        """Whether its runs wait for several of a step, one by one, of which some may be skipped."""
        if not self.skippable:
            return False
        others = (step for step in self._outline.named[name] if step != self._outline.steps[name].each)
        return any(step in self.skippable and self._outline.shared(name, step) for step in others)

    def _late_ones(self, fans: Fans) -> set[str]:
        late: set[str] = set()
        for name in self._outline.prepared:
            named = self._outline.named[name] if late else ()
            if name not in fans.rows or any(each in late and self._outline.shared(name, each) for each in named):
                late.add(name)
        return late

    def _skippable_ones(self) -> set[str]:
        steps = self._outline.prepared
        waiting = {name for name, each in steps.items() if each.condition is not None and each.condition.waits}
        found = {name for name in waiting if self._outline.steps[name].when != "always"}
        more = set(found)
        while more:
            others = steps.keys() - found - waiting
            more = {name for name in others if not found.isdisjoint(self._read_by(steps[name]))}
            found |= more
        return found

    def _read_by(self, prepared: Prepared) -> set[str]:
        makers = (step for entry in prepared.inputs for step in self._catalogue.steps_of(entry.guess))
        return {*self._outline.named[prepared.step.name], *makers}
