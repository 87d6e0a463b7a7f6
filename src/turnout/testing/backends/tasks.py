"""What workers are given to do by the kit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any


class OddError(Exception):
    """Cannot be pickled: it cannot be made again from what it says of itself."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def begin_and_wait(begun: str, until: str) -> str:
    """A file tells that it has begun, another when it may end."""
    draft = Path(f"{begun}.draft")
    draft.write_text(str(os.getpid()))
    draft.rename(begun)
    while not os.path.exists(until):
        if not os.path.isdir(os.path.dirname(until)):
            raise RuntimeError("the check that wanted this is over")
        time.sleep(0.005)
    return begun


def meet(mine: str, other: str) -> bool:
    """Ends when the other one has begun too."""
    return bool(begin_and_wait(mine, other))


def touch(path: str) -> None:
    Path(path).touch()


def count(path: str) -> int:
    """How often it was called."""
    with open(path, "a", encoding="ascii") as file:
        file.write("x")
    return os.path.getsize(path)


def fail(word: str) -> None:
    raise LookupError(word)


def fail_oddly() -> None:
    raise OddError("this", "that")


def add(*numbers: int, more: int = 0) -> int:
    return sum(numbers) + more


def total(nested: Any) -> int:
    """Of all numbers in it, however deep."""
    if isinstance(nested, dict):
        return total(list(nested.values()))
    return sum(map(total, nested)) if isinstance(nested, (list, tuple, set)) else int(nested)


def told(word: str, available_resources: Any) -> tuple[str, Any, Any]:
    return word, available_resources, available_resources.gpu_device_indices


def told_much(**given: Any) -> list[str]:
    return sorted(given)


def variable(name: str) -> str | None:
    return os.environ.get(name)


def process() -> int:
    return os.getpid()


def start_a_process() -> int | None:
    child = multiprocessing.get_context("spawn").Process(target=os._exit, args=(3,))
    child.start()
    child.join()
    return child.exitcode


def a_lock() -> Any:
    return threading.Lock()


def an_error_in_a_tuple() -> tuple[Exception, str]:
    return ValueError("fine"), "not a failure"


def leave() -> None:
    sys.exit(3)


def leave_at_once() -> None:
    os._exit(7)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt
