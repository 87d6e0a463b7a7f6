"""Parameters at random: those of a run depend on the seed and its number alone."""

from __future__ import annotations

from random import Random

from turnout.plugin.sampler import Proposal, Result, Sampler, Task
from turnout.search.options import Options
from turnout.search.spaces.drawing import draw


class RandomSampler(Sampler):
    name = "random"
    ahead = 256

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        Options(f"sampler {self.name}", task.options).finish()

    def ask(self, index: int) -> Proposal:
        return Proposal(draw(self.task.space, Random(f"{self.task.seed}/{index}")))

    def tell(self, result: Result) -> None:
        """Nothing is learned from it."""
