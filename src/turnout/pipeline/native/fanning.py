"""What the runs of each step are done to, and what they leave, as far as that is known before anything begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from turnout.pipeline.native import fans
from turnout.pipeline.native.catalogue import Catalogue, Project, Unsure, Within, may_leave
from turnout.pipeline.native.fans import Row
from turnout.pipeline.native.model import MOST_RUNS, Step
from turnout.pipeline.native.outlining import Outline
from turnout.pipeline.native.paths import ANY, clean, matcher, objection
from turnout.pipeline.native.preparing import Entry, Prepared, entries
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.runs import called
from turnout.pipeline.plan import Place


@dataclass(slots=True)
class Fans:
    """`rows` has the steps whose runs are known; `outputs` what each of these leaves, one path or pattern for each
    entry. `files` are those that a pattern of a step stands for, if they are known."""

    rows: dict[str, Sequence[Row]] = field(default_factory=dict)
    outputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    of_project: set[str] = field(default_factory=set)
    catalogue: Catalogue = field(default_factory=Catalogue)
    notes: list[str] = field(default_factory=list)


def fan_out(outline: Outline, project: Project, problems: Problems) -> Fans:
    """Files of the project that the pipeline itself writes are left from an earlier time, and are not what a step is
    done to that does not need who writes them: then it would have other runs the second time."""
    written: dict[str, dict[str, str]] = {}
    while True:
        told = Problems("")
        found = _Fanning(outline, project, written, told).done()
        more = _written_ones(outline, found)
        if not more:
            problems.take(told)
            return found
        for name, files in more.items():
            written.setdefault(name, {}).update(files)


def _written_ones(outline: Outline, found: Fans) -> dict[str, dict[str, str]]:
    """For each step the files of the project that it is done to, and who writes them. A file that a run writes over is
    its own mistake, which is told later."""
    written: dict[str, dict[str, str]] = {}
    for name in found.of_project:
        for file in found.files.get(name, ()):
            for step, run in found.catalogue.makers(file):
                if run is not None and (step != name or found.rows[name][run].values["file"] != file):
                    written.setdefault(name, {})[file] = step
    return written


class _Fanning:
    def __init__(
        self, outline: Outline, project: Project, written: Mapping[str, Mapping[str, str]], problems: Problems
    ) -> None:
        self._outline = outline
        self._project = project
        self._written = written
        self._problems = problems
        self._found = Fans()
        self._runs = 0

    def done(self) -> Fans:
        for name, prepared in self._outline.prepared.items():
            rows = self._rows(prepared)
            if rows is None:
                self._guess(prepared.step, prepared.outputs)
            else:
                self._found.rows[name] = rows
                self._found.outputs[name] = self._outputs(prepared, rows)
        for step in self._outline.broken:
            self._guess(step, entries(step.name, step.outputs, {}))
        comes_after = cache(self._comes_after)
        for each in self._found.catalogue.within_others():
            if not comes_after(each.maker.step, each.owner.step):
                self._tell_within(each)
        return self._found

    def _rows(self, prepared: Prepared) -> Sequence[Row] | None:
        step, condition = prepared.step, prepared.condition
        place = f"steps.{step.name}"
        outer = self._outer(step)
        size = fans.size_of_matrix(step)
        self._runs += len(outer) * size if outer is not None else 0
        if outer is not None and self._runs > MOST_RUNS:
            what = f"there would be more than {MOST_RUNS:,} runs"
            self._problems.add("steps", what, f"do more in each of them; {step.name} is where it became too many")
            return None
        inner = fans.rows_of_matrix(step) if size <= MOST_RUNS else ()
        if (label := fans.twice(inner)) is not None:
            self._problems.add(f"{place}.matrix", f"{label} is there twice", "leave one out")
            return None
        if outer is None:
            return None
        rows = fans.multiply(outer, inner)
        if condition is None or condition.waits:
            return rows
        chosen = [row for row in rows if condition.holds({**row.texts, **row.values}, {})]
        if not chosen:
            self._problems.add(f"{place}.when", "holds for none of its runs", "mend it, or leave the step out")
        return chosen

    def _outer(self, step: Step) -> Sequence[Row] | None:
        """What its `each` comes to; None = that is not known yet, or wrong."""
        if step.each is None:
            return fans.ONE_ROW
        if step.each in self._outline.steps:
            return self._found.rows.get(step.each)
        files = self._files(step, clean(step.each))
        if files is None:
            return None
        self._found.files[step.name] = files
        return fans.rows_of_files(files) if files else None

    def _files(self, step: Step, pattern: str) -> tuple[str, ...] | None:
        """Those that the steps before it leave, if they may leave such; else those of the project."""
        left: list[str] = []
        matches = matcher(pattern)
        for name in step.needs:
            if name not in self._found.rows:
                guesses = [entry.guess for entry in self._outline.prepared[name].outputs]
                if any(may_leave(guess, pattern) for guess in guesses):
                    return None
            for outputs in self._found.outputs.get(name, ()):
                for entry, path in zip(self._outline.prepared[name].outputs, outputs, strict=True):
                    if entry.is_pattern or not matches(path):
                        if may_leave(path, pattern):
                            return None
                    else:
                        left.append(path)
        if left:
            return tuple(dict.fromkeys(left))
        self._found.of_project.add(step.name)
        return self._of_project(step, pattern)

    def _of_project(self, step: Step, pattern: str) -> tuple[str, ...]:
        written = self._written.get(step.name, {})
        files = tuple(file for file in self._project.matching(pattern) if file not in written)
        place = f"steps.{step.name}.each"
        if not files and written:
            writers = ", ".join(sorted(set(written.values())))
            what = f"only files match {pattern} that {writers} writes"
            self._problems.add(place, what, f"write `needs: {writers}` for those, or mend the pattern")
        elif not files:
            self._problems.add(place, f"no file matches {pattern}", self._instead(step, pattern))
        elif written:
            file, writer = next(iter(written.items()))
            more = f", and {len(written) - 1} more," if len(written) > 1 else ""
            self._found.notes.append(f"{place}: {file}{more} is left out, because {writer} writes it")
        return files

    def _instead(self, step: Step, pattern: str) -> str:
        for other in self._outline.steps.values():
            if other.name != step.name and other.name not in step.needs:
                guesses = [entry.guess for entry in entries(other.name, other.outputs, {})]
                if any(may_leave(each, pattern) for each in guesses):
                    return f"{other.name} may leave such files: then write `needs: {other.name}`"
        if step.needs:
            return f"mend it, or say in `outputs:` of {', '.join(step.needs)} that such files are left"
        return "mend the pattern, which is relative to the directory of the pipeline"

    def _outputs(self, prepared: Prepared, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        name, place = prepared.step.name, f"steps.{prepared.step.name}.outputs"
        found = []
        for number, row in enumerate(rows):
            run = Place(name, number)
            outputs = tuple([entry.fill(row.texts) for entry in prepared.outputs])
            for entry, path in zip(prepared.outputs, outputs, strict=True):
                if why := objection(path):
                    self._refuse(place, path, why)
                elif first := self._add(entry, path, run):
                    self._tell_both(path, first, run)
            found.append(outputs)
        return found

    def _add(self, entry: Entry, path: str, run: Place) -> Place | None:
        """The run that has the same already, if one does."""
        if not entry.is_pattern:
            return self._found.catalogue.add(path, run)
        first = self._found.catalogue.add_unsure(Unsure(path, run.step, run.run))
        return None if first is None or first.run is None else Place(first.step, first.run)

    def _tell_both(self, path: str, first: Place, second: Place) -> None:
        what = f"{path} is written by {self._called(first)} and by {self._called(second)}"
        self._problems.add(f"steps.{second.step}.outputs", what, self._apart(first, second))

    def _tell_within(self, found: Within) -> None:
        inner, outer = self._called(found.maker), self._called(found.owner)
        what = f"{found.path} of {inner} lies in {found.directory}, which {outer} writes"
        self._problems.add(f"steps.{found.maker.step}.outputs", what, self._apart(found.owner, found.maker))

    def _comes_after(self, step: str, other: str) -> bool:
        """Whether the one adds to what the other left: it names it, or reads of that."""
        steps_of = self._found.catalogue.steps_of
        reads = (steps_of(entry.guess) for entry in self._outline.prepared[step].inputs)
        return step != other and (step in self._outline.after(other) or any(other in steps for steps in reads))

    def _called(self, run: Place) -> str:
        return called(run.step, self._found.rows[run.step][run.run].label)

    def _apart(self, one: Place, other: Place) -> str:
        if one.step != other.step:
            return "give one of them another path"
        names = ", ".join(f"{{{name}}}" for name in self._outline.prepared[one.step].names)
        return f"put what tells the runs apart into the path: {names}"

    def _refuse(self, place: str, path: str, why: str) -> None:
        self._problems.add(place, f"{path or 'an empty text'} {why}", "write a path below the directory of the run")

    def _guess(self, step: Step, outputs: Sequence[Entry]) -> None:
        for entry in outputs:
            if why := objection(entry.guess.replace(ANY, "*")):
                self._refuse(f"steps.{step.name}.outputs", entry.guess.replace(ANY, "*"), why)
            self._found.catalogue.add_unsure(Unsure(entry.guess, step.name, None))
