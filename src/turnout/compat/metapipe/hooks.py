"""A queue class, whatever it has: its lists, and its callbacks."""

from __future__ import annotations

import contextlib
from typing import Any

from turnout.compat.metapipe.queue import JobQueue
from turnout.errors import InvalidInput

#: Where the jobs are. A class that has not some of these lists is given them.
_LISTS = ("queue", "running", "complete", "failed")


class Hooks:
    """`made` is an instance of the user's class. Its lists are looked up each time, so it may put others there."""

    def __init__(self, queue: Any = None) -> None:
        """Of a class, or of an instance; None: of `JobQueue`. InvalidInput when it cannot be made."""
        self.made = _made(JobQueue) if queue is None else _made(queue) if isinstance(queue, type) else queue
        _give_lists(self.made)
        for name in _LISTS:
            if not isinstance(getattr(self.made, name, None), list):
                what = f"the queue {type(self.made).__name__} has a {name} that is no list"
                raise InvalidInput(what, hint="leave it out, or let it be a list")

    @property
    def waiting(self) -> list[Any]:
        found: list[Any] = self.made.queue
        return found

    @property
    def running(self) -> list[Any]:
        found: list[Any] = self.made.running
        return found

    @property
    def complete(self) -> list[Any]:
        found: list[Any] = self.made.complete
        return found

    @property
    def failed(self) -> list[Any]:
        found: list[Any] = self.made.failed
        return found

    @property
    def jobs(self) -> list[Any]:
        """All."""
        return [*self.complete, *self.failed, *self.running, *self.waiting]

    def move(self, job: Any, to: list[Any]) -> None:
        """From whichever list it is in."""
        for each in (self.waiting, self.running, self.complete, self.failed):
            if job in each:
                each.remove(job)
        to.append(job)

    def tell(self, name: str, *given: Any) -> Any:
        """Calls the callback, if there is one; whatever it raises."""
        callback = getattr(self.made, name, None)
        return callback(*given) if callable(callback) else None


def _made(found: Any) -> Any:
    """Its lists are there before its ``__init__``, which may look at them."""
    try:
        made = found.__new__(found)
        _give_lists(made)
        made.__init__()
    except TypeError as error:
        hint = "it is made without arguments; give an instance instead"
        raise InvalidInput(f"the queue {found.__name__} cannot be made: {error}", hint=hint) from error
    return made


def _give_lists(made: Any) -> None:
    for name in _LISTS:
        if not isinstance(getattr(made, name, None), list):
            with contextlib.suppress(AttributeError):  # it has a property of that name, and no use for ours
                setattr(made, name, [])
