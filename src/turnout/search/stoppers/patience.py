"""Stop a run that does not get better any more."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.judging import Judging


class PatienceStopper(Judging):
    """Ends a run that told `steps` values, one after the other, of which none was better than the best before them. A
    value that is no number is not better.

    - `steps`: how many values it may take (10)
    - `delta`: by how much a value has to be better to count as such (0: by anything)
    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: nor before so many other runs have ended, completed or stopped (0)
    """

    name = "patience"

    def set_up(self, options: Options) -> None:
        self._steps = options.whole("steps", 10, least=1)
        self._delta = options.number("delta", 0.0, least=0.0)

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        best, since, in_vain = math.inf, None, 0
        for step, value in points:
            cost = self._sign * value
            if math.isfinite(cost) and (since is None or cost < best - self._delta):
                best, since, in_vain = cost, step, 0
            else:
                in_vain += 1
        if in_vain < self._steps:
            return None
        if since is None:
            return f"none of its {in_vain} values is a number"
        return f"it is no better than {self.shown(best)} since step {since}, {in_vain} values ago"
