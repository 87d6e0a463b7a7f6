"""A value and where it came from; and trees of them, one per layer, that are merged key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Union


class Source(StrEnum):
    DEFAULT = "default"
    FILE = "file"
    VARIABLE = "variable"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Origin:
    """`name` is the file, the variable or the option; `line` is of the file."""

    source: Source
    name: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.source is Source.FILE:
            return f"{self.name}:{self.line}"
        return self.name or str(self.source)


DEFAULT = Origin(Source.DEFAULT)


@dataclass(frozen=True, slots=True)
class Setting:
    value: object
    origin: Origin


Tree = dict[str, Union["Tree", Setting]]


def merge(lower: Mapping[str, Tree | Setting], upper: Mapping[str, Tree | Setting]) -> Tree:
    """Names and values are merged, key by key; lists and single values of `upper` replace those of `lower`."""
    merged: Tree = dict(lower)
    for name, found in upper.items():
        below = merged.get(name)
        merged[name] = merge(below, found) if isinstance(below, dict) and isinstance(found, dict) else found
    return merged


def walk(tree: Tree, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Setting]]:
    """Every single value with its path, in order."""
    for name, found in tree.items():
        if isinstance(found, Setting):
            yield (*above, name), found
        else:
            yield from walk(found, (*above, name))


def plain(found: Tree | Setting) -> object:
    """Without origins."""
    return found.value if isinstance(found, Setting) else {name: plain(each) for name, each in found.items()}
