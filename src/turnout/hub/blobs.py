"""Blobs over HTTP: many in one stream, each checked against its digest before it is kept."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from typing import IO

from starlette.concurrency import run_in_threadpool

from turnout.blobs.base import Blobs
from turnout.errors import InvalidInput
from turnout.wire import pack

__all__ = ["Blobs", "receive_blob", "receive_pack", "send_pack"]

MAX_BLOB = 16 << 30
_IN_MEMORY = 32 << 20
_PIECE = 1 << 20


def send_pack(blobs: Blobs, digests: list[str]) -> Generator[bytes, None, None]:
    """The pack of these blobs, in their order, in pieces of about a megabyte. A missing or damaged one cuts the stream,
    which the reader notices."""
    waiting: list[bytes] = []
    size = 0
    for digest in digests:
        length = blobs.size(digest)
        waiting.append(pack.header(digest, length))
        if length <= _PIECE:
            waiting.append(blobs.read(digest))
            size += length
            if size < _PIECE:
                continue
        yield b"".join(waiting)
        waiting, size = [], 0
        if length > _PIECE:
            with blobs.open(digest) as file:
                yield from pack.pieces(file, length, most=_PIECE)
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
            raise InvalidInput(f"an upload may have at most {MAX_BLOB} bytes", hint="split the file")
    spool.seek(0)


def _store(blobs: Blobs, spool: IO[bytes]) -> int:
    count = 0

    def small_ones() -> Iterator[tuple[str, bytes]]:
        """Those to be kept many at a time. A large one that lies between them is kept in passing."""
        nonlocal count
        for digest, size in pack.headers(spool, max_blob=MAX_BLOB):  # type: ignore[arg-type]
            content = pack.pieces(spool, size, most=_PIECE)  # type: ignore[arg-type]
            if size > _PIECE:
                blobs.put_stream(digest, content)
                for _ in content:
                    pass  # a blob that is here already was not read to its end
            else:
                yield digest, b"".join(content)
            count += 1

    try:
        blobs.put_many(small_ones())
    except pack.BadPack as error:
        raise InvalidInput(f"the upload is damaged: {error}", hint="try again") from error
    return count
