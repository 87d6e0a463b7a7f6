"""How runs stand at certain steps, so that one of them is compared with the others without a look at their curves."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence

from turnout.plugin.stopper import Point

#: So many runs are remembered, those with the highest numbers.
KEPT = 1000
_EXACT_BITS = 6
_EXACT = 1 << _EXACT_BITS
_NONE: array[float] = array("d")


class Ranking:
    """Costs of runs at marks (steps). What it knows does not depend on the order in which it was told; its size has a
    bound, whatever the number of runs."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._rows: dict[int, tuple[array[int], array[float]]] = {}
        self._sorted: dict[int, array[float]] = {}

    def put(self, run: int, costs: Mapping[int, float]) -> None:
        """All that is known of this run: its cost at each mark. Idempotent."""
        row = array("q", costs), array("d", costs.values())
        if self._rows.get(run) == row:
            return
        self.drop(run)
        self._rows[run] = row
        for mark, cost in zip(*row, strict=True):
            insort(self._sorted.setdefault(mark, array("d")), cost)
        if len(self._rows) > self._kept:
            self.drop(min(self._rows))

    def drop(self, run: int) -> None:
        for mark, cost in zip(*self._rows.pop(run, ((), ())), strict=True):
            column = self._sorted[mark]
            del column[bisect_left(column, cost)]
            if not column:
                del self._sorted[mark]

    def at(self, mark: int) -> Sequence[float]:
        """What runs had there, the best first."""
        return self._sorted.get(mark, _NONE)


def mark_below(step: int) -> int:
    """The last mark up to a step. Small steps are marks themselves, larger ones about every thirtieth part of them;
    what comes before step 0 counts as there."""
    step = max(0, step)
    coarse = max(0, step.bit_length() - _EXACT_BITS)
    return step >> coarse << coarse


def _mark_after(mark: int) -> int:
    return mark + (1 << max(0, mark.bit_length() - _EXACT_BITS))


def at_marks(costs: Sequence[Point], sum_up: Callable[[Sequence[Point]], Iterator[float]]) -> dict[int, float]:
    """What `sum_up` makes of the costs up to each mark, between the first and the last of them."""
    found: dict[int, float] = {}
    mark = mark_below(costs[0].step) if costs else 0
    for place, so_far in enumerate(sum_up(costs)):
        until = costs[place + 1].step if place + 1 < len(costs) else costs[place].step + 1
        while mark < until:
            found[mark] = so_far
            mark = _mark_after(mark)
    return found
