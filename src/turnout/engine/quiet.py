"""Queues that are known to be empty: agents that wait at one need not be looked for with each poll of theirs."""

from __future__ import annotations

from collections.abc import Iterable

#: What another hub on the same database puts into a queue is found after so many seconds.
_BELIEVED = 60.0
Stamp = tuple[int, int]
#: Stands for all queues together.
ALL = "*"


class Quiet:
    """From any thread. Who puts a run into a queue has to `stir` after the commit, with the topics of its transaction:
    ``queue:NAME``, or ``queue`` for all."""

    def __init__(self) -> None:
        self._stirs = 0
        self._by_queue: dict[str, int] = {}
        self._empty: dict[str, tuple[Stamp, float]] = {}

    def stir(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic == "queue":
                self._stirs += 1
                self._empty.clear()  # none of it counts any more, and queues of a job's own come and go
            elif topic.startswith("queue:"):
                for name in (topic.removeprefix("queue:"), ALL):
                    self._by_queue[name] = self._by_queue.get(name, 0) + 1

    def stamp(self, queue: str) -> Stamp:
        """For `found_empty`, from before it was looked at: whatever comes meanwhile makes that worth nothing."""
        return self._stirs, self._by_queue.get(queue, 0)

    def found_empty(self, queue: str, stamp: Stamp, now: float) -> None:
        self._empty[queue] = stamp, now + _BELIEVED

    def is_empty(self, queue: str, now: float) -> bool:
        """Whether it was found so, and nothing came since."""
        stamp, until = self._empty.get(queue, ((-1, -1), 0.0))
        if stamp == self.stamp(queue) and now < until:
            return True
        self._empty.pop(queue, None)
        return False
