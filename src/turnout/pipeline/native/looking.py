"""A run at its gate: all that it waited for is over. Is it to be done, and to which files?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def look(
    late: LateStep, values: Mapping[str, Value], left: Mapping[str, Sequence[Left]], problems: Problems
) -> RunPlan | None:
    """The run with what it executes; None = that is known already, or something is among the problems. Skipped."""
    row = fans.row_of("", values)
    prepared = prepare(late.step, dict.fromkeys(late.names, ANY), late.joins, problems)
    if prepared.condition is not None and prepared.condition.waits:
        _ask(late.step.name, prepared.condition, row, left, problems)
    if prepared.condition is None or not prepared.condition.bears_failures:
        _pass(left)
    if problems or not late.fills:
        return None
    files = [file for runs in left.values() for run in runs for file in run.files]
    finder = AmongLeft([*files, *late.files, *(late.fan or ())])
    joins = [Join(name, by, members_of(left.get(name, ()), by)) for name, by in late.joins.items()]
    outputs = tuple([entry.fill(row.texts) for entry in prepared.outputs])
    return next(iter(Maker(prepared, joins, (), finder, problems).make([row], [outputs])), None)


def _pass(left: Mapping[str, Sequence[Left]]) -> None:
    """Skipped when all was skipped that it waited for of some step."""
    for name, runs in left.items():
        if runs and all(run.state == SKIPPED for run in runs):
            raise Skipped(f"{name} was skipped")


def _ask(step: str, condition: Condition, row: Row, left: Mapping[str, Sequence[Left]], problems: Problems) -> None:
    """Skipped when the condition does not hold."""
    if condition.expression is None:
        if not condition.holds_after(left):
            raise Skipped(f"it is done when there is {condition.text} before it, and that is not so")
        return
    if not condition.bears_failures:
        _pass(left)
    ends = {name: _end(step, name, condition, left.get(name, ()), problems) for name in condition.steps}
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
