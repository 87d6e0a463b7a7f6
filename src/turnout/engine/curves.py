"""What a run of a search has told of its first objective."""

from __future__ import annotations

from dataclasses import dataclass, field

from turnout.plugin.stopper import Point
from turnout.store.metrics import Series


@dataclass(slots=True)
class Curve:
    """All that was read of it, in the order in which it came. `judged`: how much of that a stopper has judged."""

    series: Series = field(default_factory=Series)
    judged: int = 0
    _since: float | None = None
    _first: int = 0

    def begin(self, since: float | None) -> None:
        """Its current attempt began then; None = it is the first. What came before is of another attempt, and does not
        count: by the times that nodes note, for the store does not keep whose each point is."""
        if since != self._since:
            times = self.series.times
            found = (index for index, time in enumerate(times) if since is None or time >= since)
            self._since, self._first = since, next(found, len(times))

    @property
    def is_new(self) -> bool:
        """Whether its current attempt has told something that was not judged."""
        return len(self.series) > max(self.judged, self._first)

    def points(self) -> list[Point]:
        """Of its current attempt; of each step, only the last."""
        told = zip(self.series.steps[self._first :], self.series.values[self._first :], strict=True)
        return [Point(*each) for each in sorted(dict(told).items())]
