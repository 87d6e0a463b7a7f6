"""The main thread decides; others only carry. Here is how they hand things to each other."""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import threading
import time
from typing import Callable, List, Tuple, TypeVar, Union

Action = Callable[[], None]
T = TypeVar("T")


class Mailbox:
    """What the main thread is to do: posted by any thread, or by itself for later. `take` does it."""

    def __init__(self) -> None:
        self._actions: "queue.SimpleQueue[Action]" = queue.SimpleQueue()
        self._later: List[Tuple[float, int, Action]] = []
        self._count = itertools.count()
        self._is_rung = False
        self._read, self._write = os.pipe()

    def fileno(self) -> int:
        """Readable when something was posted."""
        return self._read

    def post(self, action: Action) -> None:
        """From any thread. The bell is rung once for all that lies there."""
        self._actions.put(action)
        if not self._is_rung:
            self._is_rung = True
            os.write(self._write, b"!")

    def post_later(self, seconds: float, action: Action) -> None:
        """From the main thread only."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._count), action))

    def seconds_left(self, most: float) -> float:
        """Until there is something to do, by what is known now; `most` at most."""
        return max(0.0, min(most, self._later[0][0] - time.monotonic())) if self._later else most

    def hear(self) -> None:
        """The bell rang (`fileno` is readable); `take` has to follow."""
        os.read(self._read, 64)
        self._is_rung = False

    def take(self) -> None:
        """Does all that is due."""
        while self._later and self._later[0][0] <= time.monotonic():
            heapq.heappop(self._later)[2]()
        while True:
            try:
                action = self._actions.get_nowait()
            except queue.Empty:
                return
            action()


class Carrier:
    """A thread that does one thing after the other. The result or exception of each goes to the main thread."""

    def __init__(self, name: str, mailbox: Mailbox) -> None:
        self._mailbox = mailbox
        self._work: "queue.SimpleQueue[Action]" = queue.SimpleQueue()
        self._open = 0
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether something was not brought to its end yet."""
        return self._open > 0

    def do(self, work: Callable[[], T], then: Callable[[Union[T, Exception]], None]) -> None:
        """From the main thread only."""
        self._open += 1

        def finish(outcome: Union[T, Exception]) -> None:
            self._open -= 1
            then(outcome)

        def action() -> None:
            try:
                outcome: Union[T, Exception] = work()
            except Exception as error:
                outcome = error
            self._mailbox.post(lambda: finish(outcome))

        self._work.put(action)

    def _run(self) -> None:
        while True:
            self._work.get()()
