"""How many agents a place needs, for which queue, and of what size."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from turnout.model.spec import Resources
from turnout.schedule.walltime import usable, wall_for
from turnout.wire.gpus import GpuRoom, pick, reserve


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """What is there for runs. Of memory and GPUs, None = nobody knows, and that is taken for enough."""

    slots: float = 0.0
    memory: int | None = None
    gpus: Sequence[GpuRoom] | None = None

    def take(self, need: Resources, runs: int) -> tuple[int, Free]:
        """How many of so many runs that need this find room, and what is left then."""
        share, memory = need.cpus or 1, need.memory or 0
        taken = min(runs, int(max(0.0, self.slots) // share))
        if memory and self.memory is not None:
            taken = min(taken, max(0, self.memory) // memory)
        gpus = self.gpus
        if need.gpus and gpus is not None:
            taken, gpus = _take_gpus(gpus, need, taken)
        left = None if self.memory is None else self.memory - taken * memory
        return taken, Free(slots=self.slots - taken * share, memory=left, gpus=gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Runs of one job that wait in a queue; each needs `need`. The machines of the seats in `unfit` are known to have
    less than that."""

    queue: str
    runs: int
    need: Resources = field(default_factory=Resources)
    unfit: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """An agent that is there or was asked for. `free` is what it has left, None while it is not heard; `size` is what
    it has, or will be given; `is_pending`: the site has not begun it."""

    queue: str
    number: int = 0
    seat: str = ""
    size: Resources = field(default_factory=Resources)
    free: Free | None = None
    is_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An agent to be started. `number` tells it from others of its place."""

    queue: str
    number: int
    seat: str = ""
    need: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a place allows. `most`: agents at once; `most_pending`: of those, that the site has not begun; None = any
    number. `usual` is what an agent is given if no run needs more, `max_runs` how many runs it then takes at once.
    Where there are `seats`, each has one agent for the place's own queue; else it has one, or if it `is_elastic`,
    several. If it `has_wall_time`, an agent is ended after the time it was given, and takes nothing more for the last
    part of it, `drain`. So many runs may share a GPU: `runs_per_gpu`."""

    is_elastic: bool = False
    seats: Sequence[str] = ()
    most: int | None = None
    most_pending: int | None = None
    usual: Resources = field(default_factory=Resources)
    max_runs: int | None = None
    has_wall_time: bool = False
    drain: float | None = None
    runs_per_gpu: int = 1

    def room(self, given: Resources) -> Resources:
        """The largest run that an agent can take which is given this."""
        if given.seconds is None or not self.has_wall_time:
            return given
        return replace(given, seconds=usable(given.seconds, self.drain))

    def asked_for(self, need: Resources) -> Resources:
        """What an agent has to be given for a run that needs this."""
        if need.seconds is not None and self.has_wall_time:
            usual = self.room(self.usual).seconds
            is_usual = usual is not None and need.seconds <= usual
            need = replace(need, seconds=None if is_usual else wall_for(need.seconds, self.drain))
        return merged(self.usual, need)

    def free(self, size: Resources, seat: str = "") -> Free:
        """What an agent of that size has which does nothing yet. It has no more GPUs than it was given; a machine that
        has a seat gives all of its own, however many those are."""
        slots = float(self.max_runs or size.cpus or 1)
        if seat:
            return Free(slots=slots)
        return Free(slots=slots, memory=size.memory, gpus=[GpuRoom(runs=self.runs_per_gpu)] * (size.gpus or 0))

    def can_serve(self, need: Resources) -> bool:
        """False for a run that takes more slots than any agent there ever has."""
        return self.max_runs is None or (need.cpus or 1) <= self.max_runs


def openings(demands: Iterable[Demand], posts: Sequence[Post], site: Site) -> list[Opening]:
    """The agents to be started now, for the first demands first.

    A queue of its own (of one node of a job) gets one agent. For the others, runs that those who are there, or on their
    way, will take start nothing.
    """
    staff = _Staff(posts, site)
    for demand in demands:
        if "#" in demand.queue or not (site.is_elastic or site.seats):
            if not staff.serves(demand.queue):
                staff.open(demand)
            continue
        left = staff.seat_runs(demand, demand.runs)
        while left > 0 and staff.open(demand):
            left = staff.seat_runs(demand, left - 1)
    return staff.opened


def merged(usual: Resources, need: Resources) -> Resources:
    """The larger of both, of each."""
    return Resources(
        cpus=_most(usual.cpus, need.cpus), memory=_most(usual.memory, need.memory), gpus=_most(usual.gpus, need.gpus),
        seconds=_most(usual.seconds, need.seconds),
    )  # fmt: skip


@dataclass(slots=True)
class _Chair:
    """An agent, there or to come, with what is not spoken for."""

    queue: str
    seat: str
    size: Resources
    free: Free

    def take(self, demand: Demand, runs: int) -> int:
        """Takes so many of these runs as it can; gives how many."""
        if self.queue != demand.queue or self.seat in demand.unfit or not _fits(demand.need, self.size):
            return 0
        taken, self.free = self.free.take(demand.need, runs)
        return taken


class _Staff:
    def __init__(self, posts: Sequence[Post], site: Site) -> None:
        self._site = site
        self._queues = {post.queue for post in posts}
        self._numbers = {post.number for post in posts}
        self._pending = sum(post.is_pending for post in posts)
        self._chairs = [
            _Chair(post.queue, post.seat, post.size, post.free or site.free(post.size, post.seat)) for post in posts
        ]
        self.opened: list[Opening] = []

    def serves(self, queue: str) -> bool:
        return queue in self._queues

    def seat_runs(self, demand: Demand, runs: int) -> int:
        """Has the agents of its queue take so many of these runs as they can; gives how many are left."""
        for chair in self._chairs:
            runs -= chair.take(demand, runs)
        return runs

    def open(self, demand: Demand) -> bool:
        """One more, which takes the first run of the demand. False when the site allows no more, or has no seat left
        for such a run."""
        if not self._is_allowed(demand.need):
            return False
        seat = self._free_seat(demand)
        if seat is None:
            return False
        size = self._site.asked_for(demand.need)
        number = next(each for each in itertools.count(1) if each not in self._numbers)
        self._numbers.add(number)
        self._queues.add(demand.queue)
        self._pending += 1
        free = self._site.free(size, seat)
        _, free = replace(free, slots=max(free.slots, demand.need.cpus or 1)).take(demand.need, 1)
        self._chairs.append(_Chair(demand.queue, seat, self._site.room(size), free))
        self.opened.append(Opening(queue=demand.queue, number=number, seat=seat, need=size))
        return True

    def _is_allowed(self, need: Resources) -> bool:
        site = self._site
        if site.is_elastic and not site.can_serve(need):
            return False
        if site.most is not None and len(self._chairs) >= site.most:
            return False
        return site.most_pending is None or self._pending < site.most_pending

    def _free_seat(self, demand: Demand) -> str | None:
        """The seat with the fewest agents, and none of this queue; "" where there are no seats."""
        if not self._site.seats:
            return ""
        taken = {chair.seat for chair in self._chairs if chair.queue == demand.queue}
        free = [seat for seat in self._site.seats if seat not in taken and seat not in demand.unfit]
        return min(free, key=lambda seat: sum(chair.seat == seat for chair in self._chairs), default=None)


def _take_gpus(gpus: Sequence[GpuRoom], need: Resources, runs: int) -> tuple[int, Sequence[GpuRoom]]:
    """How many of so many runs find their GPUs among these, and what is left of them then."""
    for taken in range(runs):
        if pick(gpus, need.gpus or 0, need.gpu_memory or 0) is None:
            return taken, gpus
        gpus = reserve(gpus, need.gpus or 0, need.gpu_memory or 0)
    return runs, gpus


def _fits(need: Resources, size: Resources) -> bool:
    """Whether an agent of that size ever has the processors and the time; what nobody knows of a size is enough."""
    pairs = ((need.cpus, size.cpus), (need.seconds, size.seconds))
    return all(wanted is None or given is None or wanted <= given for wanted, given in pairs)


def surplus(posts: Sequence[Post], waiting: Collection[str]) -> list[Post]:
    """Agents that the site has not begun and nobody waits for any more."""
    return [post for post in posts if post.is_pending and post.queue not in waiting]


def _most(*values: float | int | None) -> int | None:
    given = [value for value in values if value is not None]
    return max(given) if given else None  # type: ignore[return-value]
