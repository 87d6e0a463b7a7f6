"""One thread writes. What waits is written together: many callers, one transaction, one fsync.

A caller's function runs inside that transaction and its answer is given out only after the commit: answered means on
disk.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from turnout.errors import TurnoutError, Unavailable

T = TypeVar("T")
_log = logging.getLogger(__name__)
_MOST_TOGETHER = 256
_MOST_TRIES = 5
#: PostgreSQL undid the transaction because of what another hub did: a deadlock, or a conflict of snapshots.
_LOST_RACES = frozenset({"40P01", "40001"})


@dataclass(slots=True)
class Tx:
    """A write transaction. `touch` names what changed; whoever waits for that is woken after the commit."""

    connection: sa.Connection
    now: float
    touched: set[str] = field(default_factory=set)

    def touch(self, *topics: str) -> None:
        self.touched.update(topics)


class _Waiting:
    """`alone`: its work is not for a transaction, but for the engine itself, while nobody else writes."""

    __slots__ = ("alone", "answer", "work")

    def __init__(self, work: Callable[[Any], Any], *, alone: bool = False) -> None:
        self.work = work
        self.alone = alone
        self.answer: Future[Any] = Future()


class Writer:
    """Owns the write connection. `submit` from any thread; results come as futures.

    `work` must do nothing but SQL on its transaction, may be called more than once (when a transaction is repeated),
    and must not block. A TurnoutError it raises is its answer and undoes nothing it did before raising, so it must
    raise before it writes. Any other exception rolls its own work back alone and is passed on; the writer goes on. A
    future can be cancelled until its work begins; then nothing is written.
    """

    def __init__(self, engine: Engine, *, on_commit: Callable[[frozenset[str]], None] = lambda topics: None) -> None:
        self._engine = engine
        self._on_commit = on_commit
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._stopped = False
        self._accepting = threading.Lock()  # what is accepted stands in the queue before the end does

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Writes what was submitted before, then ends. What is submitted after is refused."""
        with self._accepting:
            self._stopped = True
            self._queue.put(None)
        self._thread.join(timeout=30)

    def submit(self, work: Callable[[Tx], T]) -> Future[T]:
        return self._accept(_Waiting(work))

    def submit_alone(self, work: Callable[[Engine], T]) -> Future[T]:
        """Calls `work` with the engine when no transaction is open; nobody writes before it returns."""
        return self._accept(_Waiting(work, alone=True))

    def _accept(self, waiting: _Waiting) -> Future[Any]:
        with self._accepting:
            if self._stopped:
                raise Unavailable("the hub is stopping", hint="try again in a moment")
            self._queue.put(waiting)
        return waiting.answer

    def write(self, work: Callable[[Tx], T]) -> T:
        """Submit and wait for the commit."""
        return self.submit(work).result()

    def _run(self) -> None:
        while True:
            batch, ends = self._next_batch()
            for alone, group in itertools.groupby(batch, key=lambda waiting: waiting.alone):
                if not alone:
                    self._write_batch(list(group))
                for waiting in group if alone else ():
                    self._do_alone(waiting)
            if ends:
                return

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        batch: list[_Waiting] = []
        item = self._queue.get()
        while True:
            if item is None:
                return batch, True
            if item.answer.set_running_or_notify_cancel():
                batch.append(item)
            if len(batch) == _MOST_TOGETHER:
                return batch, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return batch, False

    def _write_batch(self, batch: list[_Waiting], tries: int = _MOST_TRIES) -> None:
        """All in one transaction; if that fails for whatever reason, each in its own; again if it lost a race."""
        try:
            results, touched = self._transact(batch)
        except Exception as error:
            if len(batch) > 1:
                for waiting in batch:
                    self._write_batch([waiting])
            elif tries > 1 and _has_lost_race(error):
                self._write_batch(batch, tries - 1)
            else:
                batch[0].answer.set_exception(_translate(error))
                if not isinstance(error, TurnoutError | sa.exc.DBAPIError):
                    _log.exception("a write failed")
            return
        for waiting, result in zip(batch, results, strict=True):
            if isinstance(result, TurnoutError):
                waiting.answer.set_exception(result)
            else:
                waiting.answer.set_result(result)
        if touched:
            self._tell(frozenset(touched))

    def _do_alone(self, waiting: _Waiting) -> None:
        try:
            waiting.answer.set_result(waiting.work(self._engine))
        except Exception as error:
            waiting.answer.set_exception(_translate(error))

    def _tell(self, topics: frozenset[str]) -> None:
        try:
            self._on_commit(topics)
        except Exception:  # whoever listens must not end the writing
            _log.exception("nobody was told of a commit")

    def _transact(self, batch: list[_Waiting]) -> tuple[list[Any], set[str]]:
        results: list[Any] = []
        with self._engine.begin() as connection:
            tx = Tx(connection, time.time())
            for waiting in batch:
                try:
                    results.append(waiting.work(tx))
                except TurnoutError as refusal:
                    results.append(refusal)
        return results, tx.touched


def _has_lost_race(error: Exception) -> bool:
    """Whether another hub's transaction came in between, so that the same work will go through when done again."""
    if isinstance(error, sa.exc.IntegrityError):
        return True
    return isinstance(error, sa.exc.DBAPIError) and getattr(error.orig, "sqlstate", None) in _LOST_RACES


def _translate(error: Exception) -> Exception:
    if isinstance(error, sa.exc.DBAPIError):
        return Unavailable(
            f"the store could not be written: {error.orig}",
            hint="nothing was changed; free disk space if it is full, then try again (`turnout doctor` looks at it)",
        )
    return error
