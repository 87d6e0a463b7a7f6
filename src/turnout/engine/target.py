"""A place to run, and how its provider takes what it is asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from turnout.engine.hosted import HostedProvider
from turnout.model.spec import Resources
from turnout.plugin.provider import Failure, Provider
from turnout.schedule.staffing import Site

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SLOWEST_RETRY = 60.0
#: Agents at once where a place can have any number and nobody says; and how long one stays there with nothing to do.
_USUAL_MOST, _USUAL_IDLE = 10, 60.0
#: On this machine, where jobs may want nodes of their own, or each of their runs to be started by itself.
_MOST_HERE = 64
#: How often a place that is not this machine is looked at while something is awaited there.
_USUAL_INTERVAL = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a target's settings say of agents there. `max_runs`: at once on each, None = as it has processors. `most`
    agents at once, `most_pending` of them in the site's own queue; `rate`: so many may be submitted a minute, `bulk`
    in one go. `interval`: seconds between looks. `idle`: seconds after which an agent with nothing to do leaves.
    `drain`: seconds before its wall time when it takes nothing more. `need` is what each is given."""

    max_runs: int | None = None
    most: int | None = None
    most_pending: int | None = None
    rate: float | None = None
    bulk: int | None = None
    interval: float | None = None
    idle: float | None = None
    drain: float | None = None
    need: Resources = field(default_factory=Resources)
    prolog: Sequence[str] = ()
    epilog: Sequence[str] = ()
    python: str = ""
    max_runs_per_gpu: int = 1
    avoid_foreign_gpus: bool = True


@dataclass(slots=True)
class Target:
    """A place to run (`name` is that of the place): its provider, how the last starts of an agent there went, and what
    is wrong there.

    Each start puts the next one off, twice as long as the last time, until an agent that was started is heard.
    """

    name: str
    provider: Provider
    terms: Terms = field(default_factory=Terms)
    starts: int = 0
    not_before: float = 0.0
    trouble: str = ""
    last_try: float = -1.0
    ailing: str = ""
    """what the last agent there said is wrong"""
    restraint: str = ""
    """why it is not asked for as much as is needed, though it could be"""
    _alone: AbstractContextManager[bool] = field(default_factory=threading.Lock, repr=False, compare=False)

    def tried(self, now: float, trouble: str = "", *, wait: float = 0.0) -> None:
        """A start was tried; the next comes later, and not before `wait` seconds went by."""
        if now != self.last_try:
            self.not_before = now + min(0.25 * 2.0**self.starts, _SLOWEST_RETRY)
            self.starts += 1
            self.last_try = now
        self.not_before = max(self.not_before, now + wait)
        self.trouble = trouble

    def heard(self) -> None:
        self.starts, self.trouble, self.ailing = 0, "", ""

    @property
    def complaint(self) -> str:
        """What is wrong with it, as far as anybody knows."""
        return self.trouble or self.ailing

    @property
    def is_here(self) -> bool:
        """Whether its provider is asked on this machine, and so never for long."""
        return self.provider.capabilities.same_host

    @property
    def is_quick(self) -> bool:
        """Whether to ask its provider never takes long: it is about this machine, and in this process."""
        return self.is_here and not isinstance(self.provider, HostedProvider)

    @property
    def launches_runs(self) -> bool:
        return self.provider.capabilities.launches == "runs"

    @property
    def is_elastic(self) -> bool:
        """Whether what it has there comes and goes: nothing is started again in the place of another."""
        return self.provider.capabilities.elastic or self.launches_runs

    @property
    def site(self) -> Site:
        able, terms = self.provider.capabilities, self.terms
        usual = _MOST_HERE if able.same_host else _USUAL_MOST if able.elastic and not self.launches_runs else None
        return Site(
            is_elastic=able.elastic, seats=tuple(self.provider.seats()), most=terms.most or usual,
            most_pending=terms.most_pending, usual=terms.need,
            max_runs=None if self.launches_runs else terms.max_runs,
            has_wall_time=able.wall_time, drain=terms.drain,
        )  # fmt: skip

    def interval(self, lease: float) -> float:
        """Seconds between looks. A look also makes lost connections again, which agents need to keep their lease: it
        comes often enough for that, unless somebody said how often."""
        return self.terms.interval if self.terms.interval is not None else min(_USUAL_INTERVAL, lease / 6)

    def max_runs(self, seat: str, cpus: int) -> int:
        """Runs at once on a node of so many processors."""
        return self.provider.seat_max_runs(seat) or self.terms.max_runs or cpus

    def idle(self, usual: float) -> float:
        """How long an agent stays with nothing to do; `usual` is what the hub says for all."""
        if self.terms.idle is not None:
            return self.terms.idle
        return min(usual, _USUAL_IDLE) if self.is_elastic else usual

    def ask(self, question: Callable[[Provider], T], trouble: str = "") -> T | Failure:
        """Asks the provider. It is code of others: whatever it raises is a failure of this target and stops nothing
        else. `trouble` is what a failure means here."""
        try:
            with self._alone:  # one call at a time, whoever asks
                return question(self.provider)
        except Failure as error:
            failure = error
        except OSError as error:
            failure = Failure(str(error))
        except Exception as error:
            _log.exception("the provider of %s raised what it may not", self.name)
            failure = Failure(str(error) or type(error).__name__)
        if trouble:
            said = f"{trouble}: {failure.message}"
            if said != self.trouble:
                _log.warning("%s: %s", self.name, said)
            self.trouble = said
        return failure
