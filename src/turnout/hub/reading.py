"""What routes share: reading the store from the event loop, in a thread and one short transaction; and their keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Header
from starlette.concurrency import run_in_threadpool

from turnout.store.store import Connection, Store

T = TypeVar("T")
#: Makes a request that is repeated, because its answer got lost, the same one; see `turnout.store.requests.once`.
Key = Annotated[str | None, Header(min_length=8, max_length=128)]


async def reading(store: Store, function: Callable[[Connection], T]) -> T:
    """What `function` makes of what is stored now."""

    def work() -> T:
        with store.read() as connection:
            return function(connection)

    return await run_in_threadpool(work)
