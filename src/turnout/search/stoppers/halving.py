"""Successive halving without waiting: at each rung, only the best of those that came so far go on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from turnout.plugin.sampler import Outcome
from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.judging import TELLING, Judging
from turnout.search.stoppers.ranking import Ranking

_LAST_STEP = 1 << 62


class Ladder:
    """Rungs at the steps `first`, `first * eta`, `first * eta**2` ... below `top`, and what runs had on them."""

    def __init__(self, first: int, eta: int, top: int = _LAST_STEP) -> None:
        self._eta = eta
        self._rungs = list(_powers(first, eta, top))
        self._ranking = Ranking()

    def put(self, run: int, costs: Sequence[Point]) -> None:
        """What is known of this run now. Idempotent."""
        self._ranking.put(run, self.reached(costs))

    def reached(self, costs: Sequence[Point]) -> dict[int, float]:
        """The best cost that a run had when it came to each rung."""
        reached: dict[int, float] = {}
        rungs = iter(self._rungs)
        rung = next(rungs, None)
        for (step, _), best in zip(costs, accumulate((cost for _, cost in costs), min), strict=True):
            while rung is not None and step >= rung:
                reached[rung] = best
                rung = next(rungs, None)
        return reached

    def drop(self, run: int) -> None:
        self._ranking.drop(run)

    def place(self, rung: int, cost: float) -> tuple[int, int, int]:
        """How many had a better cost there, how many came there, and how many of them go on."""
        column = self._ranking.at(rung)
        came = max(1, len(column))  # it may be one that is not remembered any more
        return bisect_left(column, cost), came, max(1, came // self._eta)


def _powers(first: int, eta: int, top: int) -> Iterator[int]:
    rung = first
    while rung < top:
        yield rung
        rung *= eta


class Climbing(Judging):
    """Runs on ladders, each on one."""

    first_min_runs = 1

    def ladder_of(self, run: int) -> Ladder:
        raise NotImplementedError

    def learn(self, run: int, points: Sequence[Point]) -> None:
        self.ladder_of(run).put(run, self.costs(points))

    def conclude(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        if outcome in TELLING:
            self.learn(run, points)
        else:
            self.ladder_of(run).drop(run)

    def knows_enough(self) -> bool:
        return True  # they are counted on each rung

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        ladder = self.ladder_of(run)
        reached = ladder.reached(self.costs(points))
        if not reached:
            return None
        rung = max(reached)
        better, came, go_on = ladder.place(rung, reached[rung])
        if came < self.min_runs or better < go_on:
            return None
        best = f"among the best {go_on}" if go_on > 1 else "the best"
        return f"{self.shown(reached[rung])} is not {best} of {came} runs at step {rung}"


class HalvingStopper(Climbing):
    """Ends a run that is not among the best 1 / `eta` of those that came to the same rung, whether they go on or are
    over: asynchronous successive halving. The rungs are at the steps `min_resource`, `min_resource * eta`,
    `min_resource * eta**2` ...; on the first one that tells a step at or beyond a rung, its best value so far counts.
    Between rungs it is judged by the last one, again and again, as others come there.

    - `min_resource`: the first rung (1)
    - `eta`: what part goes on, and how far it is to the next rung (3)
    - `max_resource`: the step at which runs are complete: there is no rung from there on (none)
    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: so many, the run included, must have come to the rung (1)
    """

    name = "halving"

    def set_up(self, options: Options) -> None:
        first = options.whole("min_resource", 1, least=1)
        eta = options.whole("eta", 3, least=2)
        top = options.some_whole("max_resource", least=1)
        if top is not None and top <= first:
            raise options.wrong("max_resource", f"above min_resource, {first}")
        self._ladder = Ladder(first, eta, top or _LAST_STEP)

    def ladder_of(self, run: int) -> Ladder:
        return self._ladder
