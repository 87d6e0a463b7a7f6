"""What is wrong with the outputs that commands name themselves, before anybody leaves them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe.problem import problem, shown
from turnout.pipeline.metapipe.sources import Sources
from turnout.pipeline.metapipe.template import Template, steps_of
from turnout.pipeline.native.paths import above, fixed_beginning, objection


def left_twice(sources: Sources) -> Iterator[InvalidInput]:
    """Files that two commands say they leave."""
    for step, output in sources.declarations():
        if output.is_one_file and (first := sources.makers(output.pattern)[0]) != step:
            what = f"{shown(output.pattern)} is what command {first} leaves, too"
            yield problem(output.where, what, "let one of them leave another file")


def left_within(sources: Sources, templates: Sequence[Template]) -> Iterator[InvalidInput]:
    """Files in what another command says it leaves. Both may leave them, or that is a file, and they cannot be. Who
    waits for the other adds to what that left."""
    reads = {each.step: {step for source in each.sources for step in steps_of(source)} for each in templates}
    for step, output in sources.declarations():
        for directory in above(fixed_beginning(output.pattern)):
            others = [each for each in sources.makers(directory) if each != step]
            if others and not _waits_for(step, others[0], reads):
                what = f"{shown(output.pattern)} lies in {shown(directory)}, which is what command {others[0]} leaves"
                yield problem(output.where, what, "let one of them leave another file")
                break


def _waits_for(step: str, other: str, reads: Mapping[str, Collection[str]]) -> bool:
    found, left = {step}, [step]
    while left:
        news = set(reads[left.pop()]) - found
        found |= news
        left += news
    return other in found


def left_elsewhere(sources: Sources) -> Iterator[InvalidInput]:
    """Files that no run can leave in a directory of its own."""
    for _, output in sources.declarations():
        if why := objection(output.pattern):
            hint = "let it leave a file below that directory: {o}, or {o:PATTERN}"
            yield problem(output.where, f"{shown(output.pattern)} {why}", hint)
