"""What workers are given to do. It loads little: a worker that is killed again and again gets to its calls soon."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def triple(number: int) -> int:
    """Long enough that a kill hits it now and then."""
    return number * 3 + 0 * sum(range(15_000))


def add_one(array: Any) -> Any:
    """In place, as is done to save memory."""
    array += 1
    return array


def add_one_and_die_once(array: Any, path: str) -> float:
    array += 1
    if not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT))
        os.kill(os.getpid(), signal.SIGKILL)
    return float(array.sum())


def hang(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    signal.pause()


def wait_for(path: str) -> str:
    while not os.path.exists(path):
        time.sleep(0.002)
    return path
