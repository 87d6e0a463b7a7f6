"""Blobs in a stream: cut or damaged anywhere, a reader gets whole blobs or an error, never something else."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.wire import pack
from turnout.wire.manifest import digest_of

contents = st.lists(st.binary(max_size=50), max_size=5)


def packed(blobs: list[bytes]) -> bytes:
    return b"".join(pack.entry(digest_of(blob), blob) for blob in blobs)


def read_all(stream: bytes, max_blob: int = 1000) -> list[bytes]:
    return [content for _, content in pack.read(io.BytesIO(stream), max_blob=max_blob)]


@given(contents)
def test_what_was_packed_is_read(blobs: list[bytes]) -> None:
    assert list(pack.read(io.BytesIO(packed(blobs)), max_blob=50)) == [(digest_of(blob), blob) for blob in blobs]


@given(contents, st.data())
def test_a_stream_cut_inside_a_blob_is_an_error(blobs: list[bytes], data: st.DataObject) -> None:
    stream = packed(blobs)
    ends = {len(packed(blobs[:count])) for count in range(len(blobs) + 1)}
    cut = data.draw(st.integers(0, len(stream)))
    if cut in ends:
        assert read_all(stream[:cut]) == blobs[: sorted(ends).index(cut)]
    else:
        with pytest.raises(pack.BadPack):
            read_all(stream[:cut])


@given(contents.filter(bool), st.data())
def test_a_flipped_bit_is_an_error(blobs: list[bytes], data: st.DataObject) -> None:
    stream = bytearray(packed(blobs))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(pack.BadPack):
        read_all(bytes(stream))


def test_a_blob_over_the_limit_is_refused_before_it_is_read() -> None:
    stream = io.BytesIO(pack.header("ab" * 32, 10**15))
    with pytest.raises(pack.BadPack, match="over the limit"):
        list(pack.read(stream, max_blob=10**6))


def test_a_stream_that_gives_a_byte_at_a_time_is_read() -> None:
    class Drip(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(1, size or 0))

    assert [content for _, content in pack.read(Drip(packed([b"abc", b""])), max_blob=9)] == [b"abc", b""]
