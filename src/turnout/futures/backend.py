"""Calls through a calculation backend, whoever wrote it: something with `start`, `stop` and `submit_task`."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent import futures
from typing import Any

from turnout.errors import InvalidInput
from turnout.futures.calling import call_packed
from turnout.futures.engine import Needs
from turnout.futures.errors import EngineLost
from turnout.futures.remote import Message, Remote


class BackendEngine(Remote):
    """A backend that was not started is started, and stopped in the end; one that was is left as it is."""

    def __init__(self, backend: Any, needs: Needs) -> None:
        super().__init__(needs)
        self._backend = backend
        self._is_ours = False
        self._sent: dict[Message, Any] = {}

    def open(self) -> None:
        self._is_ours = not getattr(self._backend, "started", False)
        if self._is_ours:
            self._backend.start()

    def close(self) -> None:
        self._sent.clear()
        if self._is_ours:
            self._is_ours = False
            self._backend.stop()

    def send(self, message: Message) -> None:
        future = self._backend.submit_task(make, message.packed())
        self._sent[message] = future
        _in_its_loop(future, lambda: future.add_done_callback(lambda done: self._hear(message, done)))

    def recall(self, message: Message) -> None:
        future = self._sent.pop(message, None)
        if future is not None:
            _in_its_loop(future, future.cancel)

    def scale(self, workers: int) -> None:
        scale = getattr(self._backend, "scale", None)
        if scale is None:
            what = f"the number of workers of a {type(self._backend).__name__} cannot be changed"
            raise InvalidInput(what, hint="make another one, with as many")
        scale(workers)

    def _hear(self, message: Message, done: Any) -> None:
        self._sent.pop(message, None)
        try:
            self.ended(message, pickle.loads(done.result()))
        except (futures.CancelledError, asyncio.CancelledError) as error:
            gone = EngineLost("the backend cancelled the call")
            gone.__cause__ = error
            self.lost(message, gone)
        except BaseException as error:
            self.lost(message, error)


def make(packed: bytes, **_: Any) -> bytes:
    """On a worker. Some backends give every call more than it was submitted with, and most know nothing of buffers."""
    return call_packed(packed)


def _in_its_loop(future: Any, then: Callable[[], object]) -> None:
    """Those of asyncio may be touched only there; others anywhere."""
    if isinstance(future, asyncio.Future):
        future.get_loop().call_soon_threadsafe(then)
    else:
        then()
