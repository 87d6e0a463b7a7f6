"""Tasks on their way to a worker, and what is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from turnout.futures.engine import Needs, Task
from turnout.futures.functions import Function
from turnout.futures.local.inbox import Result

#: What is told once the lock was let go: whoever hears it may submit something.
News = list[Callable[[], object]]


class Call:
    """A task on its way. `parts`: as it is sent; none while it is not packed. Once it `is_begun`, it has to be made."""

    __slots__ = (
        "deaths", "function", "given", "is_begun", "needs", "number", "parts", "seconds", "segments", "since", "task",
    )  # fmt: skip

    def __init__(self, number: int, task: Task, function: Function, needs: Needs) -> None:
        self.number = number
        self.task = task
        self.function = function
        self.needs = needs
        self.parts: list[bytes] = []
        self.segments: list[int] = []
        self.seconds = 0.0
        self.since = self.given = time.monotonic()
        self.deaths = 0
        self.is_begun = False

    def unpack(self) -> None:
        """It is packed anew when it is sent again, if a function may have written into what it was given."""
        if self.segments:
            self.parts, self.segments = [], []

    def failing(self, error: BaseException) -> Callable[[], object]:
        return lambda: self.task.fail(error)

    def ending(self, outcome: Result, buffers: list[memoryview]) -> Callable[[], object]:
        task = self.task
        return lambda: task.end(outcome.ended, outcome.data, buffers, outcome.seconds)


def tell(news: News) -> None:
    for each in news:
        each()
