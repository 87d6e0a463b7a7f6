"""The contract of a stopper: it decides whether a run of a search should go on, from what it and the others measured.

As with samplers, the core owns the rest: who asks the run's node to end it, and that it ends ``stopped`` with all it
had told. A stopper lives in memory; another instance is told what is known and goes on. One thread at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Mapping, NamedTuple, Optional, Sequence

from turnout.plugin.sampler import Objective, Outcome


class Point(NamedTuple):
    """One value of the objective's metric, as the run told it."""

    step: int
    value: float


@dataclass(frozen=True)
class Watch:
    """What a stopper is made for. `options` are its own."""

    objective: Objective
    options: Mapping[str, object] = field(default_factory=dict)


class Stopper(ABC):
    """The constructor raises BadOption (see `turnout.plugin.sampler`) for what it cannot do."""

    name: ClassVar[str] = ""
    every: ClassVar[Optional[float]] = None
    """seconds after which a run is judged again although it told nothing new; None = only when it did"""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    @abstractmethod
    def judge(self, run: int, points: Sequence[Point], seconds: float) -> Optional[str]:
        """Why this run should be ended now, in a few words for people; None = it goes on.

        `points` are all it has told, in order; of each step only the last value. `seconds` is how long it has been
        running. Asked again about the same, it gives the same answer."""

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:  # noqa: B027 - some need not know
        """A run is over, with these points; once for each, also for those that ended before this instance was made."""
