"""What all stoppers here have in common: two options, and which way is better."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from turnout.plugin.sampler import Goal, Outcome
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.search.options import Options

#: Runs that ended like this have shown what they are worth; what others measured does not count.
TELLING = frozenset({Outcome.COMPLETED, Outcome.STOPPED})


class Judging(Stopper):
    """Options of all of them:

    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: nor before so many other runs have ended, completed or stopped; those that compare runs with each
      other say for themselves what they count

    A *cost* is a value with the sign that makes the smaller one the better.
    """

    first_start: ClassVar[int] = 0
    first_min_runs: ClassVar[int] = 0

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        options = Options(f"stopper {self.name}", watch.options)
        self._sign = 1.0 if watch.objective.goal is Goal.MINIMIZE else -1.0
        self._over = 0
        self.start = options.whole("start", self.first_start, least=0)
        self.min_runs = options.whole("min_runs", self.first_min_runs, least=0)
        self.set_up(options)
        options.finish()

    def set_up(self, options: Options) -> None:
        """Reads its own options."""

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        points = in_order(points)
        self.learn(run, points)
        is_early = self.start > 0 and (not points or points[-1].step < self.start)
        return None if is_early or not self.knows_enough() else self.verdict(run, points, seconds)

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        self._over += outcome in TELLING
        self.conclude(run, in_order(points), outcome)

    def learn(self, run: int, points: Sequence[Point]) -> None:
        """What a run that goes on has told, also where it is too early to judge it. Idempotent."""

    def conclude(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        """What a run that is over has told."""

    def knows_enough(self) -> bool:
        return self._over >= self.min_runs

    @abstractmethod
    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        """As `judge`; `points` are in order of their steps, each step once."""

    def costs(self, points: Sequence[Point]) -> list[Point]:
        """The finite ones, as costs."""
        sign = self._sign
        return [Point(step, sign * value) for step, value in points if math.isfinite(value)]

    def shown(self, cost: float, digits: int = 6) -> str:
        """The value that has this cost, for people."""
        return f"{self._sign * cost + 0.0:.{digits}g}"  # + 0.0: never "-0"


def in_order(points: Sequence[Point]) -> Sequence[Point]:
    """By step, and of each only the last: as the contract promises them, and whatever came instead."""
    if all(points[place].step < points[place + 1].step for place in range(len(points) - 1)):
        return points
    return [Point(step, value) for step, value in sorted({point.step: point.value for point in points}.items())]


def best_of(costs: Sequence[Point]) -> float:
    """Infinite where there are none."""
    return min((point.value for point in costs), default=math.inf)
