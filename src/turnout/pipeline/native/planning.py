"""The plan of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from turnout.model.acyclic import acyclic
from turnout.pipeline.native.catalogue import Glob, Project
from turnout.pipeline.native.conditions import Condition
from turnout.pipeline.native.fanning import Fans, fan_out
from turnout.pipeline.native.finding import Ahead
from turnout.pipeline.native.graph import in_order
from turnout.pipeline.native.joins import Join, Member
from turnout.pipeline.native.late import LateStep
from turnout.pipeline.native.model import Pipeline
from turnout.pipeline.native.outlining import Outline, outline, tell_circle
from turnout.pipeline.native.paths import ANY
from turnout.pipeline.native.preparing import Entry
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.runs import Maker
from turnout.pipeline.plan import Plan, RunPlan, StepPlan


def plan(pipeline: Pipeline, glob: Glob) -> Plan:
    """What the pipeline comes to. `glob` answers with the files of the project that match a pattern, as paths relative
    to its directory, and with an absolute pattern as it likes. InvalidInput has all that is wrong, one line for each.
    """
    with acyclic():
        return _plan(pipeline, glob)


def _plan(pipeline: Pipeline, glob: Glob) -> Plan:
    problems = Problems(pipeline.where, pipeline.locate)
    steps = outline(pipeline, problems)
    project = Project(glob)
    found = fan_out(steps, project, problems)
    drafts = _Drafting(pipeline.where, steps, found, project, problems).drafts()
    needs = {name: [each for each in draft.all_needs() if each in drafts] for name, draft in drafts.items()}
    order, circles = in_order(needs)
    for circle in circles:
        tell_circle(circle, problems)
    problems.check()
    notes = [note for prepared in steps.prepared.values() for note in prepared.notes]
    return Plan(steps=tuple(drafts[name].done() for name in order), notes=(*notes, *found.notes))


@dataclass(slots=True)
class _Draft:
    """A step whose place in the order is not known yet."""

    name: str
    needs: dict[str, None]
    runs: tuple[RunPlan, ...] = ()
    late: LateStep | None = None
    reads: dict[str, None] = field(default_factory=dict)
    by_run: dict[str, None] = field(default_factory=dict)
    condition: Condition | None = None

    def all_needs(self) -> dict[str, None]:
        return self.needs | self.by_run if self.by_run else self.needs

    def done(self) -> StepPlan:
        waits = self.condition is not None and self.condition.waits
        return StepPlan(
            name=self.name, runs=self.runs, needs=tuple(self.needs), late=self.late, reads=tuple(self.reads),
            when=self.condition.text if self.condition is not None and waits else None,
            bears_failures=self.condition is not None and self.condition.bears_failures,
        )  # fmt: skip


class _Drafting:
    def __init__(self, where: str, outline: Outline, fans: Fans, project: Project, problems: Problems) -> None:
        self._where = where
        self._outline = outline
        self._fans = fans
        self._project = project
        self._problems = problems
        self._late = self._late_ones()
        self._joins: dict[tuple[str, tuple[str, ...]], Join] = {}

    def drafts(self) -> dict[str, _Draft]:
        """Of all steps that are sound, as they are written."""
        return {
            name: self._draft_late(name) if name in self._late else self._draft(name)
            for name in self._outline.steps
            if name in self._outline.prepared
        }

    def _late_ones(self) -> set[str]:
        late: set[str] = set()
        for name, prepared in self._outline.prepared.items():
            step = prepared.step
            is_late = name not in self._fans.rows or bool(late.intersection((step.each or "", *step.collect)))
            if is_late or any(each in late or self._has_patterns(each) for each in prepared.beside):
                is_late = True
            elif prepared.inputs:
                is_late = any(self._is_unsure(name, entry) for entry in prepared.inputs)
            else:
                is_known = all(each not in late and not self._has_patterns(each) for each in prepared.through)
                is_late = prepared.asks_for_inputs and not is_known
            if is_late:
                late.add(name)
        return late

    def _is_unsure(self, name: str, entry: Entry) -> bool:
        if not entry.is_pattern:
            return False
        others = set(self._fans.catalogue.unsure(entry.guess)) - {name}
        return bool(others) and not others <= self._outline.after(name)

    def _has_patterns(self, name: str) -> bool:
        return any(entry.is_pattern for entry in self._outline.prepared[name].outputs)

    def _draft(self, name: str) -> _Draft:
        prepared = self._outline.prepared[name]
        joins = [self._join(name, other) for other in self._outline.named[name]]
        by_run = {join.step: None for join in joins if join.names and join.step not in self._late}
        whole = {join.step: None for join in joins if join.step not in by_run}
        finder = Ahead(name, self._fans.catalogue, self._project, self._late, partial(self._outline.after, name))
        for entry in prepared.inputs:
            if entry.has_places and not entry.guess.startswith("/"):
                self._project.matching(entry.guess.replace(ANY, "*"))  # one question for most of the runs
        maker = Maker(prepared, joins, by_run, finder, self._problems)
        runs = maker.make(self._fans.rows[name], self._fans.outputs[name])
        return _Draft(name, whole | finder.needs, runs, reads=finder.reads, by_run=by_run | finder.by_run)

    def _join(self, name: str, other: str) -> Join:
        if other not in self._fans.rows:
            return Join(other, (), ())
        names = self._outline.shared(name, other)
        if (other, names) not in self._joins:
            self._joins[other, names] = Join(other, names, self._members(other))
        return self._joins[other, names]

    def _members(self, name: str) -> list[Member]:
        """The runs of a step, with what they leave as far as it is known."""
        outputs, rows = self._fans.outputs[name], self._fans.rows[name]
        if self._has_patterns(name):
            plain = [not entry.is_pattern for entry in self._outline.prepared[name].outputs]
            outputs = [tuple(path for path, is_plain in zip(each, plain, strict=True) if is_plain) for each in outputs]
        return [Member(row.texts, files) for row, files in zip(rows, outputs, strict=True)]

    def _draft_late(self, name: str) -> _Draft:
        prepared = self._outline.prepared[name]
        named = self._outline.named[name]
        needs = dict.fromkeys(named)
        not_before = {name, *self._outline.after(name)}
        fan = self._fans.files.get(name)
        files: dict[str, None] = {}
        for entry in prepared.inputs:
            if entry.guess.startswith("/"):
                continue
            passed = not_before if entry.is_pattern or entry.has_places else ()
            makers = [step for step in self._fans.catalogue.steps_of(entry.guess) if step not in passed]
            there = [path for path in self._there(entry) if path not in self._fans.catalogue.paths]
            if not makers and not there:
                what = f"{entry.text} is missing: it is no file of the project, and no step leaves it"
                self._problems.add(f"steps.{name}.inputs", what, "make it, or write it as the step does that leaves it")
            needs.update(dict.fromkeys(makers))
            files.update(dict.fromkeys(there))
        if prepared.condition is not None and prepared.condition.waits and not needs:
            what = f"{prepared.condition.text} is told when others are over, and it waits for none"
            self._problems.add(f"steps.{name}.when", what, "write `needs: STEP`")
        late = LateStep(
            step=replace(prepared.step, job={}),  # which is of no concern for its runs
            where=self._where, names=prepared.names, files=tuple(files), fan=fan,
            joins={other: self._outline.shared(name, other) for other in named},
        )  # fmt: skip
        read = fan if fan is not None and name in self._fans.of_project else ()
        return _Draft(name, needs, late=late, reads=dict.fromkeys([*read, *files]), condition=prepared.condition)

    def _there(self, entry: Entry) -> tuple[str, ...]:
        if entry.is_pattern or entry.has_places:
            return self._project.matching(entry.guess)
        return (entry.text,) if self._project.has(entry.text) else ()
