"""Which blobs somebody sent or asked for lately: a collection at once leaves these alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable


def uptime() -> float:
    """Seconds by a clock that nobody sets, and that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Recent:
    """Remembers each digest for at least `seconds`, and at most twice as long. The caller has a lock."""

    def __init__(self, seconds: float, clock: Callable[[], float] = uptime) -> None:
        self._seconds = seconds
        self._clock = clock
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()
        self._since = clock()

    def note(self, digests: Iterable[bytes]) -> None:
        self._turn()
        self._new.update(digests)

    def __contains__(self, digest: bytes) -> bool:
        self._turn()
        return digest in self._new or digest in self._old

    def _turn(self) -> None:
        passed = self._clock() - self._since
        if passed >= self._seconds:
            self._old = self._new if passed < 2 * self._seconds else set()
            self._new = set()
            self._since = self._clock()
