"""The worker processes of a crew: as many as there should be, however many end; and the ear that hears them."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterable, Sequence

from turnout.futures.engine import Needs
from turnout.futures.errors import WorkerDied
from turnout.futures.local import causes, roster
from turnout.futures.local.devices import Devices
from turnout.futures.local.environment import environment
from turnout.futures.local.member import Member

_MOST_FALSE_STARTS = 3  # of workers that end by themselves before they are ready
_MOST_KILLED_STARTS = 100  # of those that somebody kills


class Staff:
    """Of `size` workers with `usual` needs, fewer where calls need more. Together they may have `buffers` large buffers
    of ours. Once it is `broken`, no more are started. Not for several threads, but for `ring`."""

    def __init__(self, size: int, usual: Needs, *, per_gpu: int, buffers: int) -> None:
        self.members: list[Member] = []
        self.broken: Exception | None = None
        self._size = size
        self._usual = usual
        self._buffers = buffers
        self._false_starts = 0
        self._devices = Devices(usual.gpus * size, per_gpu)
        try:
            self._bell, self._rope = os.pipe()
        except OSError:
            self._devices.close()
            raise
        os.set_blocking(self._rope, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

    def close(self) -> None:
        """Ends them all. They are still known."""
        for member in self.members:
            member.kill() if member.calls else member.dismiss()
        for member in self.members:
            member.reap()
        self._devices.close()
        self._selector.close()
        os.close(self._bell)
        os.close(self._rope)

    def resize(self, size: int) -> None:
        """For the next time that it is adjusted."""
        self._devices.resize(self._usual.gpus * size)
        self._size = size

    def check(self, needs: Needs) -> None:
        """InvalidInput when no worker here can have them."""
        roster.check(needs, roster.capacity(self._size, self._usual))

    def lacks(self, needs: Iterable[Needs]) -> bool:
        """Whether there is no worker for some of them, also none that is on its way."""
        there = {member.needs for member in self.members if not member.is_leaving}
        return any(each not in there for each in needs)

    def adjust(self, waiting: Sequence[roster.Waiting]) -> None:
        """Starts and ends workers, as is needed for what waits."""
        seats = [roster.Seat(each.needs, not each.calls, each.is_leaving) for each in self.members]
        plan = roster.plan(self._size, self._usual, seats, waiting)
        for place in plan.end:
            self.members[place].dismiss()
        try:
            for needs in plan.start:
                self._add(needs)
        except OSError as error:  # there are too many processes or open files; who is there goes on
            if not self.members:
                self.broken = WorkerDied(f"workers cannot be started: {error}")
        if plan.start:
            self.ring()

    def bury(self, member: Member) -> int:
        """It has ended; with which code."""
        self._selector.unregister(member.line)
        self._selector.unregister(member.ended)
        self.members.remove(member)
        code = member.reap()
        self._devices.give_back(member.gpus)
        if not member.is_ready and not member.is_leaving:
            self._false_starts += 1
            if self._false_starts >= (_MOST_FALSE_STARTS if code >= 0 else _MOST_KILLED_STARTS):
                self.broken = WorkerDied(f"workers cannot be started: {causes.describe(code, 0)}")
        return code

    def greet(self) -> None:
        """One has started."""
        self._false_starts = 0

    def send(self, member: Member) -> None:
        """What it is to be told, as much as it takes; the rest when it is heard that it takes more."""
        events = selectors.EVENT_READ if member.send() else selectors.EVENT_READ | selectors.EVENT_WRITE
        if events != member.events:
            member.events = events
            self._selector.modify(member.line, events, member)

    def listen(self, seconds: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Until something is heard, of members or the bell; the key of the latter has no data."""
        return self._selector.select(seconds)

    def ring(self) -> None:
        """Whoever listens is to look."""
        try:
            os.write(self._rope, b"!")
        except BlockingIOError:
            pass  # it rings already

    def hush(self) -> None:
        os.read(self._bell, 1024)

    def _add(self, needs: Needs) -> None:
        gpus = self._devices.take(needs.gpus)
        most = max(4, self._buffers // max(1, self._size))
        try:
            member = Member(needs, gpus, environment(needs, gpus), most, causes.ooms())
        except BaseException:
            self._devices.give_back(gpus)
            raise
        self.members.append(member)
        self._selector.register(member.line, member.events, member)
        self._selector.register(member.ended, selectors.EVENT_READ, member)
