"""What this agent holds, and what its node has left to give. For the main thread."""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional

from turnout.agent.attempt import Attempt, Phase, Ref
from turnout.agent.gpus import Gpus
from turnout.agent.rundir import RunDir
from turnout.wire.messages import Grant, JobOrder, NodeFacts, Poll, Welcome
from turnout.wire.protocol import PROTOCOL

_SHORT_RUN = 0.1  # seconds: while runs are shorter, a few more are kept at hand
_FIRST_GUESS, _LONG_RUN = 0.5, 10.0
_LEARNS = 0.4  # how much the last run says of the next
_KIN_KEPT = 100
_AHEAD_MOST = 16  # times max-runs
_ORDERS_KEPT = 16  # of jobs without attempts, in case more of them come
_OVER_KEPT = 4096
_NOBODY = Welcome(node="", lease=0.0, idle=0.0, max_runs=0, fenced=[])


def clock() -> float:
    """The agent's clock for its lease: it goes on while the machine sleeps, where that can be had."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def poll_numbers(least: int) -> Iterator[int]:
    """For our polls: above those of every earlier process of this agent, one of which may still be on its way. `least`
    is for a process that begins anew: where it is, though the clock was set back."""
    return itertools.count(max(time.time_ns(), least))


class Holding:
    """`numbers` are for the polls."""

    def __init__(self, facts: NodeFacts, numbers: Iterator[int], gpus: Optional[Gpus] = None) -> None:
        self.facts = facts
        self.gpus = gpus if gpus is not None else Gpus(facts.gpu_facts)
        self.is_gpu_wanted = False
        """the hub has runs that wait for GPUs of this node"""
        self.welcome = _NOBODY
        self.is_contained = False
        """who started us has put us into the runs' container"""
        self.is_fixed = False
        """the hub speaks another protocol, and beginning anew did not change ours"""
        self.is_leaving = False
        self.is_preparing = False
        self.trouble = ""
        self.is_trouble_told = False
        self.is_going = False
        """there was nothing to do for so long that it leaves, once the hub knows that"""
        self.is_going_told = False
        self.outcome: Dict[str, Any] = {}
        """how the run that ended last did"""
        self.is_yielding = False
        """whose node this is wants it back: nothing more may begin here"""
        self.until: Optional[float] = None
        """when (by `clock`) nothing more may begin here, for the node has to be given back"""
        self.forgotten: List[int] = []
        """the orders of jobs that were dropped since this was last emptied"""
        self.attempts: Dict[Ref, Attempt] = {}
        self.kept: List[RunDir] = []
        """what ran here and stays, and this agent with it, until the hub lets go of it"""
        self._over: "OrderedDict[Ref, None]" = OrderedDict()
        self._orders: Dict[int, JobOrder] = {}
        self._uses: Dict[int, int] = {}
        self._unused: "OrderedDict[int, None]" = OrderedDict()
        self._typical: Dict[int, float] = {}
        self._of_kin: "OrderedDict[int, float]" = OrderedDict()
        self._numbers = numbers
        self._renewed = clock()

    def add(self, attempt: Attempt) -> None:
        self.attempts[attempt.ref] = attempt
        order = attempt.grant.order
        self._uses[order] = self._uses.get(order, 0) + 1
        self._unused.pop(order, None)

    def keep(self, attempt: Attempt) -> bool:
        """Its directory stays, also for an agent that comes after this one. False when that cannot be written down."""
        try:
            attempt.directory.mark_kept()
        except OSError:
            return False
        self.kept.append(attempt.directory)
        return True

    def drop(self, attempt: Attempt) -> None:
        """Not held any more, so the next message to the hub does not name it. Idempotent."""
        if self.attempts.pop(attempt.ref, None) is None:
            return
        self._over[attempt.ref] = None
        if len(self._over) > _OVER_KEPT:
            self._over.popitem(last=False)
        self.gpus.free(attempt)
        order = attempt.grant.order
        self._uses[order] -= 1
        if not self._uses[order]:
            del self._uses[order]
            self._unused[order] = None
            while len(self._unused) > _ORDERS_KEPT:
                oldest, _ = self._unused.popitem(last=False)
                self._orders.pop(oldest, None)
                self._typical.pop(oldest, None)
                self.forgotten.append(oldest)

    def knows(self, ref: Ref) -> bool:
        """Whether it is held, or was a moment ago: an answer that was long on its way may still speak of it."""
        return ref in self.attempts or ref in self._over

    def learn(self, job: JobOrder) -> None:
        self._orders[job.job] = replace(job, container=None) if self.is_contained else job
        if job.job not in self._uses:
            self._unused[job.job] = None

    def order_of(self, grant: Grant) -> Optional[JobOrder]:
        return self._orders.get(grant.order)

    def renew(self, sent: float) -> None:
        """A request sent then (by `clock`) was answered: the hub counts our lease from no earlier moment."""
        self._renewed = max(self._renewed, sent)

    def has_lease(self) -> bool:
        return clock() - self._renewed < self.welcome.lease

    def saw(self, grant: Grant, seconds: float) -> None:
        """This took so long. What is not known of a job yet is guessed from others of its pipeline."""
        order = self.order_of(grant)
        kin = order.kin if order is not None else 0
        guess = self._of_kin.get(kin, _FIRST_GUESS)
        typical = self._typical.get(grant.order, guess)
        self._typical[grant.order] = typical + _LEARNS * (seconds - typical)
        if kin:
            self._of_kin[kin] = guess + _LEARNS * (seconds - guess)
            self._of_kin.move_to_end(kin)
            if len(self._of_kin) > _KIN_KEPT:
                self._of_kin.popitem(last=False)

    def expect_long_runs(self, grant: Grant) -> None:
        """Others like this."""
        self._typical[grant.order] = _LONG_RUN

    def has_runs_at_hand(self) -> bool:
        """Whether more runs may be started at once than will end in a moment."""
        ready = sum(attempt.phase is Phase.READY and attempt.confirmed for attempt in self.attempts.values())
        return ready > 2 * self.welcome.max_runs

    def has_news(self, now: float) -> bool:
        """Whether there is more to tell than that runs have begun."""
        return any(
            (attempt.phase >= Phase.RUNNING and attempt.look_at <= now)
            or any(fact.kind != "running" for fact in attempt.facts)
            for attempt in self.attempts.values()
        )

    def poll(self) -> Poll:
        """What we say of ourselves now."""
        held = self.attempts.values()
        open_ones = [attempt for attempt in held if attempt.phase < Phase.ENDED]
        slots = self.welcome.max_runs - sum(attempt.grant.slots for attempt in open_ones)
        known = [*self._typical.items(), *self._of_kin.items()]
        short = {job: typical for job, typical in known if typical < _SHORT_RUN and self._is_open}
        rooms = self.gpus.rooms(attempt for attempt in open_ones if attempt.phase < Phase.STARTED)
        return Poll(
            slots=slots if self._is_open else 0.0,
            memory=self.facts.memory - sum(attempt.grant.memory for attempt in open_ones),
            gpus=sum(room.runs > 0 for room in rooms),
            held=[attempt.ref for attempt in held],
            jobs=list(self._orders),
            wait=self.welcome.lease / 3,
            number=self.next_number(),
            ahead=self._ahead(short),
            short=list(short),
            kept=bool(self.kept),
            preparing=self.is_preparing,
            trouble=self.trouble,
            gpu_rooms=rooms,
            gpus_wanted=self.is_gpu_wanted,
            seconds=self.seconds_left(),
            leaving=self.is_going,
            protocol=PROTOCOL,
        )

    @property
    def _is_open(self) -> bool:
        """Whether anything new may begin here."""
        is_closing = self.is_leaving or self.is_yielding or self.is_going
        return not (is_closing or self.is_preparing or self.trouble)

    def seconds_left(self) -> Optional[float]:
        """How long a run that begins now may take; None = as long as it likes."""
        return None if self.until is None else max(0.0, self.until - clock())

    def next_number(self) -> int:
        """Greater than that of all we said before."""
        return next(self._numbers)

    def _ahead(self, short: Dict[int, float]) -> float:
        """So many slots' worth of such runs end in the time that we want to bridge. A whole number: with a
        fraction of a slot left over, the hub would look through its queue for a run that is small enough."""
        if not short:
            return 0.0
        longest = max(short.values())
        return float(int(self.welcome.max_runs * min(_AHEAD_MOST, _SHORT_RUN / max(longest, 1e-4))))
