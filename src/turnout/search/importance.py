"""How much each parameter of a search has to do with what came out.

A forest of regression trees learns to tell, from the parameters, the place that a run has in the order of all results;
each tree is then asked about runs that it did not learn from, once with a parameter as it was and once with that of
another run. What it is wrong by then, and was not before, is what the parameter matters, alone and together with
others. Because only the order counts, a few results that are far off do not, and neither does the scale of a parameter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from turnout.plugin.space import Choice, Parameter
from turnout.search.flattening import is_numeric

#: With fewer results nothing can be said.
FEWEST = 8

_TREES = 64
_DEPTH = 8
_BINS = 64
_MOST_PER_TREE = 2000
_SMALLEST_LEAF = 3

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Importance:
    """`shares` by parameter, the largest first: they add up to 1, or all are 0 if nothing is explained. `explained` is
    how much of the order of the results the parameters tell, from 0 to 1: if that is little, so are the shares worth.
    """

    shares: dict[str, float]
    explained: float


def measure(
    parameters: Mapping[str, Parameter], tried: Sequence[Mapping[str, object]], values: Sequence[float], seed: int = 0
) -> Importance:
    """Of parameters of one level (`turnout.search.flattening`), of which a run need not have all. With the same `seed`
    the answer is the same. ValueError for fewer than `FEWEST` results."""
    if len(values) < FEWEST:
        raise ValueError(f"{len(values)} results are too few")
    columns = [_column(parameter, [params.get(name) for params in tried]) for name, parameter in parameters.items()]
    is_ordered = [is_numeric(parameter) for parameter in parameters.values()]
    codes = np.stack(columns, axis=1) if columns else np.zeros((len(values), 0), dtype=np.int64)
    losses, explained = _judge(codes, is_ordered, _ranks(values), np.random.default_rng(seed))
    total = float(losses.sum())
    shares = losses / total if total > 0 and explained > 0 else np.zeros(len(columns))
    found = dict(zip(parameters, map(float, shares), strict=True))
    return Importance(dict(sorted(found.items(), key=lambda each: -each[1])), explained)


def _column(parameter: Parameter, values: Sequence[object]) -> _Ints:
    """Small numbers for the values, in their order if they have one; 0 = it was not there."""
    if isinstance(parameter, Choice) and not is_numeric(parameter):
        places = {json.dumps(each, sort_keys=True): place for place, each in enumerate(parameter.values, 1)}
        return np.array([places.get(json.dumps(value, sort_keys=True), 0) for value in values], dtype=np.int64)
    numbers = np.array([value if isinstance(value, (int, float)) else np.nan for value in values], dtype=np.float64)
    there = numbers[~np.isnan(numbers)]
    edges = np.unique(there)
    if len(edges) >= _BINS:
        edges = np.unique(np.quantile(there, np.linspace(0, 1, _BINS)))
    codes = np.searchsorted(edges, numbers, side="right")
    return np.where(np.isnan(numbers), 0, codes).astype(np.int64)


def _ranks(values: Sequence[float]) -> _Floats:
    """From 0 to 1; equal values have equal ones."""
    _, inverse, counts = np.unique(np.array(values, dtype=np.float64), return_inverse=True, return_counts=True)
    middles = np.cumsum(counts) - counts / 2
    return np.asarray(middles[inverse] / len(values), dtype=np.float64)


def _judge(
    codes: _Ints, is_ordered: Sequence[bool], ranks: _Floats, random: np.random.Generator
) -> tuple[_Floats, float]:
    """What is lost without each parameter, and how much is explained with all of them."""
    runs, parameters = codes.shape
    losses = np.zeros(parameters)
    told, times = np.zeros(runs), np.zeros(runs)
    for _ in range(_TREES):
        learnt = random.integers(0, runs, min(runs, _MOST_PER_TREE))
        others = random.permutation(np.setdiff1d(np.arange(runs), learnt))[:_MOST_PER_TREE]
        if not len(others):
            continue
        ordered = _ordered(codes, is_ordered, learnt, ranks)
        tree = _Tree(ordered[learnt], ranks[learnt])
        asked = ordered[others]
        answers = tree.tell(asked)
        told[others] += answers
        times[others] += 1
        before = float(((answers - ranks[others]) ** 2).mean())
        for place in range(parameters):
            changed = asked.copy()
            changed[:, place] = random.permutation(asked[:, place])
            losses[place] += float(((tree.tell(changed) - ranks[others]) ** 2).mean()) - before
    known = times > 0
    if not known.any() or not (spread := float(ranks[known].var())):
        return np.zeros(parameters), 0.0
    wrong = float(((told[known] / times[known] - ranks[known]) ** 2).mean())
    return np.maximum(losses, 0.0), max(0.0, 1 - wrong / spread)


def _ordered(codes: _Ints, is_ordered: Sequence[bool], learnt: _Ints, ranks: _Floats) -> _Ints:
    """Values without an order get one: by what came out with them, as far as the tree may know."""
    found = codes.copy()
    for place, has_order in enumerate(is_ordered):
        if has_order:
            continue
        mine = codes[learnt, place]
        size = int(codes[:, place].max()) + 1
        counts = np.bincount(mine, minlength=size)
        sums = np.bincount(mine, weights=ranks[learnt], minlength=size)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), ranks[learnt].mean())
        order = np.empty(size, dtype=np.int64)
        order[np.argsort(means, kind="stable")] = np.arange(size)
        found[:, place] = order[codes[:, place]]
    return found


class _Tree:
    """Node 1 is the root; those below node n are 2n and 2n + 1. All nodes of one depth are split at once."""

    def __init__(self, codes: _Ints, ranks: _Floats) -> None:
        size = 2 << _DEPTH
        self._parameter = np.full(size, -1)
        self._cut = np.zeros(size, dtype=np.int64)
        self._value = np.full(size, ranks.mean())
        nodes = np.ones(len(ranks), dtype=np.int64)
        for depth in range(_DEPTH):
            if not self._split(codes, ranks, nodes, 1 << depth):
                break
            nodes = self._descend(codes, nodes)
            counts = np.bincount(nodes, minlength=size)
            sums = np.bincount(nodes, weights=ranks, minlength=size)
            self._value = np.where(counts > 0, sums / np.maximum(counts, 1), self._value)

    def tell(self, codes: _Ints) -> _Floats:
        nodes = np.ones(len(codes), dtype=np.int64)
        for _ in range(_DEPTH):
            nodes = self._descend(codes, nodes)
        return np.asarray(self._value[nodes], dtype=np.float64)

    def _descend(self, codes: _Ints, nodes: _Ints) -> _Ints:
        parameters = self._parameter[nodes]
        is_right = codes[np.arange(len(nodes)), parameters] > self._cut[nodes]
        return np.where(parameters < 0, nodes, 2 * nodes + is_right).astype(np.int64)

    def _split(self, codes: _Ints, ranks: _Floats, nodes: _Ints, first: int) -> bool:
        """Where it helps most, the nodes from `first` to twice that. False = none can be split any more."""
        is_here = nodes >= first
        here = nodes[is_here] - first
        best = np.full(first, 1e-12)
        for parameter in range(codes.shape[1]):
            gains, cuts = _gains(here, codes[is_here, parameter], ranks[is_here], first)
            is_better = gains > best
            best = np.where(is_better, gains, best)
            self._parameter[first : 2 * first][is_better] = parameter
            self._cut[first : 2 * first][is_better] = cuts[is_better]
        return bool((self._parameter[first : 2 * first] >= 0).any())


def _gains(here: _Ints, codes: _Ints, ranks: _Floats, count: int) -> tuple[_Floats, _Ints]:
    """For each of `count` nodes: how much is explained by cutting it where that is most, and where."""
    size = int(codes.max(initial=0)) + 1
    keys = here * size + codes
    counts = np.bincount(keys, minlength=count * size).reshape(count, size).cumsum(axis=1)
    sums = np.bincount(keys, weights=ranks, minlength=count * size).reshape(count, size).cumsum(axis=1)
    left, right = counts, counts[:, -1:] - counts
    is_fair = (left >= _SMALLEST_LEAF) & (right >= _SMALLEST_LEAF)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = sums**2 / left + (sums[:, -1:] - sums) ** 2 / right - sums[:, -1:] ** 2 / counts[:, -1:]
    explained = np.where(is_fair, explained, 0.0)
    cuts = explained.argmax(axis=1)
    return explained[np.arange(count), cuts], cuts
