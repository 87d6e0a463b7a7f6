"""Many blobs in one stream, on the wire and at rest: ``header | content``, repeated.

A header is ``magic (4) | size (u64) | sha256 (32)``, little-endian. The digest proves the content and with it the size.
The magic lets a reader of a damaged file find the next good blob instead of giving up on the rest.
"""

from __future__ import annotations

import hashlib
import struct
from typing import BinaryIO, Iterator, Optional, Tuple

HEADER = struct.Struct("<4sQ32s")
MAGIC = b"\xf7tB1"


class BadPack(ValueError):
    """The stream is cut short, or a blob is not what its digest says."""


def header(digest: str, size: int) -> bytes:
    """What goes before the content of a blob."""
    return raw_header(bytes.fromhex(digest), size)


def raw_header(digest: bytes, size: int) -> bytes:
    """The same for a digest of 32 bytes."""
    return HEADER.pack(MAGIC, size, digest)


def entry(digest: str, content: bytes) -> bytes:
    """A whole blob as it lies in a pack."""
    return header(digest, len(content)) + content


def parse_header(head: bytes) -> Optional[Tuple[int, bytes]]:
    """(size, raw sha256), or None when these are not the bytes of a header."""
    if len(head) != HEADER.size or head[:4] != MAGIC:
        return None
    _, size, raw = HEADER.unpack(head)
    return size, raw


def read(stream: BinaryIO, *, max_blob: int) -> Iterator[Tuple[str, bytes]]:
    """Each (digest, content), checked. BadPack when damaged or a blob is over `max_blob` bytes."""
    for digest, size in headers(stream, max_blob=max_blob):
        content = _exactly(stream, size)
        if hashlib.sha256(content).hexdigest() != digest:
            raise BadPack(f"blob {digest} is damaged")
        yield digest, content


def headers(stream: BinaryIO, *, max_blob: int) -> Iterator[Tuple[str, int]]:
    """Each (digest, size); before it asks for the next, the caller has read exactly so many bytes behind it."""
    while True:
        head = _exactly(stream, HEADER.size, at_start=True)
        if not head:
            return
        parsed = parse_header(head)
        if parsed is None:
            raise BadPack("the stream is not a pack of blobs")
        size, raw = parsed
        if size > max_blob:
            raise BadPack(f"a blob of {size} bytes is over the limit of {max_blob}")
        yield raw.hex(), size


def pieces(stream: BinaryIO, size: int, *, most: int) -> Iterator[bytes]:
    """The next `size` bytes, at most `most` at a time. BadPack when there are fewer. Nobody has checked them."""
    while size:
        piece = _exactly(stream, min(size, most))
        size -= len(piece)
        yield piece


def _exactly(stream: BinaryIO, count: int, *, at_start: bool = False) -> bytes:
    """`count` bytes; b"" for a clean end where one is allowed; BadPack for a cut."""
    parts = []
    missing = count
    while missing:
        part = stream.read(missing)
        if not part:
            if at_start and missing == count:
                return b""
            raise BadPack("the stream ended in the middle of a blob")
        parts.append(part)
        missing -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
