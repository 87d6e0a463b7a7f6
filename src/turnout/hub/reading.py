"""Reading the store from the event loop: in a thread, in one short transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from turnout.store.store import Connection, Store

T = TypeVar("T")


async def reading(store: Store, function: Callable[[Connection], T]) -> T:
    """What `function` makes of what is stored now."""

    def work() -> T:
        with store.read() as connection:
            return function(connection)

    return await run_in_threadpool(work)
