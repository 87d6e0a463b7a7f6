"""A call that came from elsewhere, in a process that another library started."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from turnout.futures.packing import RAISED, make, pack_error
from turnout.futures.shelf import Shelved, shelve

#: How it ended, with what, and the seconds it took; see `packing.make`. Buffers may lie on a shelf.
Outcome = tuple[int, bytes, list[Any], float]


def call(function: bytes, arguments: bytes, buffers: Sequence[Any], seconds: float | None, folder: str) -> Outcome:
    """Makes it. Raises nothing. If it may take only so many seconds, it is made in a process of its own, which is
    killed then. Large buffers of what comes of it are put into `folder`, if there is one."""
    if seconds is not None:
        return _timed(function, arguments, buffers, seconds, folder)
    began = time.perf_counter()
    try:
        found = [each.look() if isinstance(each, Shelved) else each for each in buffers]
        ended, data, apart = make(_loaded(function), *pickle.loads(arguments, buffers=found))
    except BaseException as error:  # it cannot be read here
        ended, data, apart = RAISED, pack_error(error), []
    took = time.perf_counter() - began
    return ended, data, [shelve(each, folder) for each in apart] if folder else apart, took


def call_packed(
    packed: bytes | memoryview, buffers: Sequence[Any] = (), apart: list[pickle.PickleBuffer] | None = None
) -> bytes:
    """Makes the call of a `Message`; the pickle of its outcome. `apart` as there. Raises nothing."""
    outcome = call(*pickle.loads(packed, buffers=buffers))
    return pickle.dumps(outcome, 5, buffer_callback=None if apart is None else apart.append)


@lru_cache(maxsize=64)
def _loaded(function: bytes) -> Any:
    return pickle.loads(function)


_lock = threading.Lock()
_aside: Any = None


def _timed(function: bytes, arguments: bytes, buffers: Sequence[Any], seconds: float, folder: str) -> Outcome:
    from turnout.futures.executor import Executor

    global _aside
    with _lock:
        if _aside is None:
            _aside = Executor(workers=1, retries=0)
    began = time.perf_counter()
    try:
        kept = [each if isinstance(each, Shelved) else bytearray(each) for each in buffers]
        made: Outcome = _aside.options(timeout=seconds).submit(call, function, arguments, kept, None, folder).result()
        return made
    except BaseException as error:
        return RAISED, pack_error(error), [], time.perf_counter() - began
