"""The contract of a sampler: it proposes parameters for the next run of a search, from what became of the others.

The core owns everything else: how many runs there are, when one is asked for, where it goes, and that each proposal
becomes exactly one run with exactly these parameters. A sampler lives in memory and may die at any time: the next
instance is told what is known (`tell`, `adopt`) and goes on. It is used by one thread at a time, starts none, and
neither prints nor touches files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Mapping, Optional, Tuple

from turnout.plugin.space import Space


class Goal(Enum):
    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


@dataclass(frozen=True)
class Objective:
    """A metric that runs log, and which way is better."""

    metric: str
    goal: Goal = Goal.MINIMIZE


@dataclass(frozen=True)
class Task:
    """What a sampler is made for. `options` are its own, as written in the search's file. With the same `seed` a
    sampler that is told the same proposes the same."""

    space: Space
    objectives: Tuple[Objective, ...] = ()
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Proposal:
    """Parameters for one run, which are bound to it for good. `memo` (what JSON can hold) comes back with them."""

    params: Mapping[str, object]
    memo: Mapping[str, object] = field(default_factory=dict)


class Outcome(Enum):
    """How a run ended. STOPPED: by a stopper, before its end; what it had measured so far counts."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Result:
    """What became of a proposal. `values` has one for each objective, None where the run did not tell it. `index` is
    the run's number in its search; None = it was brought in from elsewhere."""

    index: Optional[int]
    proposal: Proposal
    outcome: Outcome
    values: Tuple[Optional[float], ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether all objectives are known."""
        return bool(self.values) and all(value is not None for value in self.values)


class Exhausted(Exception):
    """There is nothing left to propose, now or later."""


class BadOption(ValueError):
    """The search cannot be as it was asked for: an option, or what this sampler or stopper makes of the space or the
    objectives. `option` is the name of the option, if it is one."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(message)
        self.option = option


class Sampler(ABC):
    """The constructor raises BadOption for a task it cannot do, before anything runs."""

    name: ClassVar[str] = ""
    ahead: ClassVar[int] = 1
    """how many proposals may be asked for before there is room for their runs: more than 1 where results do not
    matter"""

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def ask(self, index: int) -> Optional[Proposal]:
        """Parameters for run number `index` (1, 2, ...); None = not now, ask again when more is told.

        Raises Exhausted when there will never be more. The answer must not depend on when it is asked: only on the
        task, the index, and what was told and adopted. Asked again for the same index, because the first answer could
        not be written down, it is the same."""

    @abstractmethod
    def tell(self, result: Result) -> None:
        """What became of a run, once for each. It may be of a proposal that an earlier instance made, or none did."""

    def adopt(self, index: int, proposal: Proposal) -> None:  # noqa: B027 - many need not know
        """This proposal of an earlier instance is being tried; its result will be told."""
