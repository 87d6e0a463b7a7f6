"""NNI's Batch: a list of what to try, in the place of a space."""

from __future__ import annotations

from turnout.plugin.sampler import BadOption, Exhausted, Proposal, Result, Sampler, Task
from turnout.plugin.space import Choice


class BatchSampler(Sampler):
    """The space is one choice; each of its values is all the parameters of a run: ``{"lr": 0.1, "layers": 2}``. It has
    no options."""

    name = "batch"
    ahead = 256

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        for option in task.options:
            raise BadOption(f"batch has no option {option!r}", option)
        only = next(iter(task.space.values())) if len(task.space) == 1 else None
        if not isinstance(only, Choice) or not all(isinstance(value, dict) for value in only.values):
            raise BadOption("batch needs one choice in the space, with all parameters of a run in each value: "
                            "[{x: 1, y: 2}, {x: 3, y: 4}]")  # fmt: skip
        self._listed = only.values

    def ask(self, index: int) -> Proposal:
        if index > len(self._listed):
            raise Exhausted
        params = self._listed[index - 1]
        assert isinstance(params, dict)
        return Proposal(dict(params))

    def tell(self, result: Result) -> None:
        """Nothing is learned from it."""
