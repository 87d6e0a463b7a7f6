"""A file comes to a plan: the steps in order, the runs of each, what each waits for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe.file import File
from turnout.pipeline.metapipe.filling import Found, name_of, runs_of, whole
from turnout.pipeline.metapipe.late import LateStep
from turnout.pipeline.metapipe.ordering import ordered
from turnout.pipeline.metapipe.outputs import left_elsewhere, left_twice, left_within
from turnout.pipeline.metapipe.patterns import is_pattern, matcher, may_meet
from turnout.pipeline.metapipe.problem import problem, shown, together
from turnout.pipeline.metapipe.sources import Sources
from turnout.pipeline.metapipe.template import (
    Declared,
    Given,
    Leaving,
    Made,
    Matching,
    Source,
    Template,
    steps_of,
    template_of,
)
from turnout.pipeline.plan import Place, Plan, StepPlan


def plan(file: File, glob: Callable[[str], Sequence[str]], *, in_place: bool = False) -> Plan:
    """What `file` comes to. `glob` gives what there is in the project that matches a path or pattern, sorted by name.
    With `in_place` all is done there, where the files of the project are: outputs may lie elsewhere, and in directories
    that others leave.

    Raises InvalidInput that names every problem that can be known before anything begins. The argv of a run is its
    script, see `runs_of`; what it leaves by ``{o:PATTERN}`` is a pattern in its outputs.
    """
    sources = Sources(file, glob)
    templates = [template_of(file, command, partial(sources.look_up, command)) for command in file.commands]
    sources.note_unused()
    problems = [*sources.problems, *left_twice(sources)]
    if not in_place:
        problems += [*left_within(sources, templates), *left_elsewhere(sources)]
    try:
        templates = ordered(templates)
    except InvalidInput as error:
        problems.append(error)
    if problems:
        raise together(problems)
    expanding = _Expanding(sources.outputs)
    steps = [expanding.step(template) for template in templates]
    if expanding.problems:
        raise together(expanding.problems)
    return Plan(steps=tuple(step for step in steps if step is not None), notes=tuple(sources.notes))


class _Expanding:
    """Makes the runs of steps, each after those it reads from."""

    def __init__(self, outputs: Mapping[str, tuple[Leaving, ...]]) -> None:
        self._outputs = outputs
        self._counts: dict[str, int] = {}  # of runs; neither late nor broken steps have one
        self._late: set[str] = set()
        self.problems: list[InvalidInput] = []

    def step(self, template: Template) -> StepPlan | None:
        """None when it, or one it reads from, has a problem."""
        before = tuple(dict.fromkeys(step for source in template.sources for step in steps_of(source)))
        if any(step not in self._counts and step not in self._late for step in before):
            return None
        given = (source.paths for source in template.sources if isinstance(source, Given))
        reads = tuple(dict.fromkeys(path for paths in given for path in paths if not path.startswith("/")))
        if any(map(self._is_open, template.sources)):
            self._late.add(template.step)
            unsure = {step for source in template.sources if self._is_unsure(source) for step in steps_of(source)}
            return StepPlan(
                name=template.step, needs=tuple(step for step in before if step in unsure),
                follows=tuple(step for step in before if step not in unsure), late=LateStep(template), reads=reads,
            )  # fmt: skip
        try:
            runs = runs_of(template, self._find)
        except InvalidInput as error:
            self.problems.append(error)
            return None
        self._counts[template.step] = len(runs)
        return StepPlan(name=template.step, runs=runs, needs=whole(template), reads=reads)

    def _is_open(self, source: Source) -> bool:
        """Whether nobody can say yet which files it stands for."""
        if not isinstance(source, Made) and (isinstance(source, Given) or not is_pattern(source.pattern)):
            return False
        return not self._late.isdisjoint(steps_of(source)) or self._is_unsure(source)

    def _is_unsure(self, source: Source) -> bool:
        """Whether that is known only when all that leaves some is over."""
        if isinstance(source, Made):
            return any(map(_is_guess, self._chosen(source)))
        if isinstance(source, Given) or not is_pattern(source.pattern):
            return False
        outputs = (output for step in source.steps for output in self._outputs[step])
        return any(may_meet(source.pattern, output.pattern) for output in outputs if _is_guess(output))

    def _chosen(self, source: Made) -> tuple[Leaving, ...]:
        outputs = self._outputs[source.step]
        return tuple(each for each in outputs if each.pattern == source.pattern) if source.pattern else outputs

    def _find(self, source: Source) -> list[Found]:
        if isinstance(source, Given):
            return [Found(path) for path in source.paths]
        return self._find_made(source) if isinstance(source, Made) else self._find_matching(source)

    def _find_made(self, source: Made) -> list[Found]:
        step, count = source.step, self._counts[source.step]
        if source.run is not None and not 1 <= source.run <= count:
            runs = f"one run, {step}.1" if count == 1 else f"{count} runs, {step}.1 to {step}.{count}"
            raise problem(source.where, f"command {step} has no run {step}.{source.run}", f"it comes to {runs}")
        numbers = range(1, count + 1) if source.run is None else (source.run,)
        outputs = self._chosen(source)
        return [Found(name_of(output, number), Place(step, number - 1)) for number in numbers for output in outputs]

    def _find_matching(self, source: Matching) -> list[Found]:
        if not is_pattern(source.pattern):
            return [Found(source.pattern)]
        matches = matcher(source.pattern)
        found = {
            name: Found(name, Place(step, number - 1))
            for step in source.steps
            for number in range(1, self._counts[step] + 1)
            for output in self._outputs[step]
            if matches(name := name_of(output, number))
        }
        if not found:
            what = f"no file matches {shown(source.pattern)}, and none that command {source.steps[0]} leaves"
            raise problem(source.where, what, f"write {{{source.steps[0]}.*}} for what that leaves")
        return [found[name] for name in sorted(found)]


def _is_guess(output: Leaving) -> bool:
    return isinstance(output, Declared) and not output.is_one_file
