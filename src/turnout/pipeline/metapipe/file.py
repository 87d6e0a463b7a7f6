"""A Metapipe file as values: what `parse` makes and `plan` understands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Spot(NamedTuple):
    """Where something is written, both from 1."""

    line: int
    column: int


class Item(NamedTuple):
    """A name in braces: an alias, ``3.2``, or a file or pattern."""

    text: str
    spot: Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """``{1,2||3,4}``: groups, each for one run. With `each` (a ``||`` at the end) a name that stands for several files
    is as many groups. `written` is how it looks in the file."""

    spot: Spot
    written: str
    groups: tuple[tuple[Item, ...], ...]
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """``{o}``, ``{o.csv}`` (`extension` is ``.csv``), or ``{o:*.counts}`` (`glob`, which may be a plain name)."""

    spot: Spot
    extension: str = ""
    glob: str = ""


Part = str | Inputs | Output


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    number: int
    spot: Spot
    parts: tuple[Part, ...]
    comments: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(part for part in self.parts if isinstance(part, Output))


class Entry(NamedTuple):
    """A line of ``[FILES]`` or ``[PATHS]``; `spot` is that of `value`."""

    value: str
    spot: Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """`files` and `paths` are by alias. `job_options` begin each run's script. `options` Metapipe ran once, in the
    shell that all jobs came from; here each run has a shell of its own, on whatever machine, and they follow the job
    options in it. `notes` are what was understood otherwise than it may have been meant."""

    name: str
    commands: tuple[Command, ...]
    files: Mapping[str, Entry] = field(default_factory=dict)
    paths: Mapping[str, Entry] = field(default_factory=dict)
    job_options: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
