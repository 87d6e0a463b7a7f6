"""Makes all checks of a provider, without pytest, and tells how they went: to people as they come, and as data."""

from __future__ import annotations

import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from types import FrameType
from unittest import SkipTest

from turnout._version import __version__
from turnout.compat.loading import trace_of
from turnout.plugin.provider import Provider
from turnout.testing.contract import ProviderContract
from turnout.testing.contract.bench import Broken

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_LONGEST = 6.0  # times the patience of the lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one check went. `reason` says why it failed or was skipped; `trace` is there for what nobody expected."""

    name: str
    promise: str
    outcome: str
    seconds: float
    reason: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`provider` is its name, `code` the class, `version` that of the package it came with."""

    provider: str
    code: str
    version: str
    capabilities: dict[str, object]
    checks: Sequence[Outcome]

    def count(self, outcome: str) -> int:
        return sum(each.outcome == outcome for each in self.checks)

    def as_dict(self) -> dict[str, object]:
        """The documented JSON."""
        return {
            "kit": __version__, "provider": self.provider, "code": self.code, "version": self.version,
            "capabilities": self.capabilities, PASSED: self.count(PASSED), FAILED: self.count(FAILED),
            SKIPPED: self.count(SKIPPED), "checks": [asdict(each) for each in self.checks],
        }  # fmt: skip


def checks_of(contract: type[ProviderContract]) -> list[str]:
    """The names of its checks, in the order of the contract."""
    found: dict[str, None] = {}
    for base in [*ProviderContract.__bases__, contract]:
        found |= dict.fromkeys(name for name in vars(base) if name.startswith("test_"))
    return list(found)


def make(
    contract: type[ProviderContract],
    names: Sequence[str] = (),
    tell: Callable[[Outcome], None] = lambda outcome: None,
) -> Report:
    """Makes these checks (all, when none is named), one after the other; `tell` hears of each as it is over."""
    contract.setup_class()
    try:
        outcomes = []
        for name in names or checks_of(contract):
            outcomes.append(_make(contract, name))
            tell(outcomes[-1])
        return _describe(type(_instance(contract)), outcomes)
    finally:
        contract.teardown_class()


def _make(contract: type[ProviderContract], name: str) -> Outcome:
    check, began = contract(), time.monotonic()
    outcome, reason, trace = PASSED, "", ""
    try:
        check.setup_method()
        with _limit(check.lab.patience * _LONGEST):
            getattr(check, name)()
    except SkipTest as error:
        outcome, reason = SKIPPED, str(error)
    except AssertionError as error:
        outcome, reason = FAILED, str(error)
    except Exception as error:
        outcome, reason = FAILED, f"{type(error).__name__}: {error}"
        trace = trace_of(error) or traceback.format_exc()
    finally:
        _end(check)
    promise = " ".join((getattr(contract, name).__doc__ or "").split())
    seconds = round(time.monotonic() - began, 3)
    name = name.removeprefix("test_")
    return Outcome(name=name, promise=promise, outcome=outcome, seconds=seconds, reason=reason, trace=trace)


def _end(check: ProviderContract) -> None:
    if hasattr(check, "lab"):
        check.teardown_method()


def _instance(contract: type[ProviderContract]) -> Provider:
    check = contract()
    return check.make_provider(check.settings)


def _describe(kind: type[Provider], outcomes: Sequence[Outcome]) -> Report:
    return Report(
        provider=str(getattr(kind, "name", "")), code=f"{kind.__module__}:{kind.__qualname__}", version=_version(kind),
        capabilities=asdict(kind.capabilities), checks=outcomes,
    )  # fmt: skip


def _version(kind: type[Provider]) -> str:
    """Of the package that brought it; its own `__version__`, or nothing, where it was not installed."""
    top = kind.__module__.partition(".")[0]
    names = metadata.packages_distributions().get(top, ())
    return metadata.version(names[0]) if names else str(getattr(sys.modules.get(top), "__version__", ""))


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """A check that hangs is one that failed."""

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Broken(f"it was not over after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
