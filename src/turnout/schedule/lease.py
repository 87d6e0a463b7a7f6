"""Who still has the right to its attempts. Times are seconds of one clock that the caller reads."""

from __future__ import annotations

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

    def renew(self, agent: int, now: float) -> None:
        self._until[agent] = now + self.seconds

    def drop(self, agent: int) -> None:
        self._until.pop(agent, None)

    def holds(self, agent: int) -> bool:
        return agent in self._until

    def is_silent(self, agent: int, now: float) -> bool:
        return now >= self._until.get(agent, now)

    def lost(self, now: float) -> list[int]:
        """The agents that are lost at `now`; call it every so often.

        A call that comes later than half a lease after the last means that we were not there to hear anyone: nobody is
        lost and every lease begins anew.
        """
        slept = self._looked is not None and now - self._looked > self.seconds / 2
        self._looked = now
        if slept:
            self._until = dict.fromkeys(self._until, now + self.seconds)
            return []
        return [agent for agent, until in self._until.items() if now >= until + self.margin]
