"""A run at its gate: all that it waited for is over. Is it to be done, and to which files?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from turnout.model.pipeline import SKIPPED
from turnout.pipeline.native import fans
from turnout.pipeline.native.conditions import Condition
from turnout.pipeline.native.fans import Row
from turnout.pipeline.native.finding import AmongLeft
from turnout.pipeline.native.joins import Join
from turnout.pipeline.native.making import members_of
from turnout.pipeline.native.paths import ANY
from turnout.pipeline.native.preparing import prepare
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.runs import Maker, called
from turnout.pipeline.plan import COMPLETED, Left, RunPlan, Skipped, Value

if TYPE_CHECKING:
    from turnout.pipeline.native.late import LateStep


class Looker:
    """Looks at runs of a step that have all waited for the same, which has left `left`. What that comes to for any of
    them is found out once: there may be thousands of both."""

    def __init__(self, late: LateStep, left: Mapping[str, Sequence[Left]]) -> None:
        self._late = late
        self._left = left
        problems = Problems(late.where)
        self._prepared = prepare(late.step, dict.fromkeys(late.names, ANY), late.joins, problems)
        problems.check()

    def look(self, values: Mapping[str, Value]) -> RunPlan | None:
        """The run with what it executes; None = that is known already. Skipped, InvalidInput."""
        row, problems = fans.row_of("", values), Problems(self._late.where)
        condition = self._prepared.condition
        if (condition is None or not condition.bears_failures) and self._passed is not None:
            raise Skipped(f"{self._passed} was skipped")
        if condition is not None and condition.waits:
            self._ask(condition, row, problems)
        problems.check()
        if not self._late.fills:
            return None
        outputs = tuple([entry.fill(row.texts) for entry in self._prepared.outputs])
        maker = Maker(self._prepared, self._joins, (), self._finder, problems)
        made = maker.make([row], [outputs])
        problems.check()
        return made[0]

    @cached_property
    def _passed(self) -> str | None:
        """A step of which all was skipped."""
        is_passed = (name for name, runs in self._left.items() if runs and all(run.state == SKIPPED for run in runs))
        return next(is_passed, None)

    @cached_property
    def _finder(self) -> AmongLeft:
        files = [file for runs in self._left.values() for run in runs for file in run.files]
        return AmongLeft([*files, *self._late.files, *(self._late.fan or ())])

    @cached_property
    def _joins(self) -> list[Join]:
        return [Join(name, by, members_of(self._left.get(name, ()), by)) for name, by in self._late.joins.items()]

    @cached_property
    def _is_so(self) -> bool:
        """Of a condition that is one of the words."""
        condition = self._prepared.condition
        return condition is not None and condition.holds_after(self._left)

    def _ask(self, condition: Condition, row: Row, problems: Problems) -> None:
        """Skipped when the condition does not hold."""
        if condition.expression is None:
            if not self._is_so:
                raise Skipped(f"it is done when there is {condition.text} before it, and that is not so")
            return
        step = self._late.step.name
        ends = {name: _end(step, name, condition, self._left.get(name, ()), problems) for name in condition.steps}
        if not problems and not condition.holds({**row.texts, **row.values}, ends):
            seen = ", ".join(f"{on}.{what} is {ends[on].get(what, 'not there')}" for on, what in condition.asks)
            raise Skipped(f"its condition, {condition.text}, does not hold" + (f": {seen}" if seen else ""))


def _end(step: str, name: str, condition: Condition, runs: Sequence[Left], problems: Problems) -> Mapping[str, object]:
    """What the run of another step came to that this one agrees with."""
    if len(runs) > 1:
        tell_several(step, name, len(runs), problems)
    if len(runs) != 1:
        return {}
    (run,) = runs
    lacking = [what for on, what in condition.asks if on == name and what not in run.came_to]
    if lacking and run.state == COMPLETED and not condition.is_content_without(name, lacking):
        known = ", ".join(sorted(each for each in run.came_to if "." not in each))
        what = f"{called(name, run.label)} has no {lacking[0]}"
        problems.add(f"steps.{step}.when", what, f"it has {known}" if known else "let it log that")
    return run.came_to


def tell_several(step: str, name: str, count: int, problems: Problems) -> None:
    """Of a condition that asks about a step of which a run waits for so many runs."""
    what = f"it asks about {name}, which has {count} runs"
    problems.add(f"steps.{step}.when", what, f"give it the values of one of them, with `each: {name}`")
