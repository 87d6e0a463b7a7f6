"""Samplers and stoppers of simulated searches: what they do follows from their options; they note what they hear."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from turnout.engine import making
from turnout.model.search import Search
from turnout.plugin.sampler import Exhausted, Objective, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.stopper import Point, Stopper, Watch

METRIC = "n"


@dataclass(slots=True)
class Life:
    """What one instance of a sampler heard, and its stopper with it. `key` is that of the submission."""

    key: str
    adopted: list[int] = field(default_factory=list)
    told: list[tuple[int, Outcome]] = field(default_factory=list)
    ended: list[tuple[int, Outcome]] = field(default_factory=list)
    mistaken: list[int] = field(default_factory=list)
    """numbers that came with parameters of another"""


class Learning(Sampler):
    """Its options: `key`; `fates` of the runs in turn; `last`, behind which there is nothing; `is_shy`, it proposes few
    before it has heard much; `stumbles`, the number at which it raises once."""

    name: ClassVar[str] = "learning"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.life = Life(str(task.options["key"]))
        self._has_stumbled = False

    def ask(self, index: int) -> Proposal | None:
        options = self.task.options
        last, fates = options["last"], options["fates"]
        assert isinstance(fates, list)
        if isinstance(last, int) and index > last:
            raise Exhausted
        if options["stumbles"] == index and not self._has_stumbled:
            self._has_stumbled = True
            raise RuntimeError("what now")
        heard = len(self.life.told)
        if options["is_shy"] and index > 1 + 2 * heard:
            return None
        return Proposal({"fate": fates[index % len(fates)], "index": index, "heard": heard}, {"index": index})

    def tell(self, result: Result) -> None:
        assert result.index is not None
        self.life.told.append((result.index, result.outcome))
        self._compare(result.index, result.proposal)

    def adopt(self, index: int, proposal: Proposal) -> None:
        self.life.adopted.append(index)
        self._compare(index, proposal)

    def _compare(self, index: int, proposal: Proposal) -> None:
        if (proposal.params["index"], proposal.memo["index"]) != (index, index):
            self.life.mistaken.append(index)


class Foreseeing(Learning):
    """Does not wait for what becomes of its proposals."""

    name: ClassVar[str] = "foreseeing"
    ahead: ClassVar[int] = 3


class Talkative(Stopper):
    """Ends some runs that have told much."""

    name: ClassVar[str] = "talkative"

    def __init__(self, watch: Watch, life: Life) -> None:
        super().__init__(watch)
        self._life = life

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return "it said enough" if len(points) >= self._drawn(run, (1, 4, 1000)) else None

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        self._life.ended.append((run, outcome))

    def _drawn(self, run: int, values: tuple[float, ...]) -> float:
        return random.Random(f"{self._life.key} {run}").choice(values)


class Slow(Talkative):
    """Ends some runs that take long, whatever they tell."""

    name: ClassVar[str] = "slow"
    every: ClassVar[float | None] = 0.5

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return "it took enough" if seconds >= self._drawn(run, (0.7, 1.5, 1000.0)) else None


SAMPLERS: dict[str, type[Learning]] = {each.name: each for each in (Learning, Foreseeing)}
STOPPERS: dict[str, type[Talkative]] = {each.name: each for each in (Talkative, Slow)}


class Makers(making.Makers):
    """Of one life of the hub; `lives` are those of all instances that any made."""

    def __init__(self, lives: list[Life]) -> None:
        super().__init__()
        self._lives = lives

    def sampler(self, search: Search, before: str | None) -> Learning:
        made = SAMPLERS[search.sampler](Task({}, (Objective(METRIC),), search.seed, search.sampler_options))
        self._lives.append(made.life)
        return made

    def stopper(self, search: Search, before: str | None) -> Talkative | None:
        """Is made right after the sampler, and shares what that remembers."""
        if search.stopper is None:
            return None
        return STOPPERS[search.stopper](Watch(Objective(METRIC)), self._lives[-1])
