"""Distributed grid descent, as XT has it: near the best combination so far, whatever was tried least.

A combination is as good as the mean of its runs. Its neighbours differ from it in one parameter, by one step in the
list of its values: numbers in their order, others as they are written. Runs that are under way count as tried, so that
those at the same time spread out. Until there is a result, combinations are drawn.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

from turnout.plugin.sampler import BadOption, Goal, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.space import Branch, Choice, Normal, Parameter
from turnout.search.options import Options
from turnout.search.spaces.drawing import draw_one
from turnout.search.spaces.functions import ANY_SEED
from turnout.search.spaces.grids import MOST_VALUES, count_of, values_of

#: For each parameter the place of its value.
Place = tuple[int, ...]
_DRAWS = 8


class DgdSampler(Sampler):
    name = "dgd"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        Options(f"sampler {self.name}", task.options).finish()
        if len(task.objectives) != 1:
            raise BadOption("dgd needs one objective: say --minimize METRIC or --maximize METRIC")
        self._sign = 1 if task.objectives[0].goal is Goal.MINIMIZE else -1
        self._seeds = [name for name, parameter in task.space.items() if parameter == ANY_SEED]
        self._values = {
            name: _values(name, parameter) for name, parameter in task.space.items() if name not in self._seeds
        }
        self._places = {
            name: {_key(value): place for place, value in enumerate(values)} for name, values in self._values.items()
        }
        self._open: dict[int, tuple[Place, Proposal]] = {}
        self._tries: Counter[Place] = Counter()
        self._ranking = _Ranking()

    def ask(self, index: int) -> Proposal:
        if index not in self._open:
            random = Random(f"{self.task.seed}/{index}")
            place = self._choose(random)
            self._tries[place] += 1
            self._open[index] = place, self._proposal(place, random)
        return self._open[index][1]

    def tell(self, result: Result) -> None:
        opened = self._open.pop(result.index, None) if result.index is not None else None
        place = opened[0] if opened is not None else self._place_of(result.proposal.params)
        if place is None:
            return
        if opened is None:
            self._tries[place] += 1
        if result.outcome is Outcome.CANCELLED:  # which is no fault of the combination
            self._tries[place] -= 1
        elif result.outcome is not Outcome.FAILED and result.is_measured:
            value = result.values[0]
            assert value is not None
            self._ranking.add(place, self._sign * value)

    def adopt(self, index: int, proposal: Proposal) -> None:
        place = self._place_of(proposal.params)
        if place is not None and index not in self._open:
            self._tries[place] += 1
            self._open[index] = place, proposal

    # --- within -------------------------------------------------------------------------------------------------------

    def _choose(self, random: Random) -> Place:
        best = self._ranking.best()
        if best is None:
            drawn = [tuple(random.randrange(len(values)) for values in self._values.values()) for _ in range(_DRAWS)]
            return min(drawn, key=lambda place: self._tries[place])
        near = [best, *self._neighbours(best)]
        fewest = min(self._tries[place] for place in near)
        return random.choice([place for place in near if self._tries[place] == fewest])

    def _neighbours(self, place: Place) -> Iterator[Place]:
        for axis, values in enumerate(self._values.values()):
            for step in (-1, 1):
                if 0 <= place[axis] + step < len(values):
                    yield (*place[:axis], place[axis] + step, *place[axis + 1 :])

    def _proposal(self, place: Place, random: Random) -> Proposal:
        found: dict[str, object] = {
            name: values[at] for at, (name, values) in zip(place, self._values.items(), strict=True)
        }
        found |= {name: draw_one(ANY_SEED, random) for name in self._seeds}
        return Proposal({name: found[name] for name in self.task.space})

    def _place_of(self, params: Mapping[str, object]) -> Place | None:
        """None = it is not in the space."""
        try:
            return tuple(places[_key(params[name])] for name, places in self._places.items())
        except (KeyError, TypeError, ValueError):
            return None


class _Ranking:
    """Places by the mean of their values, the lowest first."""

    def __init__(self) -> None:
        self._sums: dict[Place, tuple[float, int]] = {}
        self._heap: list[tuple[float, Place, int]] = []
        """also means that are not true any more; the true one of a place has its count"""

    def add(self, place: Place, value: float) -> None:
        total, count = self._sums.get(place, (0.0, 0))
        total, count = total + value, count + 1
        self._sums[place] = total, count
        mean = total / count
        heapq.heappush(self._heap, (math.inf if math.isnan(mean) else mean, place, count))

    def best(self) -> Place | None:
        while self._heap:
            _, place, count = self._heap[0]
            if self._sums[place][1] == count:
                return place
            heapq.heappop(self._heap)
        return None


def _values(name: str, parameter: Parameter) -> list[object]:
    """In the order in which neighbours are next to each other."""
    hint = f"write a list of values for {name!r}, or use tpe"
    if isinstance(parameter, Normal):
        raise BadOption(f"dgd goes from value to value, and {name!r} is continuous; {hint}")
    if not isinstance(parameter, Choice):
        count = count_of(parameter)
        if count is None or count > MOST_VALUES:
            what = "is continuous" if count is None else f"has more than {MOST_VALUES} values"
            raise BadOption(f"dgd goes from value to value, and {name!r} {what}; {hint}")
    values = values_of(parameter)
    if any(isinstance(value, Branch) for value in values):
        raise BadOption(f"dgd knows no parameters within a choice, as {name!r} has; use tpe, random or grid")
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return [*sorted(numbers)] if len(numbers) == len(values) else values


def _key(value: object) -> str:
    """The same for the same value; ``true`` is not 1, but 1.0 is."""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value, sort_keys=True)
