"""A worker: makes one call after the other, in a process of its own, until nobody wants more."""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import sys
import time
from collections import deque
from typing import Any, NamedTuple

from turnout.futures.local.frames import (
    BUFFER,
    CALL,
    CALLED,
    CALLS,
    DROP,
    DROPPED,
    FREED,
    FUNCTION,
    HEAD,
    LEARN,
    PLACE,
    READY,
    RESULT,
    RESULTS,
    SEGMENT,
    frame,
)  # fmt: skip
from turnout.futures.local.segments import Segments, Views
from turnout.futures.packing import RAISED, make, pack_error

_SHORT = 0.0002  # seconds: results of calls that take no longer are sent together
_TOGETHER = 0.001  # seconds for which a result may wait for others
_AT_ONCE = 64
_SET_SIGNAL = 10  # F_SETSIG, which `fcntl` does not name


class Call(NamedTuple):
    number: int
    function: int
    arguments: memoryview
    buffers: list[bytes]


class Worker:
    """`tokens` does not block; see `frames` for what they are. At most `most` buffers of others are kept."""

    def __init__(self, line: int, tokens: int, place: mmap.mmap, most: int) -> None:
        self._in = _Reader(line)
        self._tokens = tokens
        self._place = place
        self._epoch = 0
        self._calls: deque[Call] = deque()
        self._functions: dict[int, Any] = {}
        self._paces: dict[int, float] = {}
        self._freed: list[int] = []
        self._segments = Segments(most)
        self._views = Views(self._freed.append, most)
        self._results = _Results(line)

    def run(self) -> None:
        """Raises EOFError when nobody wants anything any more."""
        while True:
            claimed = self._claim() if self._calls else b""
            if not claimed:
                self._results.send(self._freed)
                _flush()
                self._receive()
                continue
            while claimed[-1] != self._epoch or len(self._calls) < len(claimed):
                self._receive()  # tokens come before their calls
            for _ in claimed:
                self._make(self._calls.popleft())

    def _claim(self) -> bytes:
        """Tokens for the next calls; more than one when they are short. None when all calls were taken back."""
        pace = self._paces.get(self._calls[0].function, 1.0)
        most = max(1, min(_AT_ONCE, len(self._calls), int(_SHORT / max(pace, 1e-6))))
        try:
            return os.read(self._tokens, most)
        except BlockingIOError:
            return b""

    def _receive(self) -> None:
        kind, length = HEAD.unpack(self._in.read(HEAD.size))
        body = self._in.read(length)
        if kind == CALLS:
            self._take(body)
        elif kind == LEARN:
            (number,) = FUNCTION.unpack_from(body)
            self._functions[number] = body[FUNCTION.size :]
        elif kind == DROP:
            count, self._epoch = DROPPED.unpack(body)
            for _ in range(count):
                self._calls.pop()
        elif kind == FREED:
            for (number,) in SEGMENT.iter_unpack(body):
                self._segments.free(number)

    def _take(self, body: bytes) -> None:
        at, view = 0, memoryview(body)
        while at < len(body):
            number, function, length, count = CALL.unpack_from(body, at)
            at += CALL.size
            arguments, at = view[at : at + length], at + length
            end = at + count * BUFFER.size
            buffers = [body[each : each + BUFFER.size] for each in range(at, end, BUFFER.size)]
            at = end
            self._calls.append(Call(number, function, arguments, buffers))

    def _make(self, call: Call) -> None:
        began = time.perf_counter()
        pace = self._paces.get(call.function, 1.0)
        self._results.before_a_call(pace, began, self._freed)
        self._place[:] = PLACE.pack(call.number, 0.0)
        ended, data, buffers = self._outcome(call)
        took = time.perf_counter() - began
        self._paces[call.function] = took if pace == 1.0 else pace + 0.2 * (took - pace)
        self._results.add(RESULT.pack(call.number, ended, took, len(data), len(buffers)), data, *buffers)

    def _outcome(self, call: Call) -> tuple[int, bytes, list[bytes]]:
        try:
            given = pickle.loads(call.arguments, buffers=map(self._views.get, call.buffers))
            function, args, kwargs = given if call.function == 0 else (self._function(call.function), *given)
            del given
            CALLED.pack_into(self._place, PLACE.size - CALLED.size, time.monotonic())
            ended, data, buffers = make(function, args, kwargs, keeps_all=self._segments.is_full)
            return ended, data, [self._segments.put(each) for each in buffers]
        except BaseException as error:
            return RAISED, pack_error(error), []

    def _function(self, number: int) -> Any:
        function = self._functions[number]
        if isinstance(function, bytes):
            function = self._functions[number] = pickle.loads(function)
        return function


class _Results:
    """What is to be told: at once, unless calls are so short that several results make one message."""

    def __init__(self, line: int) -> None:
        self._line = line
        self._waiting: list[bytes] = []
        self._since = 0.0

    def before_a_call(self, pace: float, now: float, freed: list[int]) -> None:
        if self._waiting and (pace > _SHORT or now - self._since > _TOGETHER):
            self.send(freed)

    def add(self, *parts: bytes) -> None:
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting += parts

    def send(self, freed: list[int]) -> None:
        said = frame(RESULTS, self._waiting) if self._waiting else b""
        self._waiting = []
        if freed:
            told = [freed.pop() for _ in range(len(freed))]
            said = frame(FREED, [SEGMENT.pack(each) for each in told]) + said
        _write(self._line, said)


class _Reader:
    """Reads exactly as much as is asked for, and from the file more than that."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._read = b""
        self._at = 0

    def read(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._read):
            parts, missing = [self._read[self._at :]], end - len(self._read)
            while missing > 0:
                part = os.read(self._file, max(missing, 1 << 18))
                if not part:
                    raise EOFError
                parts.append(part)
                missing -= len(part)
            self._read, self._at, end = b"".join(parts), 0, length
        found = self._read[self._at : end]
        self._at = end
        return found


def _write(file: int, what: bytes) -> None:
    view = memoryview(what)
    while view:
        view = view[os.write(file, view) :]


def _flush() -> None:
    """What the calls printed is seen now, and is not lost when this process is killed."""
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except (OSError, ValueError, AttributeError):
            pass


def _die_with(life: int) -> None:
    """Once the other end of this pipe is closed, the kernel kills us and what we started, whatever we are at."""
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgid(0))
    fcntl.fcntl(life, _SET_SIGNAL, 9)
    os.set_blocking(life, False)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    try:
        os.read(life, 1)
    except BlockingIOError:
        return
    os._exit(1)  # it was closed before that


def main(line: int, tokens: int, place: int, life: int, most: int) -> None:
    """These are numbers of files: the socket to the executor, the tokens, a place to note which call is at hand, and a
    pipe that ends when the executor does."""
    _die_with(life)
    memory = mmap.mmap(place, PLACE.size)
    _write(line, frame(READY, []))
    try:
        Worker(line, tokens, memory, most).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
