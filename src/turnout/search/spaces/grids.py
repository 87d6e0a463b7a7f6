"""A space as a grid: so many points, each found by its index, without a list of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Params, Range, Space
from turnout.search.spaces.drawing import NAME, placed, settled
from turnout.search.spaces.functions import ANY_SEED

#: Into how many values a continuous range is divided.
POINTS = 5
#: A range of more integers, or steps, is divided as a continuous one is.
MOST_VALUES = 1000


class Grid:
    """Points in the order of nested loops: the last parameter changes fastest, values come as they are written, and
    after all points with one branch come those with the next. A seed (`ANY_SEED`) does not multiply them: each point
    has one of its own."""

    size: int

    def __init__(self, space: Space, points: int = POINTS) -> None:
        self._axes = {name: _Axis(parameter, points) for name, parameter in space.items()}
        self.size = math.prod(axis.size for axis in self._axes.values())

    def at(self, index: int, seed: int = 0) -> Params:
        """The point number `index`, from 0. IndexError."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        return self.pick(index, _seeds(f"{seed}/{index}"))

    def pick(self, index: int, seeds: Iterator[int]) -> Params:
        values: dict[str, object] = {}
        for name, axis in reversed(self._axes.items()):
            index, place = divmod(index, axis.size)
            values[name] = axis.pick(place, seeds)
        return {name: values[name] for name in self._axes}


class _Axis:
    def __init__(self, parameter: Parameter, points: int) -> None:
        self._is_seed = parameter == ANY_SEED
        self._values: list[object] = [None] if self._is_seed else values_of(parameter, points)
        self._below = {
            place: Grid(value.space, points) for place, value in enumerate(self._values) if isinstance(value, Branch)
        }
        self.size = len(self._values) + sum(below.size - 1 for below in self._below.values())

    def pick(self, place: int, seeds: Iterator[int]) -> object:
        if self._is_seed:
            return next(seeds)
        if not self._below:
            return self._values[place]
        for index, value in enumerate(self._values):
            size = self._below[index].size if isinstance(value, Branch) else 1
            if place < size:
                return _chosen(value, self._below[index].pick(place, seeds)) if isinstance(value, Branch) else value
            place -= size
        raise IndexError(place)


def values_of(parameter: Parameter, points: int = POINTS) -> list[object]:
    """Its values in order, each once; of a continuous one `points`: evenly, evenly in logarithms, or at quantiles."""
    if isinstance(parameter, Choice):
        return list({_key(place, value): value for place, value in enumerate(parameter.values)}.values())
    if isinstance(parameter, Normal):
        shares = [(index + 0.5) / points for index in range(points)]
        return list(dict.fromkeys(settled(parameter, placed(parameter, share)) for share in shares))
    steps = _steps(parameter)
    if steps is not None and steps.last - steps.first < MOST_VALUES:
        within = (number * steps.width for number in range(steps.first, steps.last + 1))
        places = [parameter.low, *within, parameter.high]
    else:
        shares = [index / (points - 1) for index in range(points)] if points > 1 else [0.5]
        places = [placed(parameter, share) for share in shares]
    return list(dict.fromkeys(settled(parameter, place) for place in places))


def count_of(parameter: Range) -> int | None:
    """How many values it has, beside its bounds; None = it is continuous."""
    steps = _steps(parameter)
    return None if steps is None else max(0, steps.last - steps.first + 1)


class _Steps(NamedTuple):
    """The multiples of `width` from the one of number `first` to that of number `last`."""

    width: float
    first: int
    last: int


def _steps(parameter: Range) -> _Steps | None:
    """Those that lie within: what it is rounded to, besides bounds that are no multiples. None = it is continuous."""
    width = max(1 if parameter.whole else 0, parameter.step or 0)
    if not width:
        return None
    first, last = -(-parameter.low // width), parameter.high // width
    return _Steps(width, int(first), int(last)) if math.isfinite(first) and math.isfinite(last) else None


def _key(place: int, value: object) -> object:
    """The same for the same value; ``true`` is not 1."""
    return place if isinstance(value, Branch) else json.dumps(value, sort_keys=True)


def _chosen(branch: Branch, params: Params) -> Params:
    return {NAME: branch.name, **params}


def _seeds(key: str) -> Iterator[int]:
    random = Random(key)
    while True:
        yield random.randint(int(ANY_SEED.low), int(ANY_SEED.high))
