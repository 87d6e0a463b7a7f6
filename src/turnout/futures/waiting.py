"""Doing something once several futures have an outcome."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any


def when_done(these: Sequence[futures.Future[Any]], then: Callable[[], object]) -> None:
    """Calls `then` once, in the thread in which the last of them gets its outcome; now, if all have one."""
    lock = threading.Lock()
    left = len(these)

    def one_less(_: futures.Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            is_last = left == 0
        if is_last:
            then()

    for each in these:
        each.add_done_callback(one_less)


_todo = threading.local()


def one_after_another(do: Callable[[], object]) -> None:
    """Does it now, or, when this thread is amid another one, after that: so a chain may be as long as it likes. What is
    done raises nothing."""
    queue: deque[Callable[[], object]] | None = getattr(_todo, "queue", None)
    if queue is not None:
        queue.append(do)
        return
    _todo.queue = queue = deque([do])
    try:
        while queue:
            queue.popleft()()
    finally:
        del _todo.queue
