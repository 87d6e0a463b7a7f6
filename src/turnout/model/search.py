"""What a search asks for: which parameters to vary, who proposes them, who ends runs early, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Failed runs, with none that completed, after which a search gives up.
FAILURES = 10
#: So many runs may be made at once, before the first result.
MOST_AT_ONCE = 10_000
#: The most time a search may have: a hundred years. Calendars end with the year 9999.
LONGEST_SECONDS = 100 * 365 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """A metric to make small or large. `of`: which of its values counts, ``last``, ``min`` or ``max``."""

    metric: str
    goal: str = "minimize"
    of: str = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """`space` as `turnout.search.spaces` writes it down. `sampler` and `stopper` are names of installed ones, or paths
    (``module:Class``) of code among the frozen files.

    `runs` and `seconds` are what it may use; None = as much as it likes. `prefix` comes before each parameter's name
    where it is appended to the command; None = nothing is appended. `slots` tells for each argument of the command
    which parameter takes its place. After `failures` failed runs with none that completed it gives up; 0 = never.
    `whole`: all runs are made at once, before the first result.
    """

    space: dict[str, Any]
    sampler: str = "random"
    sampler_options: dict[str, Any] = field(default_factory=dict)
    stopper: str | None = None
    stopper_options: dict[str, Any] = field(default_factory=dict)
    aims: tuple[Aim, ...] = ()
    runs: int | None = None
    seconds: float | None = None
    seed: int = 0
    prefix: str | None = "--"
    slots: dict[str, int] = field(default_factory=dict)
    failures: int = FAILURES
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """One more target whose nodes take runs of a search; `place` as in a job's specification."""

    target: str
    place: str | None = None

    @property
    def where(self) -> str:
        return self.place or self.target
