"""Append-only frames: how a run's process tells us things through a file.

A frame is ``length (u32) | crc32 (u32) | sequence (u64) | payload``, little-endian; the checksum covers sequence and
payload. A file of frames is valid up to its first short, torn or damaged frame; what follows is not yet (or no longer)
there. The sequence counts from 0 in each file, so a gap is seen.
"""

from __future__ import annotations

import struct
import zlib
from typing import Iterator, NamedTuple, Union

HEADER = struct.Struct("<IIQ")
MAX_PAYLOAD = 1 << 20
_SEQ = struct.Struct("<Q")
_SEQ_AT = HEADER.size - _SEQ.size  # the checksum begins to count here


class Frame(NamedTuple):
    seq: int
    payload: bytes
    end: int  # offset of the first byte behind this frame


def encode(seq: int, payload: bytes) -> bytes:
    """One frame. The payload may be at most MAX_PAYLOAD bytes (ValueError)."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a frame holds at most {MAX_PAYLOAD} bytes, not {len(payload)}")
    return HEADER.pack(len(payload), zlib.crc32(payload, zlib.crc32(_SEQ.pack(seq))), seq) + payload


def scan(buffer: Union[bytes, memoryview], *, first_seq: int = 0) -> Iterator[Frame]:
    """The whole, undamaged frames from the start of `buffer`, in order; stops at the first that is not.

    `first_seq` is the sequence the first frame must have. Whether more bytes can help is told by :func:`is_damaged`.
    """
    whole = bytes(buffer)  # no copy of what is bytes already, and slices of bytes are faster than of a view
    offset, seq, size = 0, first_seq, len(whole)
    while offset + HEADER.size <= size:
        length, crc, number = HEADER.unpack_from(whole, offset)
        start = offset + HEADER.size
        end = start + length
        if length > MAX_PAYLOAD or number != seq or end > size or zlib.crc32(whole[offset + _SEQ_AT : end]) != crc:
            return
        yield Frame(number, whole[start:end], end)
        offset, seq = end, seq + 1


def is_damaged(buffer: Union[bytes, memoryview], *, first_seq: int = 0) -> bool:
    """Whether `buffer` begins with what can never become frame `first_seq`, however many bytes are appended.

    False means: a good frame, or the beginning of one that is still being written.
    """
    view = memoryview(buffer)
    if len(view) < HEADER.size:
        return False
    length, crc, number = HEADER.unpack_from(view)
    if length > MAX_PAYLOAD or number != first_seq:
        return True
    end: int = HEADER.size + length
    return end <= len(view) and zlib.crc32(view[_SEQ_AT:end]) != crc
