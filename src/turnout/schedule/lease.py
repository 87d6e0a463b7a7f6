"""Who still has the right to its attempts. Times are seconds of one clock that the caller reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class LeaseTable:
    """One lease per agent; a renewal covers all its runs.

    An agent is *silent* once its lease ran out and *lost* a margin later, when its runs may go elsewhere. The table
    lives in memory: after a start of the hub, or when the hub itself was stopped or asleep, every lease begins anew in
    full.
    """

    seconds: float
    margin: float
    _until: dict[int, float] = field(default_factory=dict)
    _looked: float | None = None
    _was_late: bool = False

    def renew(self, agent: int, now: float) -> None:
        """From `now`, unless a later moment counts already: who read the clock may have been stopped since."""
        self._until[agent] = max(now + self.seconds, self._until.get(agent, -math.inf))

    def drop(self, agent: int) -> None:
        self._until.pop(agent, None)

    def holds(self, agent: int) -> bool:
        return agent in self._until

    def is_silent(self, agent: int, now: float) -> bool:
        return now >= self._until.get(agent, now)

    def is_overdue(self, agent: int, now: float) -> bool:
        """Whether it should have renewed its lease by now: that is done at a third of it."""
        return now >= self._until.get(agent, now) - self.seconds / 3

    def lost(self, now: float) -> list[int]:
        """The agents that are lost at `now`; call it every so often.

        A call that comes later than half a lease after the last means that we were not there to hear anyone, and so
        does the first: nobody is lost and every lease begins anew. When the next comes as late again, it is we who are
        slow: of such a time, half a lease counts.
        """
        late = 0.0 if self._looked is None else now - self._looked - self.seconds / 2
        begins_anew = self._looked is None or (late > 0 and not self._was_late)
        self._looked, self._was_late = now, late > 0
        full = now + self.seconds
        if begins_anew:
            self._until = dict.fromkeys(self._until, full)
        elif late > 0:
            self._until = {agent: min(until + late, full) for agent, until in self._until.items()}
        return [agent for agent, until in self._until.items() if now >= until + self.margin]
