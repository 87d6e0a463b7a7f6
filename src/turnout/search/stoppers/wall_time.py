"""Stop a run that takes too long."""

from __future__ import annotations

from collections.abc import Sequence

from turnout.plugin.stopper import Point
from turnout.search.options import Options
from turnout.search.stoppers.judging import Judging


class WallTimeStopper(Judging):
    """Ends a run that has been running for longer than `seconds`, whether it tells anything or not. What it measured so
    far counts, as with every stopper; that is the difference to a limit of the job, beyond which a run fails.

    - `seconds`: how long it may take; has to be given
    - `start`: no run is stopped before it has told this step (0: nor need it tell any)
    - `min_runs`: nor before so many other runs have ended, completed or stopped (0)
    """

    name = "wall_time"
    every = 1.0

    def set_up(self, options: Options) -> None:
        limit = options.some_number("seconds")
        if limit is None:
            raise options.missing("seconds", "how long a run may take")
        if limit <= 0:
            raise options.wrong("seconds", "above 0")
        self._limit = limit

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        if seconds <= self._limit:
            return None
        return f"it has been running for more than {self._limit:g} s"
