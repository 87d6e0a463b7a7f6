"""What `tasks` has called. Workers of all contenders import it, so it loads little."""

from __future__ import annotations

import os
import time
from typing import Any

WORKERS = 2


def nothing(number: int) -> int:
    return number


def a_millisecond(number: int) -> int:
    end = time.perf_counter() + 0.001
    while time.perf_counter() < end:
        pass
    return number


def doubled(array: Any) -> Any:
    return array * 2


def meet(folder: str) -> None:
    """Returns when all workers are here."""
    os.close(os.open(f"{folder}/{os.getpid()}", os.O_CREAT))
    while len(os.listdir(folder)) < WORKERS:
        time.sleep(0.0005)
