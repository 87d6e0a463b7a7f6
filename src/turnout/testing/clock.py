"""Time that passes only when told to. What is due happens in order, at once, and the same way every time."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

#: Where wall time begins: any fixed moment will do.
EPOCH = 1_700_000_000.0


class Timer:
    """Something due later. `cancel` at any time; it then never happens."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class VirtualClock:
    """Stands where the ``time`` module does (`time`, `monotonic`) and holds what is due.

    Of two things due at the same moment, the one that was asked for first happens first.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Timer]] = []
        self._count = 0

    def time(self) -> float:
        return EPOCH + self.now

    def monotonic(self) -> float:
        return self.now

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Has `action` happen in so many seconds; what is due in the past is due now."""
        timer = Timer(action)
        self._count += 1
        heappush(self._due, (self.now + max(seconds, 0.0), self._count, timer))
        return timer

    def step(self) -> bool:
        """Goes to the next thing due and does it; False when there is none."""
        while self._due:
            when, _, timer = heappop(self._due)
            if timer.action is not None:
                self.now = when
                timer.action()
                return True
        return False

    def run_until(self, when: float) -> None:
        """Does all that is due up to `when`, then stands there."""
        while self._due and self._due[0][0] <= when:
            due, _, timer = heappop(self._due)
            if timer.action is not None:
                self.now = due
                timer.action()
        self.now = max(self.now, when)
