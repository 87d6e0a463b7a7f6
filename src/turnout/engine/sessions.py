"""What the hub knows of its agents now, in memory: leases, room, and what they were told but did not confirm.

All of it can be rebuilt from the store and the agents' next messages; nothing here needs to survive.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from turnout.schedule.lease import LeaseTable
from turnout.schedule.place import Room
from turnout.wire.gpus import GpuRoom, free_gpus, reserve
from turnout.wire.messages import Attempt, Grant, Hello, Poll, Stop
from turnout.wire.protocol import PROTOCOL


@dataclass(slots=True)
class Session:
    """One agent. `held` maps its attempts to their jobs; `unconfirmed` are grants it has not named yet; `dropped` are
    attempts that it named and does not have any more, without a word about them."""

    agent: int
    target: str
    node: str
    max_runs: int
    held: dict[Attempt, int] = field(default_factory=dict)
    unconfirmed: dict[Attempt, Grant] = field(default_factory=dict)
    stops: dict[Attempt, Stop] = field(default_factory=dict)
    orders_known: set[int] = field(default_factory=set)
    slots: float = 0.0
    memory: int = 0
    gpus: Sequence[GpuRoom] = ()
    wants_gpus: bool = False
    """a run in its queue waits for GPUs there"""
    heard: bool = False
    taking: bool = False
    leaving: bool = False
    newest_poll: int = 0
    ahead: float = 0.0
    short: frozenset[int] = frozenset()
    named: set[Attempt] = field(default_factory=set)
    dropped: set[Attempt] = field(default_factory=set)
    queue: str = ""
    """whose runs it takes; its target's, unless it is a job's own"""
    preparing: bool = False
    trouble: str = ""
    """why the agent takes nothing, as it says itself"""
    kept: bool = False
    """it stays, with what ran there, until it is released"""
    departing: bool = False
    """it had nothing to do for long, and leaves"""
    waits_at: int | None = 0
    """the number of the poll with which it waits, or waited last, for orders; None = it hung up instead"""
    protocol: int = PROTOCOL
    seconds: float | None = None
    """how long a run that begins there now may take, if it has to be given back at some time"""

    def __post_init__(self) -> None:
        self.queue = self.queue or self.target

    @property
    def is_closed(self) -> bool:
        """It gets nothing more, and would not understand it."""
        return self.leaving or self.protocol != PROTOCOL

    def greet(self, hello: Hello) -> None:
        """The agent began, or begins anew: it has what it names. Polls of before do not count any more. One that speaks
        an older protocol leaves when it has nothing, unless it is kept."""
        self.newest_poll, self.protocol = hello.number, hello.protocol
        self.leaving = self.leaving or (self.protocol != PROTOCOL and not self.kept)
        self._name(hello.held)

    def hear(self, poll: Poll) -> None:
        """Takes what a message says about the agent itself, unless it was overtaken by a newer one."""
        self.heard = True
        if poll.number < self.newest_poll:
            return
        self.newest_poll = poll.number
        self._name(poll.held)
        self.leaving = self.leaving or (poll.kept and not self.kept)  # it was released while it could not hear that
        self.orders_known = set(poll.jobs)  # it forgets orders it does not need; one on its way to it may go twice
        self.slots, self.memory = poll.slots, poll.memory
        self.gpus = poll.gpu_rooms if poll.gpu_rooms is not None else free_gpus(poll.gpus)
        self.ahead, self.short = poll.ahead, frozenset(poll.short)
        self.preparing, self.trouble = poll.preparing, poll.trouble
        self.seconds, self.departing = poll.seconds, poll.leaving

    def wait(self, poll: int) -> None:
        """It waits with this poll, unless that was overtaken by a newer one."""
        if self.waits_at is None or self.waits_at < poll:
            self.waits_at = poll

    def hang_up(self, poll: int) -> None:
        """The connection with this poll broke. The agent may have begun another before that was seen."""
        if self.waits_at == poll:
            self.waits_at = None

    def room(self) -> Room:
        """What may still be granted: what the agent said, less what is on its way to it."""
        running: dict[int, int] = {}
        for job in self.held.values():
            running[job] = running.get(job, 0) + 1
        coming = self.unconfirmed.values()
        gpus = self.gpus
        for grant in coming:
            if grant.gpus:
                gpus = reserve(gpus, grant.gpus, grant.gpu_memory)
        return Room(
            max_runs=self.max_runs, slots=self.slots - sum(grant.slots for grant in coming),
            memory=self.memory - sum(grant.memory for grant in coming),
            gpus=gpus, running=running,
            ahead=self.ahead, short=self.short, known=frozenset(self.orders_known), seconds=self.seconds,
        )  # fmt: skip

    def grant(self, grants: Iterable[Grant]) -> None:
        for grant in grants:
            attempt = (grant.run, grant.attempt)
            self.held[attempt] = grant.job
            self.unconfirmed[attempt] = grant
            self.kept = self.kept or grant.keep

    def release(self, attempts: Iterable[Attempt]) -> None:
        for attempt in attempts:
            self.held.pop(attempt, None)
            self.unconfirmed.pop(attempt, None)
            self.stops.pop(attempt, None)
            self.dropped.discard(attempt)

    def _name(self, held: list[Attempt]) -> None:
        """This is what the agent has. What ended was released before the agent heard that it may let go of it."""
        for attempt in held:
            self.unconfirmed.pop(attempt, None)
        before, self.named = self.named, set(held)
        if not before <= self.named or self.dropped:
            self.dropped = {attempt for attempt in (before | self.dropped) - self.named if attempt in self.held}


class Sessions:
    """All agents, and their leases. Every method may be called from any thread."""

    def __init__(self, leases: LeaseTable) -> None:
        self.lock = threading.Lock()
        self._leases = leases
        self._by_agent: dict[int, Session] = {}

    @property
    def lease_seconds(self) -> float:
        return self._leases.seconds

    def get(self, agent: int) -> Session | None:
        return self._by_agent.get(agent)

    def all(self) -> list[Session]:
        with self.lock:
            return list(self._by_agent.values())

    def open(self, session: Session, now: float, *, is_leased: bool = True) -> Session:
        """Begins (or begins again) with an agent: a full lease; or none, while a site has it in a queue of its own."""
        with self.lock:
            known = self._by_agent.get(session.agent)
            if known is not None:  # it is newer than what `session` was made from
                session.kept = known.kept or any(grant.keep for grant in session.unconfirmed.values())
                session.leaving = session.leaving or known.leaving
            self._by_agent[session.agent] = session
            if is_leased:
                self._leases.renew(session.agent, now)
            return session

    def dropped(self) -> dict[int, set[Attempt]]:
        """Of each agent the attempts it let go of without a word, until they are released."""
        with self.lock:
            return {session.agent: set(session.dropped) for session in self._by_agent.values() if session.dropped}

    def release(self, agent: int, attempts: Iterable[Attempt]) -> None:
        """They are not this agent's any more, if it is still there."""
        with self.lock:
            session = self._by_agent.get(agent)
            if session is not None:
                session.release(attempts)

    def let_go(self, agent: int) -> None:
        """It leaves, with what it was kept for, as soon as it has nothing to do."""
        with self.lock:
            session = self._by_agent.get(agent)
            if session is not None:
                session.kept, session.leaving = False, True

    def renew(self, agent: int, now: float) -> None:
        with self.lock:
            if self._leases.holds(agent):
                self._leases.renew(agent, now)

    def drop(self, agent: int) -> None:
        with self.lock:
            self._by_agent.pop(agent, None)
            self._leases.drop(agent)

    def lost(self, now: float) -> list[int]:
        with self.lock:
            return self._leases.lost(now)

    def is_overdue(self, agent: int, now: float) -> bool:
        with self.lock:
            return self._leases.is_overdue(agent, now)

    def is_silent(self, agent: int, now: float) -> bool:
        with self.lock:
            return self._leases.is_silent(agent, now)
