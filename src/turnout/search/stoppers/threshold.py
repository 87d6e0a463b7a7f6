"""Stop a run whose values are out of bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.judging import Judging


class ThresholdStopper(Judging):
    """Ends a run as soon as one of its values, from step `start` on, is out of bounds, whatever the goal of the search.

    - `lower`, `upper`: the bounds; a value that equals one is inside (none)
    - `finite`: a value that is infinite, or no number at all, is out of bounds, too (true)
    - `start`: values before this step may be what they like (0)
    - `min_runs`: nothing is stopped before so many other runs have ended, completed or stopped (0)
    """

    name = "threshold"

    def set_up(self, options: Options) -> None:
        self._lower = options.some_number("lower")
        self._upper = options.some_number("upper")
        self._finite = options.is_on("finite", True)
        if self._lower is not None and self._upper is not None and self._lower > self._upper:
            raise options.wrong("lower", f"at most upper, {self._upper:g}")
        if self._lower is None and self._upper is None and not self._finite:
            raise options.missing("upper", "without upper, lower and finite it would never stop a run")

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        for step, value in points:
            why = self._objection(value) if not self.start or step >= self.start else None
            if why:
                return f"{why} at step {step}"
        return None

    def _objection(self, value: float) -> str | None:
        if not math.isfinite(value) and self._finite:
            return "its value is not a number" if math.isnan(value) else "its value is infinite"
        if self._lower is not None and value < self._lower:
            return f"{value:.6g} is below {self._lower:.6g}"
        if self._upper is not None and value > self._upper:
            return f"{value:.6g} is above {self._upper:.6g}"
        return None
