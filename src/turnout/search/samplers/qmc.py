"""Points that fill a space evenly, a Sobol sequence: those of a run depend on the seed and its number alone."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from random import Random

from turnout.plugin.sampler import Proposal, Result, Sampler, Task
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Params, Space
from turnout.search.options import Options
from turnout.search.samplers.libraries import need
from turnout.search.spaces.drawing import NAME, draw_one, placed, settled
from turnout.search.spaces.functions import ANY_SEED

_BATCH = 256
_TAIL = 1e-6


class QmcSampler(Sampler):
    """`scramble`: false = the plain sequence, whatever the seed."""

    name = "qmc"
    ahead = _BATCH

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        options = Options(f"sampler {self.name}", task.options)
        self._is_scrambled = options.is_on("scramble", True)
        options.finish()
        need(self.name, ("scipy",))
        self._seed = Random(task.seed).getrandbits(32)
        self._width = max(1, _width(task.space))
        self._first, self._rows = 0, self._batch(0)

    def ask(self, index: int) -> Proposal:
        place = index - 1
        if not self._first <= place < self._first + _BATCH:
            self._first = place - place % _BATCH
            self._rows = self._batch(self._first)
        shares = iter(self._rows[place - self._first])
        return Proposal(_params(self.task.space, shares, Random(f"{self.task.seed}/{index}")))

    def tell(self, result: Result) -> None:
        """Nothing is learned from it."""

    def _batch(self, first: int) -> list[list[float]]:
        engine = import_module("scipy.stats.qmc").Sobol(self._width, scramble=self._is_scrambled, rng=self._seed)
        if first:
            engine.fast_forward(first)
        rows: list[list[float]] = engine.random(_BATCH).tolist()
        return rows


def _width(space: Space) -> int:
    """How many coordinates it takes, those of all branches included."""
    return sum(_width_of(parameter) for parameter in space.values())


def _width_of(parameter: Parameter) -> int:
    if parameter == ANY_SEED:
        return 0
    if not isinstance(parameter, Choice):
        return 1
    return 1 + sum(_width(value.space) for value in parameter.values if isinstance(value, Branch))


def _params(space: Space, shares: Iterator[float], random: Random) -> Params:
    return {name: _value(parameter, shares, random) for name, parameter in space.items()}


def _value(parameter: Parameter, shares: Iterator[float], random: Random) -> object:
    if parameter == ANY_SEED:
        return draw_one(parameter, random)
    share = next(shares)
    if isinstance(parameter, Choice):
        return _chosen(parameter, share, shares, random)
    if isinstance(parameter, Normal):
        return settled(parameter, placed(parameter, min(max(share, _TAIL), 1 - _TAIL)))
    if parameter.whole and not parameter.log:
        return settled(parameter, int(parameter.low) + int(share * (parameter.high - parameter.low + 1)))
    return settled(parameter, placed(parameter, share))


def _chosen(parameter: Choice, share: float, shares: Iterator[float], random: Random) -> object:
    """Coordinates of branches that are not chosen are passed over, so that each keeps its own."""
    chosen = parameter.values[int(share * len(parameter.values))]
    found = chosen
    for value in parameter.values:
        if isinstance(value, Branch):
            params = _params(value.space, shares, random)
            if value is chosen:
                found = {NAME: value.name, **params}
    return found
