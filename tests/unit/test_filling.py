"""Files of the hub into a user's directory: each blob fetched once, nothing damaged taken, all or nothing."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from turnout.client.filling import Blobs, filling
from turnout.errors import Conflict, HubUnreachable, Unavailable
from turnout.wire import pack
from turnout.wire.manifest import digest_of


class Source:
    """Has these contents; remembers what it was asked for."""

    def __init__(self, *contents: bytes) -> None:
        self.blobs = {digest_of(content): content for content in contents}
        self.asked: list[str] = []

    def open_blobs(self, digests: Sequence[str]) -> BinaryIO:
        self.asked += digests
        return io.BytesIO(b"".join(pack.entry(digest, self.blobs[digest]) for digest in digests))


def test_a_blob_is_fetched_once_however_often_it_is_asked_for() -> None:
    source = Source(b"one", b"two")
    one, two = source.blobs
    with Blobs(source) as blobs:
        blobs.fetch([one, one])
        blobs.fetch([one, two])
    assert sorted(source.asked) == sorted([one, two])


def test_a_blob_that_is_not_what_it_is_called_is_refused(tmp_path: Path) -> None:
    source = Source(b"one")
    (digest,) = source.blobs
    source.blobs[digest] = b"two"
    with pytest.raises(Unavailable, match="damaged"), filling(tmp_path / "new"), Blobs(source) as blobs:
        blobs.fetch([digest])
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_goes_away_is_told_as_such() -> None:
    class Gone(Source):
        def open_blobs(self, digests: Sequence[str]) -> BinaryIO:
            raise ConnectionResetError("reset")

    with Blobs(Gone()) as blobs, pytest.raises(HubUnreachable, match="went away"):
        blobs.fetch(["0" * 64])


def _fill_half(directory: Path) -> None:
    with filling(directory) as new:
        (new / "half").touch()
        raise RuntimeError("half")


def test_a_directory_that_is_there_stays_itself_and_is_left_as_it_was_by_a_failure(tmp_path: Path) -> None:
    before = tmp_path.stat().st_ino
    with pytest.raises(RuntimeError, match="half"):
        _fill_half(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with filling(tmp_path) as new:
        (new / "whole").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["whole"] and tmp_path.stat().st_ino == before
    with pytest.raises(Conflict, match="is not empty"), filling(tmp_path):
        pass


def test_what_one_that_was_killed_left_is_named(tmp_path: Path) -> None:
    """It is hidden: who lists the directory sees nothing."""
    (tmp_path / ".turnout-x1y2").mkdir()
    with pytest.raises(Conflict) as caught, filling(tmp_path):
        pass
    assert f"remove {tmp_path}/.turnout-x1y2" in caught.value.hint
