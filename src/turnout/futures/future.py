"""What a call gives at once: the place where its outcome will be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent import futures
from typing import Any, TypeVar

T = TypeVar("T")


class Future(futures.Future[T]):
    """As in `concurrent.futures`; in coroutines it can be awaited. A call among whose arguments it is, however deep,
    waits for it and gets its result."""

    key = ""
    """what the call was named when it was submitted, or a name of its own"""
    recall: Callable[[], object] | None = None
    """for engines: what to do when it is cancelled"""
    _is_released = False

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()

    def result(self, timeout: float | None = None) -> T:
        value = super().result(timeout)
        if self._is_released:
            raise futures.CancelledError("its result was released")
        return value

    def cancel(self) -> bool:
        was_cancelled, done = self.cancelled(), super().cancel()
        if done and not was_cancelled and self.recall is not None:
            self.recall()
        return done

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        """How often `fn` had been added."""
        with self._condition:
            known: list[Any] = self._done_callbacks  # type: ignore[attr-defined]
            left = [each for each in known if each != fn]
            count = len(known) - len(left)
            known[:] = left
            return count

    @property
    def is_released(self) -> bool:
        return self._is_released

    def release(self) -> None:
        """Nobody will ask for the result any more: its memory is given back, now or once it is there."""
        self._is_released = True
        with self._condition:
            if self.done():
                self._result = None

    def settle(self, value: T) -> None:
        """The call returned."""
        self.set_result(value)
        if self._is_released:
            self._result = None
