"""Supervisors that another launcher made: ours would tell us when they end, these have to be watched."""

from __future__ import annotations

import os
import select
import time
from typing import Dict, List, Optional

from turnout.agent import tree
from turnout.agent.attempt import Attempt, Ref

_LOOK_SECONDS = 1.0


class Watch:
    """For the main thread. `poller` gets a descriptor for each; where there is none, it has to be asked for."""

    def __init__(self, poller: "select.poll") -> None:
        self._poller = poller
        self._by_fd: Dict[int, Attempt] = {}
        self._without: Dict[Ref, Attempt] = {}
        self._next_look = 0.0

    def add(self, attempt: Attempt, supervisor: tree.ProcessId) -> None:
        attempt.supervisor = supervisor
        fd = tree.open_pidfd(supervisor)
        if fd is None:  # no pidfds here, or it has just ended
            self._without[attempt.ref] = attempt
            self._next_look = 0.0
            return
        attempt.pidfd = fd
        self._by_fd[fd] = attempt
        self._poller.register(fd, select.POLLIN)

    def remove(self, attempt: Attempt) -> None:
        """Idempotent."""
        self._without.pop(attempt.ref, None)
        if attempt.pidfd is not None:
            self._poller.unregister(attempt.pidfd)
            del self._by_fd[attempt.pidfd]
            os.close(attempt.pidfd)
            attempt.pidfd = None

    def ended(self, fd: int) -> Optional[Attempt]:
        """Whose supervisor it is that this readable descriptor speaks of."""
        return self._by_fd.get(fd)

    def found_ended(self) -> List[Attempt]:
        """Those without a descriptor whose supervisor is gone; looked at once a second."""
        now = time.monotonic()
        if not self._without or now < self._next_look:
            return []
        self._next_look = now + _LOOK_SECONDS
        gone = []
        for attempt in self._without.values():
            assert attempt.supervisor is not None
            if not tree.is_alive(attempt.supervisor):
                gone.append(attempt)
        return gone
