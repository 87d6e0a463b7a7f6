"""Stop a run that does worse than most others did at the same step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate

from turnout.plugin.sampler import Outcome
from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.judging import TELLING, Judging, best_of
from turnout.search.stoppers.ranking import Ranking, at_marks, mark_below


class _Compared(Judging):
    """The best value of a run so far, against what the runs that ended had at that step; the last 1,000 of them."""

    first_min_runs = 3
    percent = 50.0

    def set_up(self, options: Options) -> None:
        self._others = Ranking()

    def conclude(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        if outcome in TELLING:
            self._others.put(run, at_marks(self.costs(points), self.sum_up))

    def knows_enough(self) -> bool:
        return True  # they are counted at each step

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        costs = self.costs(points)
        others = self._others.at(mark_below(costs[-1].step)) if costs else ()
        if not costs or len(others) < max(1, self.min_runs):
            return None
        best, bar = best_of(costs), _percentile(others, self.percent)
        if best <= bar:
            return None
        return f"{self.shown(best)} is worse than {self.named(self.shown(bar))} at step {costs[-1].step}"

    @abstractmethod
    def sum_up(self, costs: Sequence[Point]) -> Iterator[float]:
        """What counts of a run that ended, after each of these."""

    @abstractmethod
    def named(self, bar: str) -> str:
        """What a run has to reach, for people."""


def _percentile(ranked: Sequence[float], percent: float) -> float:
    place = (len(ranked) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


class MedianStopper(_Compared):
    """Ends a run whose best value so far is worse than the median, over the runs that ended (completed or stopped), of
    the average of their values up to that step.

    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: so many of the others must have come to that step (3)

    It is NNI's Medianstop with `min_runs` 1. There, `start_step` n counts values: it is `start` n - 1 where steps are
    counted from 0; what was stopped does not count; and of an even number, the worse one in the middle is the median.
    """

    name = "median"

    def sum_up(self, costs: Sequence[Point]) -> Iterator[float]:
        sums = accumulate(point.value for point in costs)
        return (total / count for count, total in enumerate(sums, 1))

    def named(self, bar: str) -> str:
        return f"the median {bar}"


class PercentileStopper(_Compared):
    """Ends a run whose best value so far is not among the best `percentile` percent of what the runs that ended
    (completed or stopped) had reached by that step.

    - `percentile`: above 0 and below 100 (25: only the best quarter goes on)
    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: so many of the others must have come to that step (3)
    """

    name = "percentile"

    def set_up(self, options: Options) -> None:
        super().set_up(options)
        self.percent = options.number("percentile", 25.0)
        if not 0 < self.percent < 100:
            raise options.wrong("percentile", "above 0 and below 100")

    def sum_up(self, costs: Sequence[Point]) -> Iterator[float]:
        return accumulate((point.value for point in costs), min)

    def named(self, bar: str) -> str:
        return f"{bar}, which the best {self.percent:g} % reach,"
