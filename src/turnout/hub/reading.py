"""What routes share: reading the store from the event loop, in a thread and one short transaction; and their keys."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Annotated, TypeVar

from fastapi import Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from turnout.store.store import Connection, Store

T = TypeVar("T")
#: Makes a request that is repeated, because its answer got lost, the same one; see `turnout.store.requests.once`.
Key = Annotated[str | None, Header(min_length=8, max_length=128)]


class Streamed(StreamingResponse):
    """What a generator makes, piece by piece. When nobody takes it any more the generator is closed at once, and not
    when it happens to be found: it may hold files, or a process."""

    def __init__(self, pieces: Generator[bytes, None, None], media_type: str, headers: Mapping[str, str] | None = None):
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._pieces.close()


async def reading(store: Store, function: Callable[[Connection], T]) -> T:
    """What `function` makes of what is stored now."""

    def work() -> T:
        with store.read() as connection:
            return function(connection)

    return await run_in_threadpool(work)
