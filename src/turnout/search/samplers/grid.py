"""All combinations, each once."""

from __future__ import annotations

from turnout.plugin.sampler import Exhausted, Proposal, Result, Sampler, Task
from turnout.search.options import Options
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
        options = Options(f"sampler {self.name}", task.options)
        self._grid = Grid(task.space, options.whole("points", POINTS, least=1, most=_MOST_POINTS))
        self._order = Shuffle(self._grid.size, task.seed) if options.is_on("shuffle", False) else None
        options.finish()

    def ask(self, index: int) -> Proposal:
        if index > self._grid.size:
            raise Exhausted
        place = index - 1 if self._order is None else self._order.at(index - 1)
        return Proposal(self._grid.at(place, self.task.seed))

    def tell(self, result: Result) -> None:
        """Nothing is learned from it."""
