"""Blobs over HTTP, both ways: whatever their size, they pass through the hub piece by piece."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnout.blobs import BlobStore
from turnout.errors import Internal, InvalidInput, NotFound
from turnout.hub.blobs import receive_pack, send_pack
from turnout.wire import pack
from turnout.wire.manifest import digest_of

MB = 1 << 20
HUGE_SIZE = 100 * MB


def huge() -> Iterator[bytes]:
    """A file of 100 MB, of which no two pieces are the same."""
    return (b"%07d " % number * (MB // 8) for number in range(HUGE_SIZE // MB))


@pytest.fixture(scope="module")
def huge_digest() -> str:
    found = hashlib.sha256()
    for piece in huge():
        found.update(piece)
    return found.hexdigest()


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """What is allocated meanwhile never takes more than `size` bytes together."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= size, f"{peak >> 20} MB were in memory at once"


async def pieces(content: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


def packed(*contents: bytes) -> bytes:
    return b"".join(pack.entry(digest_of(content), content) for content in contents)


def test_a_pack_is_sent_in_the_order_asked_for(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    contents = [b"one", b"large" * 400_000, b"", b"two" * 30_000]
    digests = [digest_of(content) for content in contents]
    store.put_many(zip(digests, contents, strict=True))
    sent = b"".join(send_pack(store, digests))
    assert sent == packed(*contents)


def test_a_huge_blob_is_sent_without_being_in_memory(tmp_path: Path, huge_digest: str) -> None:
    store = BlobStore(tmp_path)
    store.put_stream(huge_digest, huge())
    size = 0
    with at_most(8 * MB):
        for piece in send_pack(store, [huge_digest]):
            size += len(piece)
    assert size == pack.HEADER.size + HUGE_SIZE


def test_a_huge_blob_is_received_without_being_in_memory(tmp_path: Path, huge_digest: str) -> None:
    """Beyond what may wait for the disk: 32 MB."""
    store = BlobStore(tmp_path)

    def content() -> Iterator[bytes]:
        yield packed(b"before") + pack.header(huge_digest, HUGE_SIZE)
        yield from huge()
        yield packed(b"behind")

    with at_most(64 * MB):
        told = asyncio.run(receive_pack(store, pieces(content())))
    assert told == {"stored": 3}
    assert store.missing([digest_of(b"before"), huge_digest, digest_of(b"behind")]) == []
    assert store.size(huge_digest) == HUGE_SIZE


def test_what_cannot_be_sent_cuts_the_stream(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    large = b"large" * 400_000
    store.put_many([(digest_of(large), large)])
    with pytest.raises(NotFound):
        list(send_pack(store, [digest_of(large), "0" * 64]))
    with open(tmp_path / "files" / digest_of(large), "r+b") as file:
        file.write(b"!")
    with pytest.raises(Internal):
        list(send_pack(store, [digest_of(large)]))


@pytest.mark.parametrize("size", [10, 3 * MB])
def test_a_pack_that_is_cut_or_damaged_is_refused(tmp_path: Path, size: int) -> None:
    store = BlobStore(tmp_path)
    content = b"x" * size
    whole = packed(content)
    for bad in (
        whole[:-1],
        whole[:50],
        b"!" + whole[1:],
        whole[:-1] + b"!",
        packed(content, b"next")[: len(whole) + 9],
    ):
        with pytest.raises(InvalidInput):
            asyncio.run(receive_pack(store, pieces(iter([bad]))))
    for _ in range(2):  # also when it is here already
        told = asyncio.run(receive_pack(store, pieces(io.BytesIO(whole + packed(b"behind")))))
        assert told == {"stored": 2}
    assert store.read(digest_of(content)) == content and store.read(digest_of(b"behind")) == b"behind"
