"""What all actors of a simulation share: time, chance, the record of what happened, and what a process is."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from turnout.testing.clock import Timer, VirtualClock

#: All other times are in proportion to it, as they are in a real hub and agent.
LEASE = 3.0


#: When, who, what, and about what.
Happening = tuple[float, str, str, tuple[object, ...]]


class Killed(BaseException):
    """Raised inside a process that dies in the middle of what it does; unwinds to where its doing began."""


class World:
    """One simulation. Every choice comes from `rng`: the same seed is the same story."""

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.verbose = verbose
        """whether messages are in the trace, too"""
        self.rng = random.Random(seed)
        self.clock = VirtualClock()
        self.trace: list[Happening] = []
        self.seen: set[str] = set()
        self.faulty = True
        """whether things still go wrong; when they no longer do, all must come to an end"""
        self.problems: list[BaseException] = []

    @property
    def now(self) -> float:
        return self.clock.now

    def note(self, who: str, what: str, *about: object) -> None:
        self.trace.append((self.clock.now, who, what, about))

    def sometimes(self, what: str) -> None:
        """This happened. Over many seeds, everything that can happen should."""
        self.seen.add(what)

    def problem(self, problem: BaseException) -> None:
        """Something that must not happen did. It ends the simulation."""
        self.problems.append(problem)

    def chance(self, probability: float) -> bool:
        """Whether something goes wrong now; never, once faults are over."""
        return self.faulty and probability > 0 and self.rng.random() < probability


class Process:
    """Something that runs on a machine: it can be stopped and continued, killed and begun again.

    While it is stopped, what is due for it waits. What was due for an earlier life of it never happens.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = False
        self.stopped = False
        self.life = 0
        self.pace = 1.0
        """how fast its clock runs"""
        self._frozen = 0
        self._late: list[tuple[int, Callable[[], None]]] = []

    def begin(self) -> None:
        self.alive, self.stopped = True, False
        self.life += 1

    def kill(self) -> None:
        self.alive, self.stopped = False, False
        self.life += 1
        self._late.clear()

    def stop(self) -> None:
        self.stopped = self.alive

    def freeze(self) -> None:
        """Stops, and never goes on."""
        self.stop()
        self._frozen = self.life

    def go_on(self) -> None:
        """Continues: what came in while it was stopped happens now, in order."""
        if self._frozen == self.life:
            return
        self.stopped = False
        late, self._late = self._late, []
        for life, action in late:
            self.do(life, action)

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """By its own clock, and only if it is still the same process."""
        return self.world.clock.after(seconds * self.pace, partial(self.do, self.life, action))

    def do(self, life: int, action: Callable[[], None]) -> None:
        if life != self.life or not self.alive:
            return
        if self.stopped:
            self._late.append((life, action))
            return
        try:
            action()
        except Killed:
            pass
