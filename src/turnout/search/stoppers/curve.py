"""Stop a run whose learning curve leads nowhere near the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turnout.plugin.sampler import Outcome
from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.fitting import extrapolate
from turnout.search.stoppers.judging import Judging, best_of


class CurveStopper(Judging):
    """Ends a run whose last value, as its curve so far foretells it, is worse than the best last value of the runs that
    completed, by more than a share of that. A run that had such a value already goes on.

    - `epochs`: the step at which runs are complete; it has to be given
    - `threshold`: how near to the best it has to come, from 0 to 1 (0.95: within 5 % of it)
    - `gap`: only every so many values it is looked at (1)
    - `start`: no run is stopped before it has told this step (6)
    - `min_runs`: so many others must have completed (1)

    It is NNI's Curvefitting: `epoch_num` is `epochs`, `threshold` and `gap` are the same, and `start_step` n, which
    counts values, is `start` n - 1 where steps are counted from 0. Here it also minimises.
    """

    name = "curve"
    first_start = 6
    first_min_runs = 1

    def set_up(self, options: Options) -> None:
        self._epochs = options.needed_whole("epochs", "the step at which a run is complete", least=2)
        self._threshold = options.number("threshold", 0.95, least=0.0, most=1.0)
        self._gap = options.whole("gap", 1, least=1)
        self._best = math.inf
        self._completed = 0

    def conclude(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        costs = self.costs(points)
        if outcome is Outcome.COMPLETED and costs:
            self._completed += 1
            self._best = min(self._best, costs[-1].value)

    def knows_enough(self) -> bool:
        return self._completed >= max(1, self.min_runs)

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        costs = self.costs(points)
        costs = costs[: len(costs) // self._gap * self._gap]
        if not costs or costs[-1].step >= self._epochs:
            return None
        bar = self._best + (1.0 - self._threshold) * abs(self._best)
        if best_of(costs) <= bar:
            return None
        first = costs[0].step
        end = extrapolate([(step - first + 1.0, cost) for step, cost in costs], self._epochs - first + 1.0)
        if end is None or end <= bar:
            return None
        foretold = self.shown(min(end, best_of(costs)), digits=3)
        return f"it is heading for {foretold} at step {self._epochs}, too far from the best, {self.shown(self._best)}"
