"""Which waiting runs a node gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turnout.wire.gpus import GpuRoom, pick, reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A queued run, in queue order. `concurrent`: at most so many runs of its job at once on one node."""

    run: int
    job: int
    cpus: int | None = None
    memory: int | None = None
    gpus: int | None = None
    gpu_memory: int | None = None
    concurrent: int | None = None
    copies: int = 1
    """how many may be taken: 1, or the children a parent has left"""
    seconds: float | None = None
    """its time limit"""
    kin: int = 0
    """the pipeline it is of"""
    like: int = 0
    """the job whose order is its job's, too; 0 = it has its own"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a node has free now, each of its GPUs too, and how many runs of each job it has."""

    max_runs: int
    slots: float
    memory: int
    gpus: Sequence[GpuRoom]
    running: Mapping[int, int]
    ahead: float = 0.0
    """slots beyond those, for runs that go by one of `short`: the next is then at hand when one ends"""
    short: frozenset[int] = frozenset()
    known: frozenset[int] = frozenset()
    """orders of which it may be known there how long runs take; runs of others are as short as those of their kin"""
    seconds: float | None = None
    """how long a run may take there; None = as long as it likes"""

    def expects_short(self, waiting: Waiting) -> bool:
        order = waiting.like or waiting.job
        return order in self.short or (waiting.kin in self.short and order not in self.known)


@dataclass(frozen=True, slots=True)
class Placed:
    run: int
    slots: float


#: Sums of fractions of slots must not lose the last run to rounding.
_EPSILON = 1e-9


def slots_of(waiting: Waiting, max_runs: int) -> float:
    """A run's share of the node's max-runs: its cpus, or one; less when its job asks for more at once than max-runs."""
    if waiting.cpus is not None:
        return float(waiting.cpus)
    if waiting.concurrent is not None:
        return min(1.0, max_runs / max(1, waiting.concurrent))
    return 1.0


def _most(concurrent: int, room: Room, ahead: float) -> float:
    """How many runs of a job a node may have that may do so many at once. Where those take all its slots, that is
    enough of a limit: what it takes ahead finds no slot before one of them has ended."""
    return math.inf if ahead and concurrent >= room.max_runs else concurrent


def choose(
    queue: Iterable[Waiting], room: Room, *, most: int, passed: Callable[[Waiting], None] = lambda waiting: None
) -> list[Placed]:
    """The first runs of the queue that fit, in order, at most `most`; a run that does not fit is passed over.

    `passed` hears of each that is: a long queue, read bit by bit, can then leave out the others of its job.
    """
    placed: list[Placed] = []
    slots, memory, gpus, running = room.slots + _EPSILON, room.memory, room.gpus, dict(room.running)
    for waiting in queue:
        if slots + room.ahead <= 2 * _EPSILON or (room.seconds is not None and room.seconds <= 0):
            break
        need = slots_of(waiting, room.max_runs)
        ahead = room.ahead if room.expects_short(waiting) else 0.0
        for _ in range(waiting.copies):
            if len(placed) == most:
                return placed
            here = running.get(waiting.job, 0)
            if (
                need > slots + ahead
                or need > room.max_runs + _EPSILON  # it would wait there for ever, however much is offered ahead
                or (waiting.memory or 0) > memory
                or (waiting.gpus and pick(gpus, waiting.gpus, waiting.gpu_memory or 0) is None)
                or (room.seconds is not None and (waiting.seconds or 0.0) > room.seconds)
                or (waiting.concurrent is not None and here >= _most(waiting.concurrent, room, ahead))
            ):
                passed(waiting)
                break
            slots, memory = slots - need, memory - (waiting.memory or 0)
            if waiting.gpus:
                gpus = reserve(gpus, waiting.gpus, waiting.gpu_memory or 0)
            running[waiting.job] = here + 1
            placed.append(Placed(waiting.run, need))
    return placed
