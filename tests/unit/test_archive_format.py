"""The one file of an export: whatever happens to a byte of it, a reader notices."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator

import pytest

from turnout.wire.archive import BadArchive, Failed, Writer, check

BLOB = b"content" * 100


def parts(writer: Writer) -> Iterator[bytes]:
    yield from writer.head({"id": "x"})
    yield from writer.rows("runs", 1, b'{"name":"run1"}\n{"name":"run2"}\n')
    yield from writer.output("run1", 1, 3, [b"a", b"bc"])
    yield from writer.blob(hashlib.sha256(BLOB).hexdigest(), len(BLOB), [BLOB])


def whole() -> bytes:
    writer = Writer(0)
    return b"".join([*parts(writer), *writer.end()])


def test_what_was_written_is_counted() -> None:
    reader = check(io.BytesIO(whole()))
    assert reader.head["id"] == "x"
    assert reader.counts == {"rows.runs": 2, "output": 1, "output_bytes": 3, "blobs": 1, "blob_bytes": len(BLOB)}


def test_cut_short_at_any_byte() -> None:
    content = whole()
    for end in range(0, len(content), 7):
        with pytest.raises(BadArchive):
            check(io.BytesIO(content[:end]))


def test_any_flipped_byte() -> None:
    content = whole()
    unnoticed = []
    for place in range(len(content)):
        try:
            check(io.BytesIO(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]))
        except BadArchive:
            continue
        unnoticed.append(place)
    assert len(unnoticed) <= 1, "but for one byte of the last header's own checksum, which no reader of tar looks at"


def test_something_behind_its_end() -> None:
    with pytest.raises(BadArchive, match="behind the end"):
        check(io.BytesIO(whole() + b"x"))


def test_whoever_wrote_it_could_not_go_on() -> None:
    writer = Writer(0)
    content = b"".join([*parts(writer), *writer.fail({"error": "conflict", "message": "it was changed"})])
    with pytest.raises(Failed, match="it was changed"):
        check(io.BytesIO(content))


def test_a_part_of_another_size_than_announced() -> None:
    with pytest.raises(ValueError, match="3 bytes, not 4"):
        list(Writer(0).output("run1", 1, 4, [b"abc"]))
