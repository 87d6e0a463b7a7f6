"""Our side of the conversation with the hub: what happened is told, one report at a time, until it is answered."""

from __future__ import annotations

import time
from typing import List, Optional, Union

from turnout._version import __version__
from turnout.agent.attempt import Attempt, Phase, Ref
from turnout.agent.carrier import Carrier
from turnout.agent.draft import Draft, Told
from turnout.agent.ender import Ender
from turnout.agent.holding import Holding, clock
from turnout.agent.hub import HubLine, Refused
from turnout.agent.intake import Intake
from turnout.agent.leavings import Leavings
from turnout.agent.log import say
from turnout.agent.poller import RETRY_LEAST
from turnout.wire.http import Unreachable
from turnout.wire.messages import Hello, Orders, Poll, Welcome
from turnout.wire.protocol import PROTOCOL

_REFUSALS = 3
_PACE = 0.03  # seconds between reports while short runs follow each other
_DENIED = (401, 403)
_CONFLICT = 409


class Denied(Exception):
    """The hub knows this agent no more: nothing here may go on in its name."""


class Teller:
    """For the main thread; requests are made by `reporter`, which has `line` for itself. Methods may raise Denied.

    `heard` is when the hub last answered, `poll` what the next long poll says.
    """

    def __init__(
        self, holding: Holding, intake: Intake, ender: Ender, leavings: Leavings, *, reporter: Carrier, line: HubLine
    ) -> None:
        self.heard = time.monotonic()
        self.poll = holding.poll()
        self.is_welcome = False
        self._holding = holding
        self._ender = ender
        self._leavings = leavings
        self._intake = intake
        self._reporter = reporter
        self._line = line
        self._is_busy = False
        self._must_greet = True
        self._must_report = False
        self._retry_at = 0.0
        self._reported = 0.0
        self._pause = RETRY_LEAST
        self._begin_with: Optional[Ref] = None
        self._refusals = 0
        self._alone = 0
        """so many reports shall speak of one attempt each, to find the one that the hub refuses"""

    def seconds_left(self, most: float) -> float:
        """Until there may be something to tell; `most` at most."""
        if self._is_busy:
            return most
        now = time.monotonic()
        if now < self._retry_at:
            return min(most, self._retry_at - now)
        if self._may_wait(now):
            return min(most, self._reported + _PACE - now)
        looks = [attempt.look_at for attempt in self._holding.attempts.values() if attempt.phase >= Phase.RUNNING]
        return min(most, max(0.0, min(looks) - now)) if looks else most

    def tell(self) -> None:
        """Hands the reporter what there is to tell, if it is free."""
        now = time.monotonic()
        if self._is_busy or now < self._retry_at:
            return
        if self._must_greet:
            self._greet()
        elif (self._holding.attempts or self._must_report) and not self._may_wait(now):
            self._report(now)

    def speak(self) -> None:
        """Something about ourselves is new: it is told with the next report, which comes at once."""
        self._must_report = True
        self.poll = self._holding.poll()

    def take(self, orders: Orders, asked: Poll, sent: float) -> bool:
        """Orders that came with an answer, by poll or by report; whether anything in them was new."""
        self.heard = time.monotonic()
        news = self._intake.take(orders, asked, sent)
        # A report names new attempts as held, and that is the first renewal of their lease.
        self._must_report = self._must_report or news
        self.poll = self._holding.poll()
        return news

    def take_trouble(self, error: Exception) -> None:
        """A request, by poll or by report, was not answered as it should be."""
        if not isinstance(error, Refused):
            return
        if error.status in _DENIED:
            raise Denied(str(error))
        if error.status == _CONFLICT:
            self._must_greet = True  # most likely it does not know what we hold

    def _greet(self) -> None:
        held = [attempt.ref for attempt in self._holding.attempts.values()]
        number, is_fixed = self._holding.next_number(), self._holding.is_fixed
        hello = Hello(PROTOCOL, __version__, self._holding.facts, held, number, is_fixed)
        sent = clock()
        self._is_busy = True
        self._reporter.do(lambda: self._line.hello(hello), lambda answer: self._greeted(answer, sent))

    def _greeted(self, answer: Union[Welcome, Exception], sent: float) -> None:
        self._is_busy = False
        if isinstance(answer, Exception):
            self._put_off(answer)
            if isinstance(answer, Refused):
                self._refusals += 1
                if self._refusals > _REFUSALS:  # perhaps it speaks a newer protocol, and so does what is installed here
                    raise answer
            return
        self._must_greet = False
        self._must_report = True
        self._pause = RETRY_LEAST
        self.heard = time.monotonic()
        self.is_welcome = True
        self._holding.welcome = answer
        self._holding.renew(sent)
        for run, number in answer.fenced:
            self._ender.fence((run, number))
        self.poll = self._holding.poll()

    def _may_wait(self, now: float) -> bool:
        """While the next short runs are at hand, nobody waits for an answer: a report then tells of many at once. Nor
        does anybody wait to hear that a run has begun: of a short one, its end is told with it."""
        if now >= self._reported + _PACE:
            return False
        return self._holding.has_runs_at_hand() or not (self._must_report or self._holding.has_news(now))

    def _report(self, now: float) -> None:
        draft = Draft()
        draft.write(self._in_turn(), now, only_one=self._alone > 0)
        if draft.is_empty and not self._must_report:
            return
        self._must_report = False
        self._reported = now
        self._begin_with = draft.first_unserved
        self.poll = asked = self._holding.poll()
        body = draft.pack(asked)
        sent = clock()
        self._is_busy = True

        def then(answer: Union[Orders, Exception]) -> None:
            self._is_busy = False
            if isinstance(answer, Exception):
                self._undelivered(answer, draft.told)
            else:
                self._delivered(answer, draft.told)
                self.take(answer, asked, sent)

        self._reporter.do(lambda: self._line.report(body), then)

    def _in_turn(self) -> List[Attempt]:
        """All attempts, beginning with the one that got nothing the last time."""
        attempts = list(self._holding.attempts.values())
        first = self._holding.attempts.get(self._begin_with) if self._begin_with is not None else None
        if first is None:
            return attempts
        at = attempts.index(first)
        return attempts[at:] + attempts[:at]

    def _delivered(self, orders: Orders, told: List[Told]) -> None:
        self._pause = RETRY_LEAST
        self._refusals = 0
        self._alone = max(0, self._alone - 1)
        for key, have in orders.acks.items():
            name, _, stream = key.partition("/")
            run, _, number = name.partition(".")
            attempt = self._holding.attempts.get((int(run), int(number)))
            if attempt is not None:
                attempt.streams.acknowledge(stream, have)
        self._rewind()
        for attempt, count, with_result in told:
            is_last = with_result or any(fact.kind == "returned" for fact in attempt.facts[:count])
            attempt.facts = attempt.facts[count:]
            if with_result and f"{attempt.key}/captured" in orders.refused:
                self._reconsider(attempt)
            elif is_last and attempt.phase is not Phase.OVER:
                self._leavings.retire(attempt)

    def _reconsider(self, attempt: Attempt) -> None:
        """The hub has not all of the output that the result speaks of, or other output."""
        attempt.look_at = 0.0
        attempt.refusals += 1
        if attempt.refusals >= _REFUSALS:
            self._leavings.settle(attempt)

    def _undelivered(self, error: Exception, told: List[Told]) -> None:
        """Nobody knows whether it arrived: all of it will be told again."""
        self._rewind()
        self._must_report = True
        if isinstance(error, Refused) and error.status not in _DENIED:
            self._find_refused(error, told)
        self._put_off(error)

    def _find_refused(self, error: Refused, told: List[Told]) -> None:
        """A report that the hub will not have must not keep all others from it: each attempt is told of alone. What is
        over and refused again and again is given up; what runs is no worse for it and goes on."""
        self._refusals += 1
        if self._refusals > 1 and not self._alone:
            self._alone = len(self._holding.attempts)
        elif self._alone and len(told) == 1:
            attempt = told[0].attempt
            attempt.refusals += 1
            self._begin_with = self._behind(attempt)
            say(f"{attempt.key}: the hub refuses what it tells: {error}")
            if attempt.refusals == _REFUSALS and attempt.result is not None:
                self._leavings.keep_files(attempt)  # perhaps it lost what was uploaded
            elif attempt.refusals >= 2 * _REFUSALS and attempt.phase >= Phase.ENDED:
                self._ender.give_up(attempt, f"the hub refused what it told: {error}")

    def _behind(self, attempt: Attempt) -> Optional[Ref]:
        refs = list(self._holding.attempts)
        at = refs.index(attempt.ref) + 1 if attempt.ref in self._holding.attempts else len(refs)
        return refs[at] if at < len(refs) else None

    def _put_off(self, error: Exception) -> None:
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, self._line.longest_pause)
        if not isinstance(error, (Unreachable, Refused)):
            say(f"a request failed: {error!r}")
        self.take_trouble(error)

    def _rewind(self) -> None:
        for attempt in self._holding.attempts.values():
            attempt.streams.rewind()
            if attempt.result is not None:
                attempt.look_at = 0.0
