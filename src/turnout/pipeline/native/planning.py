"""The plan of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

from turnout.model.acyclic import acyclic
from turnout.model.pipeline import Gate
from turnout.pipeline.native.catalogue import Glob, Project, may_leave
from turnout.pipeline.native.conditions import Condition
from turnout.pipeline.native.fanning import Fans, fan_out
from turnout.pipeline.native.finding import Ahead
from turnout.pipeline.native.graph import in_order
from turnout.pipeline.native.joins import Join, Member
from turnout.pipeline.native.late import LateStep
from turnout.pipeline.native.looking import tell_several
from turnout.pipeline.native.model import Pipeline
from turnout.pipeline.native.openness import Openness
from turnout.pipeline.native.outlining import Outline, outline, tell_circle
from turnout.pipeline.native.paths import ANY, clean
from turnout.pipeline.native.preparing import Entry, Prepared
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
    follows: dict[str, None] = field(default_factory=dict)
    runs: tuple[RunPlan, ...] = ()
    late: LateStep | None = None
    gate: Gate = Gate.NONE
    reads: dict[str, None] = field(default_factory=dict)
    by_run: dict[str, None] = field(default_factory=dict)
    when: str | None = None
    each: str = ""

    def all_needs(self) -> dict[str, None]:
        return self.needs | self.by_run | self.follows if self.by_run or self.follows else self.needs

    def done(self) -> StepPlan:
        return StepPlan(
            name=self.name, runs=self.runs, needs=tuple(self.needs), follows=tuple(self.follows), late=self.late,
            gate=self.gate, reads=tuple(self.reads), when=self.when,
            each=self.each,
        )  # fmt: skip


class _Drafting:
    def __init__(self, where: str, outline: Outline, fans: Fans, project: Project, problems: Problems) -> None:
        self._where = where
        self._outline = outline
        self._fans = fans
        self._project = project
        self._problems = problems
        self._open = Openness(outline, fans)
        self._joins: dict[tuple[str, tuple[str, ...]], Join] = {}
        self._idle = self._finder("")  # of steps that read nothing by its name

    def drafts(self) -> dict[str, _Draft]:
        """Of all steps that are sound, as they are written."""
        found = {}
        for name in self._outline.steps:
            prepared = self._outline.prepared.get(name)
            if prepared is not None:
                gate = self._open.gate(name)
                is_late = name in self._open.late
                draft = self._draft_late(prepared) if is_late else self._draft(prepared, has_gate=bool(gate))
                draft.gate = gate
                if prepared.has_own_files:
                    draft.each = self._own_files(prepared)
                if prepared.condition is not None:
                    self._note_condition(draft, prepared.condition)
                found[name] = draft
        return found

    def _note_condition(self, draft: _Draft, condition: Condition) -> None:
        name = draft.name
        if not condition.waits:
            return
        draft.when = condition.text
        if not draft.all_needs():
            what = f"{condition.text} is told when others are over, and it waits for none"
            self._problems.add(f"steps.{name}.when", what, "write `needs: STEP`")
        for other in condition.steps if name not in self._open.late else ():
            if (several := self._join(name, other).most) > 1:
                tell_several(name, other, several, self._problems)

    def _own_files(self, prepared: Prepared) -> str:
        """The pattern of the files of others that it is done to one by one, unless it reads more of them besides."""
        if prepared.step.name in self._fans.of_project:
            return ""
        pattern = clean(prepared.step.each or "")
        others = (*prepared.beside, *(() if prepared.inputs else prepared.through))
        read = [*prepared.inputs, *(entry for step in others for entry in self._outline.prepared[step].outputs)]
        return "" if any(may_leave(entry.guess, pattern) for entry in read) else pattern

    def _draft(self, prepared: Prepared, *, has_gate: bool) -> _Draft:
        name = prepared.step.name
        joins = [self._join(name, other) for other in self._outline.named[name]]
        by_run: dict[str, None] = {}
        whole: dict[str, None] = {}
        for join in joins:
            (by_run if join.names and join.step not in self._open.late else whole)[join.step] = None
        finder = self._finder(name) if prepared.inputs or prepared.has_own_files else self._idle
        for entry in prepared.inputs:
            if entry.has_places and not entry.guess.startswith("/"):
                self._project.matching(entry.guess.replace(ANY, "*"))  # one question for most of the runs
        late = self._late(prepared, self._files_there(prepared)) if has_gate else None
        fills = late is None or not late.fills
        passing = self._open.skippable
        maker = Maker(prepared, joins, by_run, finder, self._problems, fills=fills, passing=passing)
        runs = maker.make(self._fans.rows[name], self._fans.outputs[name])
        if finder is not self._idle:
            by_run |= finder.by_run
            whole |= finder.needs
        return _Draft(name, whole, runs=runs, late=late, reads=finder.reads, by_run=by_run)

    def _finder(self, name: str) -> Ahead:
        return Ahead(name, self._fans.catalogue, self._project, self._open.late, partial(self._outline.after, name))

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
        if self._open.has_patterns(name):
            plain = [not entry.is_pattern for entry in self._outline.prepared[name].outputs]
            outputs = [tuple(path for path, is_plain in zip(each, plain, strict=True) if is_plain) for each in outputs]
        return [Member(row.texts, files) for row, files in zip(rows, outputs, strict=True)]

    def _draft_late(self, prepared: Prepared) -> _Draft:
        """What a pattern of its own matches is known when those are over that it needs; of all others that it reads
        from, its runs wait for some."""
        name = prepared.step.name
        not_before = {name, *self._outline.after(name)}
        follows = dict.fromkeys(self._outline.named[name])
        for entry in prepared.inputs:
            if entry.guess.startswith("/"):
                continue
            passed = not_before if entry.is_pattern or entry.has_places else ()
            makers = [step for step in self._fans.catalogue.steps_of(entry.guess) if step not in passed]
            if not makers and not self._there(entry):
                what = f"{entry.text} is missing: it is no file of the project, and no step leaves it"
                self._problems.add(f"steps.{name}.inputs", what, "make it, or write it as the step does that leaves it")
            follows.update(dict.fromkeys(makers))
        files = self._files_there(prepared)
        late = self._late(prepared, files)
        needs = dict.fromkeys(prepared.step.needs if prepared.has_own_files and late.fan is None else ())
        read = late.fan if late.fan is not None and name in self._fans.of_project else ()
        follows = {step: None for step in follows if step not in needs}
        return _Draft(name, needs, follows, late=late, reads=dict.fromkeys([*read, *files]))

    def _late(self, prepared: Prepared, files: tuple[str, ...]) -> LateStep:
        name = prepared.step.name
        return LateStep(
            step=replace(prepared.step, job={}),  # which is of no concern for its runs
            where=self._where, names=prepared.names, files=files, fan=self._fans.files.get(name),
            joins={other: self._outline.shared(name, other) for other in self._outline.named[name]},
            fills=self._open.fills(name),
        )  # fmt: skip

    def _files_there(self, prepared: Prepared) -> tuple[str, ...]:
        """The files of the project that it may read."""
        entries = [entry for entry in prepared.inputs if not entry.guess.startswith("/")]
        return tuple(dict.fromkeys(path for entry in entries for path in self._there(entry)))

    def _there(self, entry: Entry) -> list[str]:
        if entry.is_pattern or entry.has_places:
            there = list(self._project.matching(entry.guess))
        else:
            there = [entry.text] if self._project.has(entry.text) else []
        return [path for path in there if path not in self._fans.catalogue.paths]
