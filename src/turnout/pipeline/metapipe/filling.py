"""Templates and files come to runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from turnout.pipeline.metapipe.patterns import is_pattern
from turnout.pipeline.metapipe.problem import problem, shown
from turnout.pipeline.metapipe.template import (
    Declared,
    Given,
    Hole,
    Leaving,
    Made,
    Matching,
    Named,
    Source,
    Template,
    steps_of,
)
from turnout.pipeline.plan import Place, RunPlan


class Found(NamedTuple):
    """A file, and the run that leaves it, if that is known."""

    path: str
    place: Place | None = None


#: What executes a script, Metapipe's own way: the first failure does not end it, unless it says so (``set -e``).
SHELL = ("bash", "-c")

Find = Callable[[Source], Sequence[Found]]


def runs_of(template: Template, find: Find) -> tuple[RunPlan, ...]:
    """One run for each group of files. InvalidInput when its patterns do not come to equally many, when runs would
    leave the same file, and whenever `find` raises it.

    The argv of a run is bash with its whole script.
    """
    groups = [_groups(hole, find) for hole in template.holes]
    count = _count(template, groups)
    for output in template.outputs:
        if count > 1 and isinstance(output, Declared) and output.is_one_file:
            what = f"each of the {count} runs of command {template.step} leaves {shown(output.pattern)}"
            raise problem(output.where, what, "let them leave files of their own: {o}, or {o:PATTERN}")
    columns = [each * count if hole.is_shared else each for hole, each in zip(template.holes, groups, strict=True)]
    rows = zip(*columns, strict=True) if columns else [()]
    scripts = _scripts(template, columns, count)
    return tuple(
        _run(template, number, script, row)
        for number, script, row in zip(range(1, count + 1), scripts, rows, strict=True)
    )


def _run(template: Template, number: int, script: str, row: tuple[tuple[Found, ...], ...]) -> RunPlan:
    files = row[0] if len(row) == 1 else tuple(chain.from_iterable(row))
    return RunPlan(
        label=f"{template.step}.{number}",
        argv=(*SHELL, script),
        inputs=tuple(dict.fromkeys([found.path for found in files])),
        outputs=tuple([name_of(output, number) for output in template.outputs]),
        needs=tuple(dict.fromkeys([found.place for found in files if found.place is not None])),
    )


def name_of(output: Leaving, number: int) -> str:
    """What run `number` (from 1) leaves; it may be a pattern."""
    return output.of(number) if isinstance(output, Named) else output.pattern


def _scripts(template: Template, groups: Sequence[Sequence[tuple[Found, ...]]], count: int) -> Iterable[str]:
    rest = iter(groups)
    columns: list[Iterable[str]] = [[template.head] * count]
    for part in template.parts:
        if isinstance(part, str):
            columns.append([part] * count)
        elif isinstance(part, Named):
            columns.append(map(part.of, range(1, count + 1)))
        else:
            columns.append(_texts(part, next(rest)))
    return map("".join, zip(*columns, strict=True))


def _texts(hole: Hole, groups: Sequence[tuple[Found, ...]]) -> list[str]:
    """The names of each group, as they stand in the script."""
    fit = hole.quotes.fit
    if hole.is_shared:
        return [fit([found.path for found in groups[0]])] * len(groups)
    return [fit([found.path for found in group]) for group in groups]


def _count(template: Template, groups: Sequence[Sequence[object]]) -> int:
    driving = [(hole, len(each)) for hole, each in zip(template.holes, groups, strict=True) if not hole.is_shared]
    if not driving:
        return 1
    first, count = driving[0]
    for hole, other in driving[1:]:
        if other != count:
            what = f"expected as many as {first.written} comes to, {count}, found {other}"
            hint = "what every run gets has no ||; the others have to come to equally many"
            raise problem(hole.where, what, hint)
    return count


def _groups(hole: Hole, find: Find) -> list[tuple[Found, ...]]:
    groups: list[tuple[Found, ...]] = []
    for sources in hole.groups:
        found = [find(source) for source in sources]
        if hole.each:
            groups += _one_by_one(hole, sources, found)
        else:
            groups.append(tuple(chain.from_iterable(map(_needed, repeat(hole), sources, found))))
    return groups


def _needed(hole: Hole, source: Source, found: Sequence[Found]) -> Sequence[Found]:
    """What every run gets of a whole step, the step's needs tell: a need each for all pairs of runs would be many."""
    is_whole = not isinstance(source, Made) or source.run is None
    return [Found(each.path) for each in found] if hole.is_shared and is_whole else found


def _one_by_one(hole: Hole, sources: Sequence[Source], found: Sequence[Sequence[Found]]) -> list[tuple[Found, ...]]:
    """A group for each file of those sources that stand for several, which go in step; the others are in each."""
    several = [_is_several(source, files) for source, files in zip(sources, found, strict=True)]
    pairs = list(zip(found, several, strict=True))
    counts = sorted({len(files) for files, is_several in pairs if is_several})
    if len(counts) > 1:
        what = f"expected equally many files for each part of {hole.written}, found {counts[0]} and {counts[-1]}"
        raise problem(hole.where, what, "separate them with || if they need not go together")
    if len(found) == 1 and counts:
        return [(each,) for each in found[0]]
    return [
        tuple(chain.from_iterable(files[at : at + 1] if each else files for files, each in pairs))
        for at in range(counts[0] if counts else 1)
    ]


def _is_several(source: Source, files: Sequence[Found]) -> bool:
    if isinstance(source, Given):
        return source.is_several
    if isinstance(source, Made):
        return source.run is None or len(files) != 1
    return is_pattern(source.pattern)


def whole(template: Template) -> tuple[str, ...]:
    """The steps all of whose runs each run of this one waits for."""
    found = (step for hole in template.holes for source in hole.sources for step in _whole_of(hole, source))
    return tuple(dict.fromkeys(found))


def _whole_of(hole: Hole, source: Source) -> tuple[str, ...]:
    if isinstance(source, Matching) and not is_pattern(source.pattern):
        return source.steps  # which run leaves it cannot be said
    is_one = isinstance(source, Made) and source.run is not None
    return steps_of(source) if hole.is_shared and not is_one else ()
