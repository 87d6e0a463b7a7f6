"""A place to run, and how its provider takes what it is asked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from turnout.engine.hosted import HostedProvider
from turnout.errors import TurnoutError
from turnout.model.spec import Resources
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Provider, Seated
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
    gpu_indices: Sequence[int] = ()


@dataclass(slots=True)
class Backoff:
    """Each try puts the next one off, twice as long as the last time. All of a moment is one try."""

    tries: int = 0
    not_before: float = 0.0
    _last: float = -1.0

    def tried(self, now: float, *, wait: float = 0.0) -> None:
        """The next comes later, and not before `wait` seconds went by."""
        if now != self._last:
            self.not_before = now + min(0.25 * 2.0**self.tries, _SLOWEST_RETRY)
            self.tries += 1
            self._last = now
        self.not_before = max(self.not_before, now + wait)


class Absent(Provider):
    """In the place of a provider that cannot be made: it starts nothing, cannot look, and says why."""

    name = "none"
    capabilities = Capabilities()

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._failure() for _ in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        raise self._failure()

    def cancel(self, handles: Sequence[Handle]) -> None:
        raise self._failure()

    def find(self, token: str) -> Handle | None:
        raise self._failure()

    def check(self) -> list[Finding]:
        return [Finding("problem", str(self._failure()), "it is tried again every minute")]

    def clear(self) -> None:
        raise self._failure()

    def _failure(self) -> Failure:
        return Failure(str(self.settings.get("why", "")))


@dataclass(slots=True)
class Target:
    """A place to run (`name` is that of the place): its provider, how the last starts of an agent there went, and what
    is wrong there.

    Each start puts the next one off until an agent that was started is heard. While the provider cannot be made,
    `remake` is what tries that again (see `serve`), and an `Absent` one is there.
    """

    name: str
    provider: Provider
    terms: Terms = field(default_factory=Terms)
    remake: Callable[[], Provider] | None = None
    backoff: Backoff = field(default_factory=Backoff)
    trouble: str = ""
    ailing: str = ""
    """what the last agent there said is wrong"""
    restraint: str = ""
    """why it is not asked for as much as is needed, though it could be"""
    _alone: AbstractContextManager[bool] = field(default_factory=threading.Lock, repr=False, compare=False)

    def tried(self, now: float, trouble: str = "", *, wait: float = 0.0) -> None:
        """A start was tried; the next comes later, and not before `wait` seconds went by."""
        self.backoff.tried(now, wait=wait)
        self.trouble = trouble

    def heard(self) -> None:
        self.backoff.tries, self.trouble, self.ailing = 0, "", ""

    @property
    def starts(self) -> int:
        """How many were tried since an agent was heard."""
        return self.backoff.tries

    @property
    def not_before(self) -> float:
        return self.backoff.not_before

    @property
    def is_served(self) -> bool:
        return self.remake is None

    def serve(self, make: Callable[[], Provider] | None = None) -> None:
        """Makes the provider, if that could not be done until now. Raises what `make`, or `remake`, raises; idempotent,
        from any thread. It may take its time, and keeps waiting whoever asks this target."""
        if self.is_served:
            return  # and nobody waits for what is asked there now
        with self._alone:
            if self.remake is not None:
                self.provider = (make or self.remake)()
                self.remake, self.trouble = None, ""

    def try_to_serve(self) -> bool:
        """The same; what keeps it from that is said in the log, and to whoever wants something of it."""
        try:
            self.serve()
        except (TurnoutError, OSError) as error:
            self._stay_absent(error)
        return self.is_served

    def _stay_absent(self, error: TurnoutError | OSError) -> None:
        hint = error.hint if isinstance(error, TurnoutError) else ""
        why = "; ".join(filter(None, [str(error).partition("\n")[0], hint]))
        with self._alone:
            if not isinstance(self.provider, Absent):
                return  # somebody else could make it meanwhile
            if why != self.provider.settings.get("why"):
                _log.warning("target %s is not served: %s", self.name, error)
            self.provider, self.trouble = type(self.provider)({"why": why}), f"it cannot be used: {why}"

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
            runs_per_gpu=terms.max_runs_per_gpu,
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

    def find(self, token: str, seat: str, trouble: str) -> Handle | Failure | None:
        """Asks for the launch that has this token, and was for that seat, if it was for one."""

        def look(provider: Provider) -> Handle | None:
            return provider.find_at(seat, token) if seat and isinstance(provider, Seated) else provider.find(token)

        return self.ask(look, trouble)

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


def unserved(name: str, service: str, terms: Terms, remake: Callable[[], Provider]) -> Target:
    """A target whose provider, of the kind `service`, is not made yet: see `Target.serve`."""
    kind: type[Absent] = type("Absent", (Absent,), {"name": service})
    return Target(name, kind({}), terms, remake=remake)
