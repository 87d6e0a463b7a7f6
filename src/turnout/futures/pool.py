"""What an executor and those made of it share: the engine, and what it has to do."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from turnout.futures.engine import Engine, Task, Terms
from turnout.futures.future import Future
from turnout.futures.interrupts import Unbroken
from turnout.futures.packing import unpack
from turnout.futures.record import Record


class Source(Protocol):
    """What makes tasks while it goes on."""

    def finish(self) -> None:
        """Submits all that is left, as fast as it is made. Returns when that is done."""

    def cancel(self) -> None:
        """It makes no more."""


class Pool:
    """From any thread. The engine starts with the first task. It stops also when nobody has the pool any more, and no
    task is left. In a fork of this process nothing can be submitted, and nothing is ended."""

    def __init__(self, engine: Engine, workers: int, record: Record | None = None) -> None:
        self.engine = engine
        self.workers = workers
        self.record = record
        self.sources: set[Source] = set()
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._open = 0
        self._is_on = False
        self._is_closed = False
        self._process = os.getpid()

    def start(self) -> None:
        """Idempotent; RuntimeError after `close`."""
        if self._is_elsewhere:  # who had the lock when this process was forked has it for ever
            raise RuntimeError("this executor belongs to another process; make one here")
        with self._lock:
            if self._is_closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self._is_on:
                self.engine.start()
                self._is_on = True
                self._forgotten = weakref.finalize(self, _stop_forgotten, self.engine, self._process)
                self._forgotten.atexit = False
                _RUNNING.add(self)

    def submit(self, task: Task) -> None:
        """As the engine's."""
        if not self._is_on or self._is_closed or self._is_elsewhere:
            self.start()
        self.hand_on(task)

    def hand_on(self, task: Task) -> None:
        """The same of a task that was promised before `close`."""
        with Unbroken():
            with self._lock:
                self._open += 1
            try:
                self.engine.submit(task)
            except BaseException:
                self.one_less()
                raise

    def one_less(self) -> None:
        with self._lock:
            self._open -= 1
            if not self._open:
                self._idle.notify_all()

    def close(self, *, wait: bool, cancel: bool) -> None:
        """Nothing new is taken. What was, is done, unless it is to be cancelled and was not begun."""
        if self._is_elsewhere:
            return
        with self._lock:
            self._is_closed = True
        if cancel:
            for source in list(self.sources):
                source.cancel()
            if self._is_on:
                self.engine.drop_waiting()
        if wait:
            self._finish()
        else:
            threading.Thread(target=self._finish, name="turnout shutdown", daemon=True).start()

    def _finish(self) -> None:
        try:
            for source in list(self.sources):
                source.finish()
            with self._lock:
                self._idle.wait_for(lambda: not self._open)
        finally:
            self.stop()

    def stop(self) -> None:
        """Now, whatever goes on. Idempotent."""
        if self._is_elsewhere:
            return
        with self._lock:
            self._is_closed = True
            is_on, self._is_on = self._is_on, False
        for source in list(self.sources):
            source.cancel()
        if is_on:
            self._forgotten.detach()
            self.engine.stop()
            _RUNNING.discard(self)
            if self.record is not None:
                self.record.keep()

    @property
    def _is_elsewhere(self) -> bool:
        return self._process != os.getpid()


def _stop_forgotten(engine: Engine, process: int) -> None:
    """Whoever has let go of the last of it may be a thread of the engine, which `stop` waits for."""
    if process == os.getpid():
        threading.Thread(target=engine.stop, name="turnout shutdown").start()


_RUNNING: weakref.WeakSet[Pool] = weakref.WeakSet()


def _finish_all() -> None:
    """As the executors of Python itself: what was submitted is done before this process ends."""
    for pool in list(_RUNNING):
        pool.close(wait=True, cancel=False)


atexit.register(_finish_all)


class Submitted(Task):
    """A task with a future."""

    __slots__ = ("future", "pool")

    def __init__(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        terms: Terms,
        future: Future[Any],
        pool: Pool,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.terms = terms
        self.future = future
        self.pool = pool

    def begin(self) -> bool:
        if self.future.set_running_or_notify_cancel():
            return True
        self.pool.one_less()
        return False

    def end(self, ended: int, data: bytes, buffers: Iterable[Any], seconds: float) -> None:
        try:
            value = unpack(ended, data, buffers)
        except BaseException as error:
            self._fail(error, seconds)
            return
        if self.pool.record is not None:
            self.pool.record.count(self.function, 1, seconds)
        self.future.settle(value)
        self.pool.one_less()

    def fail(self, error: BaseException) -> None:
        self._fail(error, 0.0)

    def _fail(self, error: BaseException, seconds: float) -> None:
        if self.pool.record is not None:
            self.pool.record.count_failure(self.function, seconds, error)
        self.future.set_exception(error)
        self.pool.one_less()

    def on_cancel(self, then: Callable[[], object]) -> None:
        self.future.recall = then

    def drop(self) -> None:
        if self.future.cancel():
            self.future.set_running_or_notify_cancel()
        self.pool.one_less()
