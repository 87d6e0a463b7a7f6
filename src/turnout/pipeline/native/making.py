"""The runs of a late step, made when it is known what they are done to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from turnout.pipeline.native import fans
from turnout.pipeline.native.catalogue import Catalogue, Project, Unsure
from turnout.pipeline.native.fans import Row
from turnout.pipeline.native.finding import Ahead
from turnout.pipeline.native.joins import Join, Member
from turnout.pipeline.native.model import MOST_RUNS
from turnout.pipeline.native.paths import ANY, clean, matcher, objection
from turnout.pipeline.native.preparing import Prepared, prepare
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.runs import Maker, called
from turnout.pipeline.plan import Left, Place, Skipped, StepPlan

if TYPE_CHECKING:
    from turnout.pipeline.native.late import LateStep


def make(late: LateStep, left: Mapping[str, Sequence[Left]], problems: Problems) -> StepPlan:
    """See `turnout.pipeline.plan.Late`; what is wrong is among the problems."""
    return _Making(late, left, problems).step()


def members_of(runs: Sequence[Left], names: Sequence[str]) -> list[Member]:
    """The runs of a step as others are joined with them by these values. What stands for those that were never made
    has none."""
    rows = [(fans.row_of(run.label, run.values).texts, run.files) for run in runs]
    return [Member(texts, files) for texts, files in rows if has_all(texts, names)]


def has_all(texts: Mapping[str, str], names: Sequence[str]) -> bool:
    return all(name in texts for name in names)


class _Making:
    def __init__(self, late: LateStep, left: Mapping[str, Sequence[Left]], problems: Problems) -> None:
        self._late = late
        self._step = late.step
        self._left = left
        self._problems = problems
        self._place = f"steps.{late.step.name}"

    def step(self) -> StepPlan:
        late, name = self._late, self._step.name
        prepared = prepare(self._step, dict.fromkeys(late.names, ANY), late.joins, self._problems)
        rows = self._rows(prepared)
        outputs = self._outputs(prepared, rows)
        if self._problems:
            return StepPlan(name=name)
        joins = [Join(other, by, members_of(self._left.get(other, ()), by)) for other, by in late.joins.items()]
        by_run = [other for other, by in late.joins.items() if by]
        finder = Ahead(name, self._catalogue(), Project(self._matching), (), tuple)
        maker = Maker(prepared, joins, by_run, finder, self._problems, fills=not late.fills)
        runs = maker.make(rows, outputs)
        whole = [other for other, by in late.joins.items() if not by]
        return StepPlan(name=name, runs=runs, needs=tuple(dict.fromkeys([*whole, *finder.needs])))

    def _rows(self, prepared: Prepared) -> Sequence[Row]:
        outer = self._outer()
        if len(outer) * fans.size_of_matrix(self._step) > MOST_RUNS:
            what = f"there would be more than {MOST_RUNS:,} runs"
            self._problems.add(self._place, what, "do more in each of them")
            return ()
        rows = fans.multiply(outer, fans.rows_of_matrix(self._step))
        condition = prepared.condition
        if condition is None or condition.waits:
            return rows
        chosen = [row for row in rows if condition.holds({**row.texts, **row.values}, {})]
        if rows and not chosen:
            raise Skipped(f"its condition, {condition.text}, holds for none of its runs")
        return chosen

    def _outer(self) -> Sequence[Row]:
        each = self._step.each
        if each is None:
            return fans.ONE_ROW
        if each in self._late.joins:
            rows = [fans.row_of(run.label, run.values) for run in self._left.get(each, ())]
            rows = [row for row in rows if has_all(row.texts, self._late.joins[each])]
            if not rows:
                raise Skipped(f"{each} has no runs")
            return rows
        files = self._late.fan
        if files is None:
            matches = matcher(clean(each))
            needed = [run for name in self._step.needs for run in self._left.get(name, ())]
            files = tuple(dict.fromkeys(file for run in needed for file in run.files if matches(file)))
        if not files:
            what = f"no file matches {each} that {', '.join(self._step.needs)} left"
            self._problems.add(f"{self._place}.each", what, "mend the pattern, or what they leave")
        return fans.rows_of_files(files)

    def _outputs(self, prepared: Prepared, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        makers = {
            file: called(name, run.label) for name, runs in self._left.items() for run in runs for file in run.files
        }
        found = []
        for row in rows:
            outputs = tuple([entry.fill(row.texts) for entry in prepared.outputs])
            run = called(self._step.name, row.label)
            for path in outputs:
                if why := objection(path):
                    self._refuse(f"{path or 'an empty text'} {why}", "write a path below the directory of the run")
                elif (first := makers.setdefault(path, run)) != run:
                    self._refuse(f"{path} is written by {first} and by {run}", "give one of them another path")
            found.append(outputs)
        return found

    def _refuse(self, what: str, instead: str) -> None:
        self._problems.add(f"{self._place}.outputs", what, instead)

    def _catalogue(self) -> Catalogue:
        """What the runs before it have left, or will leave."""
        found = Catalogue()
        for name, runs in self._left.items():
            for number, run in enumerate(runs):
                for path in run.files:
                    found.add(path, Place(name, number))
                for pattern in run.unsure:
                    found.add_unsure(Unsure(pattern, name, number))
        return found

    def _matching(self, pattern: str) -> list[str]:
        """Files of the project that it may read."""
        return list(filter(matcher(pattern), self._late.files))
