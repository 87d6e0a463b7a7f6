"""One function for many inputs: in messages that are worth sending, and not more at a time than somebody takes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import islice
from typing import Any

from turnout.futures.chunks import each_item, each_row
from turnout.futures.engine import Task, Terms
from turnout.futures.errors import EngineLost, WorkerDied
from turnout.futures.packing import RAISED, unpack
from turnout.futures.pool import Pool
from turnout.futures.progress import Bar
from turnout.futures.record import Record

_SECONDS = 0.01  # that a chunk should take
_MOST_ITEMS = 1 << 14  # in a chunk
_GROWTH = 8  # by which a chunk may be longer than the one before
_AHEAD = 3  # chunks for each worker, at least, that are on their way
_KEPT = 1 << 28  # bytes of results that wait for somebody who takes them
#: Inputs that may be read in any thread; of what can be changed, a copy.
_AT_HAND = (list, tuple, range, dict, set, frozenset, str, bytes)


class Mapped:
    """From any thread; but what the input is read in is the thread of who asks for results, unless it lies at hand."""

    def __init__(
        self, pool: Pool, function: Callable[..., Any], iterables: Sequence[Iterable[Any]], terms: Terms,
        chunksize: int | None, buffersize: int | None, *, is_ordered: bool,
    ) -> None:  # fmt: skip
        self.pool = pool
        self._function = function
        self._terms = terms
        self._is_ordered = is_ordered
        self._is_at_hand = all(isinstance(each, _AT_HAND) for each in iterables)
        self._input = (_AtHand if self._is_at_hand else _Unread)(iterables)
        self._call = each_item if len(iterables) == 1 else each_row
        self._chunksize = 1 if terms.seconds is not None else chunksize
        self._buffersize = buffersize
        self._lock = threading.RLock()
        self._change = threading.Condition(self._lock)
        self._chunks: deque[_Chunk] = deque()
        """not taken yet: in the order of the input, or of those that are done"""
        self._going: set[_Chunk] = set()
        self._items = 0
        self._bytes = 0
        self._size = 1
        self._pace: float | None = None
        self._is_over = False
        self._is_finishing = False
        self.is_cancelled = False

    def results(self, timeout: float | None, *, progress: bool) -> Iterator[Any]:
        """Begins at once. What is left is cancelled when somebody has begun to take them, and takes no more."""
        until = None if timeout is None else time.monotonic() + timeout
        self.pool.sources.add(self)
        try:
            self._feed()
        except BaseException:
            self._call_off()
            raise
        return self._iterate(until, Bar(self._input.total) if progress else None)

    def _iterate(self, until: float | None, bar: Bar | None) -> Iterator[Any]:
        try:
            while (chunk := self._next(until)) is not None:
                values, error = chunk.outcome()
                if bar is not None:
                    bar.advance(len(values))
                yield from values
                if error is not None:
                    raise error
        except GeneratorExit:  # it may be the garbage collector, amid anything
            raise
        except BaseException:
            self._call_off()
            raise
        finally:
            self.cancel()
            if bar is not None:
                bar.close()

    def finish(self) -> None:
        """Has all that is left done, though nobody takes it."""
        self._is_finishing = True
        while not self._is_over:
            self._feed()
            with self._change:
                self._change.wait_for(lambda: self._is_over or self._may_take(), 1.0)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.take_no_more()

    def _call_off(self) -> None:
        """Nobody takes what is on its way."""
        self.cancel()
        with self._lock:
            going = list(self._going)
        for chunk in going:
            chunk.call_off()

    def take_no_more(self) -> None:
        """Of the input."""
        with self._change:
            self._is_over = True
            self.pool.sources.discard(self)
            self._change.notify_all()

    def _next(self, until: float | None) -> _Chunk | None:
        while True:
            self._feed()
            with self._change:
                if self._chunks and self._chunks[0].is_done:
                    chunk = self._chunks.popleft()
                    self._items -= len(chunk.rows)
                    self._bytes -= chunk.size
                    return chunk
                if self._is_over and not self._chunks and not self._going:
                    return None
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                if self._is_over or self._going:
                    self._change.wait(left)

    def _feed(self) -> None:
        """Submits as much as may be on its way."""
        while True:
            with self._lock:
                if self._is_over or not self._may_take():
                    return
                rows = self._input.take(self._next_size())
                if not rows:
                    self.take_no_more()
                    return
                chunk = _Chunk(self, rows)
                self._going.add(chunk)
                self._items += len(rows)
                if self._is_ordered:
                    self._chunks.append(chunk)
            self._submit(chunk)

    def _submit(self, chunk: _Chunk) -> None:
        """One that is refused fails where its results would be: those before it are taken first."""
        try:
            self.pool.hand_on(chunk)
        except Exception as error:
            self.take_no_more()
            chunk.refuse(error)
            self._keep(chunk, None)

    def _may_take(self) -> bool:
        each = self._size * (self._pace or _SECONDS)
        most = self.pool.workers * max(_AHEAD, min(1000, int(2 * _SECONDS / max(each, 1e-6))))
        if len(self._going) >= most:
            return False
        if self._is_finishing:
            return True
        if self._buffersize is not None:
            return self._items < self._buffersize
        return self._bytes < _KEPT if self._is_at_hand else self._items < 2 * most * self._size

    def _next_size(self) -> int:
        if self._chunksize is not None:
            self._size = self._chunksize
        elif self._pace is not None:
            size = min(_MOST_ITEMS, self._size * _GROWTH, int(_SECONDS / max(self._pace, 1e-9)))
            if self._input.total is not None:  # towards the end they get shorter, so that all workers end together
                size = min(size, (self._input.total - self._input.taken) // (2 * self.pool.workers))
            self._size = max(1, size)
        if self._buffersize is not None:
            return max(1, min(self._size, self._buffersize // self.pool.workers))
        return self._size

    def task(self, rows: Sequence[Any]) -> tuple[Any, tuple[Any, ...], Terms]:
        """How some inputs are called. If their process dies, each is on its own, for one of them may be the cause."""
        terms = self._terms if len(rows) == 1 else replace(self._terms, retries=0)
        return self._call, (self._function, rows), terms

    def done(self, chunk: _Chunk, seconds: float | None) -> None:
        """In a thread of the engine."""
        self._keep(chunk, seconds)
        if self._is_at_hand:
            self._feed()
        self.pool.one_less()  # last: while it is counted, nobody takes all for done

    def _keep(self, chunk: _Chunk, seconds: float | None) -> None:
        with self._change:
            self._going.discard(chunk)
            self._bytes += chunk.size
            if seconds is not None:
                pace = seconds / len(chunk.rows)
                self._pace = pace if self._pace is None else self._pace + 0.3 * (pace - self._pace)
            if not self._is_ordered:
                self._chunks.append(chunk)
            self._change.notify_all()

    def split(self, chunk: _Chunk) -> None:
        """One of its inputs killed the process: each half anew."""
        half = len(chunk.rows) // 2
        with self._lock:
            second = _Chunk(self, chunk.rows[half:])
            chunk.begin_anew(chunk.rows[:half])
            if self._is_ordered:
                self._chunks.insert(self._chunks.index(chunk) + 1, second)
            self._going.add(second)
        self._submit(chunk)
        self._submit(second)
        self.pool.one_less()


class _AtHand:
    """Inputs all of which are there."""

    def __init__(self, given: Sequence[Any]) -> None:
        self._given = [each if isinstance(each, (tuple, range)) else list(each) for each in given]
        self.total: int | None = min(map(len, self._given), default=0)
        self.taken = 0

    def take(self, count: int) -> Sequence[Any]:
        """The next so many, as far as there are."""
        some = slice(self.taken, min(self.taken + count, self.total or 0))
        found: Sequence[Any] = (
            self._given[0][some]
            if len(self._given) == 1
            else list(zip(*(each[some] for each in self._given), strict=True))
        )
        self.taken += len(found)
        return found


class _Unread:
    """Inputs that are made while they are read."""

    total: int | None = None
    taken = 0

    def __init__(self, given: Sequence[Iterable[Any]]) -> None:
        self._rest = iter(given[0]) if len(given) == 1 else zip(*given, strict=False)

    def take(self, count: int) -> Sequence[Any]:
        return list(islice(self._rest, count))


class _Chunk(Task):
    __slots__ = ("_error", "_found", "_mapped", "_recall", "is_done", "rows", "size")

    def __init__(self, mapped: Mapped, rows: Sequence[Any]) -> None:
        self._mapped = mapped
        self.begin_anew(rows)

    def begin_anew(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self.function, self.args, self.terms = self._mapped.task(rows)
        self.kwargs: dict[str, Any] = {}
        self.is_done = False
        self.size = 0
        self._found: tuple[int, bytes, list[Any]] | None = None
        self._error: BaseException | None = None
        self._recall: Callable[[], object] | None = None

    def outcome(self) -> tuple[list[Any], BaseException | None]:
        """What came of them, up to the first that failed, and how that did."""
        if self._found is None:
            return [], self._error
        try:
            values, trouble, _ = unpack(*self._found)
        except BaseException as error:
            return [], error
        return values, None if trouble is None else _raised(trouble)

    def begin(self) -> bool:
        if self._mapped.is_cancelled:
            self._mapped.pool.one_less()
        return not self._mapped.is_cancelled

    def end(self, ended: int, data: bytes, buffers: Iterable[Any], seconds: float) -> None:
        kept = list(buffers)
        self._found, self.size = (ended, data, kept), len(data) + sum(memoryview(each).nbytes for each in kept)
        if self._mapped.pool.record is not None:
            self._count(self._mapped.pool.record, seconds)
        self._finish(seconds)

    def _count(self, record: Record, seconds: float) -> None:
        assert self._found is not None
        try:
            _, trouble, raised = unpack(*self._found)
            error = None if trouble is None else _raised(trouble)
        except BaseException as unread:
            error, raised = unread, {f"{type(unread).__name__}: {unread}": len(self.rows)}
        record.count(self.args[0], len(self.rows), seconds, raised, error)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, WorkerDied) and len(self.rows) > 1:
            self._mapped.split(self)
            return
        if isinstance(error, EngineLost):
            self._mapped.take_no_more()
        if self._mapped.pool.record is not None:
            self._mapped.pool.record.count_failure(self.args[0], 0.0, error, len(self.rows))
        self._error = error
        self._finish(None)

    def on_cancel(self, then: Callable[[], object]) -> None:
        self._recall = then

    def call_off(self) -> None:
        recall = self._recall
        if recall is not None:
            recall()

    def refuse(self, error: BaseException) -> None:
        self._error = error
        self.is_done = True

    def drop(self) -> None:
        self._error = CancelledError()
        self._finish(None)

    def _finish(self, seconds: float | None) -> None:
        self.is_done = True
        mapped = self._mapped
        self._recall = None
        del self._mapped  # who keeps what came of it does not keep the workers
        mapped.done(self, seconds)


def _raised(trouble: bytes) -> BaseException:
    try:
        unpack(RAISED, trouble, ())
    except BaseException as error:
        return error
    raise AssertionError("what is packed as an error raises one")
