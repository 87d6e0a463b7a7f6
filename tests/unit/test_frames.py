"""Frames survive being cut at any byte, and never pass damage off as data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.wire import frames

payloads = st.lists(st.binary(max_size=40), max_size=8)


def _file(payloads: list[bytes]) -> bytes:
    return b"".join(frames.encode(seq, payload) for seq, payload in enumerate(payloads))


@given(payloads)
def test_what_was_written_is_read(written: list[bytes]) -> None:
    read = list(frames.scan(_file(written)))
    assert [frame.payload for frame in read] == written
    assert [frame.seq for frame in read] == list(range(len(written)))
    assert not read or read[-1].end == len(_file(written))


@given(payloads, st.data())
def test_a_file_cut_anywhere_gives_its_whole_frames_and_waits_for_the_rest(
    written: list[bytes], data: st.DataObject
) -> None:
    whole = _file(written)
    cut = data.draw(st.integers(0, len(whole)))
    read = list(frames.scan(whole[:cut]))
    assert [frame.payload for frame in read] == written[: len(read)]
    end = read[-1].end if read else 0
    assert end <= cut
    assert not frames.is_damaged(whole[end:cut], first_seq=len(read))
    rest = [frame.payload for frame in frames.scan(whole[end:], first_seq=len(read))]
    assert rest == written[len(read) :]


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5), st.data())
def test_one_flipped_bit_is_never_served(written: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(_file(written))
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    read = list(frames.scan(bytes(whole)))
    assert len(read) < len(written)
    assert [frame.payload for frame in read] == written[: len(read)]


def test_damage_is_told_from_a_frame_still_being_written() -> None:
    frame = frames.encode(3, b"payload")
    assert not frames.is_damaged(frame, first_seq=3)
    assert not frames.is_damaged(frame[:-1], first_seq=3)
    assert not frames.is_damaged(b"", first_seq=3)
    assert frames.is_damaged(frame, first_seq=4)
    assert frames.is_damaged(frame[:-1] + b"X", first_seq=3)
    assert frames.is_damaged(b"\xff" * frames.HEADER.size, first_seq=3)


def test_a_repeated_or_skipped_sequence_ends_the_file() -> None:
    twice = frames.encode(0, b"a") + frames.encode(0, b"b")
    gap = frames.encode(0, b"a") + frames.encode(2, b"b")
    assert [frame.payload for frame in frames.scan(twice)] == [b"a"]
    assert [frame.payload for frame in frames.scan(gap)] == [b"a"]


def test_a_view_is_scanned_like_bytes_and_gives_bytes() -> None:
    (frame,) = frames.scan(memoryview(frames.encode(0, b"abc")))
    assert frame.payload == b"abc" and isinstance(frame.payload, bytes)


def test_a_payload_has_a_largest_size() -> None:
    largest = b"x" * frames.MAX_PAYLOAD
    assert len(list(frames.scan(frames.encode(0, largest)))) == 1
    with pytest.raises(ValueError, match="at most"):
        frames.encode(0, largest + b"x")
