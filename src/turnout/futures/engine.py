"""What makes calls: the contract between an executor and where its calls are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker has for the one call it is at. `memory` in bytes; 0 = no limit."""

    cpus: int = 1
    gpus: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """How a call is to be made. `needs`: None = as the workers are. `seconds`: it is ended when it takes longer.
    `retries`: how often it is made again after the process that made it died."""

    needs: Needs | None = None
    seconds: float | None = None
    retries: int = 2


class Task:
    """One call. An engine asks `begin` once, before it makes it, and then tells exactly one of `end` and `fail`; or it
    tells `drop`. In any thread; but `end`, `fail` and `drop` not while it holds a lock that `submit` needs."""

    __slots__ = ("args", "function", "kwargs", "terms")

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], terms: Terms) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.terms = terms

    def begin(self) -> bool:
        """False when nobody wants it any more; then nothing more is told."""
        raise NotImplementedError

    def end(self, ended: int, data: bytes, buffers: Iterable[Any], seconds: float) -> None:
        """It was made; see `packing.make` for what came of it."""
        raise NotImplementedError

    def fail(self, error: BaseException) -> None:
        """Nothing came of it."""
        raise NotImplementedError

    def on_cancel(self, then: Callable[[], object]) -> None:
        """`then` is called when somebody cancels it before `begin`; not of all tasks."""

    def drop(self) -> None:
        """It was not begun, and will not be."""
        raise NotImplementedError


class Engine(ABC):
    """`start` and `stop` come in turns, from one thread; all else from any."""

    @abstractmethod
    def start(self) -> None:
        """Returns as soon as calls can be submitted; workers may still be on their way."""

    @abstractmethod
    def submit(self, task: Task) -> None:
        """Returns at once. InvalidInput when it can never be made here. What goes wrong later, `task` is told."""

    @abstractmethod
    def scale(self, workers: int) -> None:
        """So many from now on; who is at a call makes it first."""

    @abstractmethod
    def drop_waiting(self) -> None:
        """Drops all that was not begun."""

    @abstractmethod
    def stop(self) -> None:
        """Ends all workers, whatever they are at, and removes what they left. Calls that were not made are failed."""
