"""`CalculationBackend`: what distributes tasks over workers, in OpenFF's words."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from turnout.compat.openff.resources import ComputeResources, ours
from turnout.errors import InvalidInput


class WrongWorkers(InvalidInput, ValueError):
    """So many workers cannot be."""


class CalculationBackend(ABC):
    """`number_of_workers` workers, each with `resources_per_worker` for the one task it is at. A context manager:
    ``start`` at its begin, ``stop`` at its end, whatever happens between.

    A class of one's own has `start`, `stop` and `submit_task`; it need not call those of this class, nor its
    constructor. Of every class, `started` is right, a second `start` is a RuntimeError, and `stop` of what has not
    started, or was stopped, does nothing."""

    _is_started = False
    _is_begun = False
    """whether `start` was called and `stop` was not since: also of a start that failed there may be something left"""
    _process = 0
    _depth = 0
    """how many of the methods `start` and `stop`, of this class and those above it, go on"""

    def __init__(self, number_of_workers: int = 1, resources_per_worker: ComputeResources | None = None) -> None:
        self._number_of_workers = whole_number("number_of_workers", number_of_workers)
        self._resources_per_worker = ours(resources_per_worker or ComputeResources())

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, guard in (("start", _starting), ("stop", _stopping)):
            method = getattr(cls, name)
            if not getattr(method, "__isabstractmethod__", False) and not hasattr(method, "_is_guarded"):
                setattr(cls, name, guard(method))

    @property
    def started(self) -> bool:
        return self._is_started

    @abstractmethod
    def start(self) -> None:
        """Spawns the first workers. RuntimeError when it has started already. What raises has not started."""
        self._is_started = True

    @abstractmethod
    def stop(self) -> None:
        """Ends every worker, and removes what they left. Idempotent; it may start again then."""

    @abstractmethod
    def submit_task(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Returns at once, with a future of what `function` returns when a worker calls it."""

    def scale(self, number_of_workers: int) -> None:
        """So many from now on; who is at a task ends it first. Not every backend can."""
        raise NotImplementedError(f"the number of workers of a {type(self).__name__} cannot be changed")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        try:
            if self._is_started and self._process == os.getpid():  # in a fork, the workers are not ours
                self.stop()
        except Exception:
            pass  # nobody is there to be told


def whole_number(name: str, given: Any, least: int = 1) -> int:
    """WrongWorkers when it is none."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise WrongWorkers(f"{name}: {given!r} cannot be", hint=f"give a whole number, at least {least}")
    return given


def _starting(method: Callable[..., Any]) -> Callable[..., Any]:
    """It is the outermost of all that go on which tells how it ended."""

    @functools.wraps(method)
    def start(self: CalculationBackend, *args: Any, **kwargs: Any) -> Any:
        if self._depth:
            return method(self, *args, **kwargs)
        if self._is_started:
            raise RuntimeError("The backend has already been started.")
        self._depth, self._is_begun, self._process = 1, True, os.getpid()
        try:
            done = method(self, *args, **kwargs)
            self._is_started = True
            return done
        except BaseException:
            self._is_started = False
            raise
        finally:
            self._depth = 0

    return _guarded(start)


def _stopping(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def stop(self: CalculationBackend, *args: Any, **kwargs: Any) -> Any:
        if self._depth:
            return method(self, *args, **kwargs)
        if not self._is_begun:
            return None
        self._depth = 1
        try:
            done = method(self, *args, **kwargs)
            self._is_started = self._is_begun = False
            return done
        finally:
            self._depth = 0

    return _guarded(stop)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    method._is_guarded = True  # type: ignore[attr-defined]
    return method
