"""A call that came from elsewhere, in a process that another library started."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from turnout.futures.packing import RAISED, make, pack_error

#: How it ended, with what, and the seconds it took; see `packing.make`.
Outcome = tuple[int, bytes, list[Any], float]


def call(function: bytes, arguments: bytes, buffers: Sequence[Any] = (), seconds: float | None = None) -> Outcome:
    """Makes it. Raises nothing. If it may take only so many seconds, it is made in a process of its own, which is
    killed then."""
    if seconds is not None:
        return _timed(function, arguments, buffers, seconds)
    began = time.perf_counter()
    try:
        made = make(_loaded(function), *pickle.loads(arguments, buffers=buffers))
    except BaseException as error:  # it cannot be read here
        made = RAISED, pack_error(error), []
    return *made, time.perf_counter() - began


@lru_cache(maxsize=64)
def _loaded(function: bytes) -> Any:
    return pickle.loads(function)


_lock = threading.Lock()
_aside: Any = None


def _timed(function: bytes, arguments: bytes, buffers: Sequence[Any], seconds: float) -> Outcome:
    from turnout.futures.executor import Executor

    global _aside
    with _lock:
        if _aside is None:
            _aside = Executor(workers=1, retries=0)
    began = time.perf_counter()
    try:
        kept = [bytearray(each) for each in buffers]
        made: Outcome = _aside.options(timeout=seconds).submit(call, function, arguments, kept).result()
        return made
    except BaseException as error:
        return RAISED, pack_error(error), [], time.perf_counter() - began
