"""All combinations, each once."""

from __future__ import annotations

from turnout.plugin.sampler import Exhausted, Proposal, Result, Sampler, Task
from turnout.search.samplers.options import check_options, flag, whole
from turnout.search.samplers.shuffling import Shuffle
from turnout.search.spaces.grids import POINTS, Grid

_MOST_POINTS = 1000


class GridSampler(Sampler):
    """In the order of `Grid`, or with `shuffle` in one that depends on the seed. Continuous ranges are divided into
    `points` values."""

    name = "grid"
    ahead = 256

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        options = check_options(task.options, {"points": whole(1, _MOST_POINTS), "shuffle": flag}, self.name)
        points = options.get("points", POINTS)
        assert isinstance(points, int)
        self._grid = Grid(task.space, points)
        self._order = Shuffle(self._grid.size, task.seed) if options.get("shuffle") else None

    def ask(self, index: int) -> Proposal:
        if index > self._grid.size:
            raise Exhausted
        place = index - 1 if self._order is None else self._order.at(index - 1)
        return Proposal(self._grid.at(place, self.task.seed))

    def tell(self, result: Result) -> None:
        """Nothing is learned from it."""
