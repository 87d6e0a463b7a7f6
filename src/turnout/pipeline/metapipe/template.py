"""A command ready to be filled in: which files its runs are done to is all that is left open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from turnout.pipeline.metapipe.file import Command, File, Inputs, Item, Output
from turnout.pipeline.metapipe.patterns import is_pattern
from turnout.pipeline.metapipe.problem import place
from turnout.pipeline.metapipe.quoting import Quotes, Scanner
from turnout.pipeline.native.paths import clean

_WORDS = re.compile(r"(\s+)")
_BEGINS_COMMENT = re.compile(r"(?:^|\s)#\Z")


@dataclass(frozen=True, slots=True)
class Given:
    """Files of the project. `is_several`: found by a pattern, so with ``||`` there is a run for each."""

    paths: tuple[str, ...]
    is_several: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """What runs of a step leave: of run `run` (from 1) or of all, what matches `pattern` or everything."""

    where: str
    step: str
    run: int | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Matching:
    """What the runs of these steps leave that matches. Without signs of a pattern, it is one file."""

    where: str
    pattern: str
    steps: tuple[str, ...]


Source = Given | Made | Matching


def steps_of(source: Source) -> tuple[str, ...]:
    """The steps that leave it."""
    if isinstance(source, Given):
        return ()
    return (source.step,) if isinstance(source, Made) else source.steps


@dataclass(frozen=True, slots=True)
class Hole:
    """Where names of files go: a pattern of the command (`written`, at `where`), with what its names stand for."""

    where: str
    written: str
    groups: tuple[tuple[Source, ...], ...]
    each: bool
    quotes: Quotes

    @property
    def is_shared(self) -> bool:
        """Whether every run gets the same."""
        return len(self.groups) == 1 and not self.each

    @property
    def sources(self) -> Iterator[Source]:
        return (source for group in self.groups for source in group)


class Named(NamedTuple):
    """An output that gets its name from its run: mp.3. + 2 + -1.output.csv"""

    before: str
    after: str

    def of(self, run: int) -> str:
        """`run` is from 1."""
        return f"{self.before}{run}{self.after}"

    @property
    def pattern(self) -> str:
        return f"{self.before}*{self.after}"


class Declared(NamedTuple):
    """An output that the command names itself: a path, or a pattern, without ``./``, ``x/../`` and doubled slashes."""

    pattern: str
    where: str

    @property
    def is_one_file(self) -> bool:
        return not is_pattern(self.pattern)


Leaving = Named | Declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """`head` comes before the command in its script; text in `parts` is as it will stand there."""

    step: str
    head: str
    parts: tuple[str | Hole | Named, ...]
    outputs: tuple[Leaving, ...]

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(part for part in self.parts if isinstance(part, Hole))

    @property
    def sources(self) -> Iterator[Source]:
        return (source for hole in self.holes for source in hole.sources)


def heading(file: File, command: Command) -> str:
    """What the script of each of the command's runs begins with: the options of all jobs, those that were the driver's,
    its comments. The command follows."""
    return "".join(f"{line}\n" for line in (*file.job_options, *file.options, *command.comments))


def outputs_of(file: File, command: Command) -> tuple[Leaving, ...]:
    """What each of the command's outputs is called, in their order."""
    is_one = len(command.outputs) == 1
    return tuple(
        Declared(clean(output.glob), place(file.name, output.spot))
        if output.glob
        else Named(f"mp.{command.number}.", f"{'' if is_one else f'-{number}'}.output{output.extension}")
        for number, output in enumerate(command.outputs, 1)
    )


def template_of(file: File, command: Command, look_up: Callable[[Inputs, Item], Source]) -> Template:
    """The command with what its names stand for."""
    outputs = outputs_of(file, command)
    scanner, rest = Scanner(), iter(outputs)
    parts: list[str | Hole | Named] = []
    for number, part in enumerate(command.parts):
        if isinstance(part, str):
            text = _text(file, command, number)
            scanner.read(text)
            parts.append(text)
            continue
        if isinstance(part, Inputs):
            groups = tuple(tuple(look_up(part, item) for item in group) for group in part.groups)
            parts.append(Hole(place(file.name, part.spot), part.written, groups, part.each, scanner.quotes))
        else:
            output = next(rest)
            parts.append(output if isinstance(output, Named) else part.glob)
        scanner.skip()
    step = str(command.number)
    return Template(step=step, head=heading(file, command), parts=tuple(parts), outputs=outputs)


def _text(file: File, command: Command, number: int) -> str:
    """Part `number` of the command, a text, with whole words of ``[PATHS]`` replaced. A word is whole when there are
    blanks or ends of the command around it."""
    text, last = command.parts[number], len(command.parts) - 1
    assert isinstance(text, str)
    words = _WORDS.split(text)
    begin, end = int(number > 0), len(words) - int(number < last)
    words[begin:end] = [file.paths[word].value if word in file.paths else word for word in words[begin:end]]
    text = "".join(words)
    following = command.parts[number + 1] if number < last else None
    if isinstance(following, Output) and following.glob and _BEGINS_COMMENT.search(text):
        return f"{text} "  # `#{o:*.csv}` is `# *.csv` in Metapipe's scripts
    return text
