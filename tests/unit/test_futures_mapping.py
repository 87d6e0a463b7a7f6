"""`map` on an engine that makes each call at once, or refuses it."""

from __future__ import annotations

import pytest

from turnout import Executor
from turnout.errors import Conflict
from turnout.futures.engine import Engine, Task
from turnout.futures.packing import make


class AtOnce(Engine):
    """Takes only so many calls."""

    def __init__(self, most: int) -> None:
        self._left = most

    def start(self) -> None: ...

    def submit(self, task: Task) -> None:
        if not self._left:
            raise Conflict("no more", hint="none")
        self._left -= 1
        if task.begin():
            task.end(*make(task.function, task.args, task.kwargs), 0.001)

    def scale(self, workers: int) -> None: ...

    def drop_waiting(self) -> None: ...

    def stop(self) -> None: ...


@pytest.mark.parametrize("is_at_hand", [True, False])
@pytest.mark.parametrize("is_ordered", [True, False])
def test_what_is_refused_is_not_left_out(is_at_hand: bool, is_ordered: bool) -> None:
    """The results before it are there, then it is told."""
    given = range(10) if is_at_hand else iter(range(10))
    found: list[int] = []
    with Executor(AtOnce(4), workers=1) as made, pytest.raises(Conflict, match="no more"):
        found.extend(made.map(abs, given, chunksize=2, ordered=is_ordered))
    assert found == list(range(8))


def test_all_of_it_is_there_otherwise() -> None:
    with Executor(AtOnce(100), workers=1) as made:
        assert list(made.map(abs, range(10), chunksize=2)) == list(range(10))
        assert list(made.map(pow, iter([1, 2]), [2, 2, 2])) == [1, 4]
