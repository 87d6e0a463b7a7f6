"""What the kit asks of whoever knows the place behind a provider: to look at it from behind, and to break it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest import SkipTest

from turnout.plugin.provider import Launch


class Lab:
    """The place behind a provider, as its tests see it. Override what your place lets you do: a check that needs what
    is missing is skipped, and says so.

    `patience` is how many seconds the place may take for what it does by itself: to start a launch, to end one, to tell
    of it. `many` is how many launches it is asked for at once. `shortest_time` is the least wall time that the place
    takes, in seconds; 0 = it is not tried.
    """

    patience: float = 20.0
    many: int = 1000
    shortest_time: float = 0.0

    def calls(self) -> int:
        """How many calls of the native system (commands, requests) there were so far."""
        raise SkipTest("the lab does not count native calls")

    def lost_reply(self) -> AbstractContextManager[None]:
        """While it is open, the native system takes launches, but its answer does not arrive."""
        raise SkipTest("the lab cannot lose the reply of a submit")

    def garbled(self, status: str) -> AbstractContextManager[None]:
        """While it is open, the native system answers every question for states with this text."""
        raise SkipTest("the lab cannot answer garbage")

    def throttled(self) -> AbstractContextManager[None]:
        """While it is open, the native system says that it is asked too often."""
        raise SkipTest("the lab cannot throttle")

    def login_refused(self) -> AbstractContextManager[None]:
        """While it is open, the native system lets nobody in before a person has logged in."""
        raise SkipTest("the lab cannot refuse a login")

    def unreachable(self) -> AbstractContextManager[None]:
        """While it is open, the native system does not answer."""
        raise SkipTest("the lab cannot cut the place off")

    def purge(self) -> None:
        """Has the native system forget all launches that ended."""
        raise SkipTest("the lab cannot purge native records")

    def read_log(self, launch: Launch) -> bytes:
        """What the launch printed, as it is kept over there. Not asked for on this machine."""
        raise SkipTest("the lab cannot read what a launch printed")

    def close(self) -> None:
        """All checks were made."""
