"""Blobs over HTTP: many in one stream, each checked against its digest before it is kept."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import IO

from starlette.concurrency import run_in_threadpool

from turnout.blobs.base import Blobs
from turnout.errors import InvalidInput
from turnout.wire import pack

__all__ = ["Blobs", "receive_blob", "receive_pack", "send_pack"]

MAX_BLOB = 16 << 30
_IN_MEMORY = 32 << 20
_PIECE = 1 << 20


def send_pack(blobs: Blobs, digests: list[str]) -> Iterator[bytes]:
    """The pack of these blobs, in pieces. A missing or damaged one cuts the stream, which the reader notices."""
    waiting: list[bytes] = []
    size = 0
    for digest in digests:
        content = blobs.read(digest)
        waiting += [pack.header(digest, len(content)), content]
        size += len(content)
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


async def receive_pack(blobs: Blobs, stream: AsyncIterator[bytes]) -> dict[str, int]:
    """Keeps every blob of a pack; on disk when this returns. InvalidInput when it is damaged: then none is promised."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        await _fill(spool, stream)
        return {"stored": await run_in_threadpool(_store, blobs, spool)}


async def receive_blob(blobs: Blobs, digest: str, stream: AsyncIterator[bytes]) -> dict[str, int]:
    """Keeps one blob of any size; on disk when this returns. InvalidInput when it is not what its digest says."""
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
        await _fill(spool, stream)
        await run_in_threadpool(blobs.put_stream, digest, iter(lambda: spool.read(_PIECE), b""))
        return {"stored": 1}


async def _fill(spool: IO[bytes], stream: AsyncIterator[bytes]) -> None:
    async for part in stream:
        spool.write(part)
        if spool.tell() > MAX_BLOB:
            raise InvalidInput(f"an upload may have at most {MAX_BLOB} bytes")
    spool.seek(0)


def _store(blobs: Blobs, spool: IO[bytes]) -> int:
    count = 0

    def counted() -> Iterator[tuple[str, bytes]]:
        nonlocal count
        for item in pack.read(spool, max_blob=MAX_BLOB):  # type: ignore[arg-type]
            count += 1
            yield item

    try:
        blobs.put_many(counted())
    except pack.BadPack as error:
        raise InvalidInput(f"the upload is damaged: {error}", hint="try again") from error
    return count
