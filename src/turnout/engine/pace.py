"""How often a site is asked, and how much it is given at once: what the administrators of a cluster look at."""

from __future__ import annotations

from dataclasses import dataclass, field

#: While nothing is awaited, looks come further and further apart, up to so many times the interval.
_SLOWEST = 12.0
_GROWTH = 1.5


@dataclass(slots=True)
class Looks:
    """When to look at a place next. Times are seconds of one clock that the caller reads."""

    interval: float
    slowest: float = _SLOWEST
    growth: float = _GROWTH
    _next: float = 0.0
    _factor: float = 1.0

    def is_due(self, now: float) -> bool:
        return now >= self._next

    def looked(self, now: float, *, is_awaited: bool) -> None:
        """`is_awaited`: something will change there, so the next look comes after one interval."""
        self._factor = 1.0 if is_awaited else min(self._factor * self.growth, self.slowest)
        self._next = now + self.interval * self._factor

    def hurry(self, now: float, *, at_once: bool = False) -> None:
        """Something may have changed: the next look comes after one interval at the latest, or `at_once`."""
        self._factor = 1.0
        self._next = min(self._next, now if at_once else now + self.interval)


@dataclass(slots=True)
class Quota:
    """At most `rate` a minute, None = any number: what is not used is saved up for a minute."""

    rate: float | None
    _left: float = field(init=False)
    _since: float | None = None

    def __post_init__(self) -> None:
        self._left = self.rate or 0.0

    def allows(self, now: float) -> int | None:
        """How many may be submitted now; None = any number."""
        if self.rate is None:
            return None
        if self._since is not None:
            self._left = min(self.rate, self._left + (now - self._since) * self.rate / 60.0)
        self._since = now
        return int(self._left)

    def use(self, count: int) -> None:
        self._left -= count
