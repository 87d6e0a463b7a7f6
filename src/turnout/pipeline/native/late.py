"""Steps whose runs are known only when others are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from turnout.pipeline.native import braces, fans
from turnout.pipeline.native.conditions import Condition
from turnout.pipeline.native.fans import Row
from turnout.pipeline.native.finding import AmongLeft
from turnout.pipeline.native.joins import Join, Member
from turnout.pipeline.native.model import MOST_RUNS, Files, Step
from turnout.pipeline.native.paths import ANY, clean, matcher, objection
from turnout.pipeline.native.preparing import Prepared, prepare
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.runs import Maker, called
from turnout.pipeline.plan import COMPLETED, Left, RunPlan, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class LateStep:
    """All that is known of a late step before: the names of its values, those by which it is joined with each step that
    it names, the `files` of the project that it may read; and in `fan`, if its `each` is a pattern and it is known what
    that matches, these files. `where` is how errors begin. `instead` stands for the first word of its command, if who
    submits knows better how that is executed."""

    step: Step
    where: str
    names: tuple[str, ...]
    joins: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...] = ()
    fan: tuple[str, ...] | None = None
    instead: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Its command as it is written, if that is a list which begins with a word that is known."""
        command = self.step.command
        is_known = isinstance(command, tuple) and not braces.slots(braces.parse(command[0]))
        return command if isinstance(command, tuple) and is_known else ()

    @property
    def has_condition(self) -> bool:
        return self.step.when is not None

    def expand(self, left: Mapping[str, Sequence[Left]]) -> tuple[RunPlan, ...]:
        """The runs. They wait for nobody, since all that they need is over. InvalidInput: nothing matches, an input is
        missing, two runs leave the same file, or there are too many."""
        problems = Problems(self.where)
        runs = _Expansion(self, left, problems).runs()
        problems.check()
        if self.instead is None:
            return runs
        return tuple(replace(run, argv=(*self.instead, *run.argv[1:])) for run in runs)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it; see `late_from`."""
        found = _plain(asdict(self))
        del found["step"]["job"]
        return {"language": "native", **found}


def late_from(plain: Mapping[str, Any]) -> LateStep:
    """What `LateStep.plain` wrote, and JSON may have made lists of."""
    step = plain["step"]
    command = step["command"]
    return LateStep(
        step=Step(
            name=step["name"], command=tuple(command) if isinstance(command, list | tuple) else command,
            function=step["function"], args=step["args"], needs=tuple(step["needs"]), each=step["each"],
            collect=tuple(step["collect"]), inputs=_files(step["inputs"]), outputs=_files(step["outputs"]),
            matrix=tuple({name: tuple(values) for name, values in row.items()} for row in step["matrix"]),
            when=step["when"],
        ),
        where=plain["where"], names=tuple(plain["names"]), files=tuple(plain["files"]),
        joins={name: tuple(names) for name, names in plain["joins"].items()},
        fan=None if plain["fan"] is None else tuple(plain["fan"]),
        instead=tuple(plain["instead"]) if plain.get("instead") is not None else None,
    )  # fmt: skip


def _has(texts: Mapping[str, str], names: Sequence[str]) -> bool:
    return all(name in texts for name in names)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _files(plain: Any) -> Files:
    return dict(plain) if isinstance(plain, Mapping) else tuple(plain)


class _Expansion:
    def __init__(self, late: LateStep, left: Mapping[str, Sequence[Left]], problems: Problems) -> None:
        self._late = late
        self._step = late.step
        self._left = left
        self._problems = problems
        self._place = f"steps.{late.step.name}"
        self._by_values: dict[str, dict[tuple[str, ...], list[Left]]] = {}

    def runs(self) -> tuple[RunPlan, ...]:
        prepared = prepare(self._step, dict.fromkeys(self._late.names, ANY), self._late.joins, self._problems)
        rows = self._rows()
        if prepared.condition is not None:
            rows = self._chosen(rows, prepared.condition)
        outputs = self._outputs(prepared, rows)
        if self._problems:
            return ()
        everything = [file for runs in self._left.values() for run in runs for file in run.files]
        finder = AmongLeft([*everything, *self._late.files, *(self._late.fan or ())])
        joins = [Join(name, names, self._members(name)) for name, names in self._late.joins.items()]
        return Maker(prepared, joins, (), finder, self._problems).make(rows, outputs)

    def _chosen(self, rows: Sequence[Row], condition: Condition) -> Sequence[Row]:
        """Those for which it holds. Skipped when there are none."""
        chosen = [row for row in rows if self._holds(condition, row)]
        if chosen or self._problems:
            return chosen
        if condition.expression is None:
            raise Skipped(f"it is done when there is {condition.text} before it, and that is not so")
        seen = ""
        for row in rows[-1:]:
            ends = {name: self._end(name, row, condition) for name in condition.steps}
            seen = ", ".join(f"{step}.{what} is {ends[step].get(what, 'not there')}" for step, what in condition.asks)
        raise Skipped(f"its condition, {condition.text}, does not hold" + (f": {seen}" if seen else ""))

    def _holds(self, condition: Condition, row: Row) -> bool:
        if condition.expression is None:
            return condition.holds_after({name: self._before(name, row) for name in self._left})
        ends = {name: self._end(name, row, condition) for name in condition.steps}
        return condition.holds({**row.texts, **row.values}, ends)

    def _before(self, name: str, row: Row) -> Sequence[Left]:
        """The runs of a step that this one waits for; what stands for runs that were never made does for each."""
        names = self._late.joins.get(name, ())
        if not names:
            return self._left.get(name, ())
        if name not in self._by_values:
            found: dict[tuple[str, ...], list[Left]] = {}
            for run in self._left.get(name, ()):
                texts = fans.row_of(run.label, run.values).texts
                found.setdefault(tuple(texts[each] for each in names) if _has(texts, names) else (), []).append(run)
            self._by_values[name] = found
        found = self._by_values[name]
        return [*found.get(tuple(row.texts[each] for each in names), ()), *found.get((), ())]

    def _end(self, name: str, row: Row, condition: Condition) -> Mapping[str, object]:
        """What the run of another step came to that this one agrees with."""
        mine = self._before(name, row)
        if len(mine) > 1:
            what = f"it asks about {name}, which has {len(mine)} runs"
            self._problems.add(f"{self._place}.when", what, f"give it the values of one of them, with `each: {name}`")
        if len(mine) != 1:
            return {}
        lacking = [what for step, what in condition.asks if step == name and what not in mine[0].came_to]
        if lacking and mine[0].state == COMPLETED and not condition.is_content_without(name, lacking):
            what = f"{called(name, mine[0].label)} has no {lacking[0]}"
            known = ", ".join(sorted(each for each in mine[0].came_to if "." not in each))
            self._problems.add(f"{self._place}.when", what, f"it has {known}" if known else "let it log that")
        return mine[0].came_to

    def _members(self, name: str) -> list[Member]:
        """Its runs; what stands for those that were never made is none."""
        rows = [(fans.row_of(run.label, run.values).texts, run.files) for run in self._left.get(name, ())]
        return [Member(texts, files) for texts, files in rows if _has(texts, self._late.joins[name])]

    def _rows(self) -> Sequence[Row]:
        outer = self._outer()
        if len(outer) * fans.size_of_matrix(self._step) > MOST_RUNS:
            what = f"there would be more than {MOST_RUNS:,} runs"
            self._problems.add(self._place, what, "do more in each of them")
            return ()
        return fans.multiply(outer, fans.rows_of_matrix(self._step))

    def _outer(self) -> Sequence[Row]:
        each = self._step.each
        if each is None:
            return fans.ONE_ROW
        if each in self._late.joins:
            rows = [fans.row_of(run.label, run.values) for run in self._left.get(each, ())]
            rows = [row for row in rows if _has(row.texts, self._late.joins[each])]
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
