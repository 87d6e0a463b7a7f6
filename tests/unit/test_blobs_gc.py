"""Collection removes what nobody wants, and never what somebody is just uploading."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from turnout.blobs import BlobStore
from turnout.blobs.packs import Packs
from turnout.wire.manifest import digest_of

HOUR = 3600.0
LARGE = b"large" * 40_000


def put(store: BlobStore, *contents: bytes) -> list[str]:
    store.put_many([(digest_of(content), content) for content in contents])
    return [digest_of(content) for content in contents]


def test_two_phases_first_mark_then_remove(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    wanted, unwanted, large = put(store, b"wanted", b"unwanted", LARGE)
    assert store.gc({wanted}, HOUR, now=0).blobs == 0
    assert store.gc({wanted}, HOUR, now=HOUR - 1).blobs == 0
    assert store.missing([wanted]) == []
    removed = store.gc({wanted}, HOUR, now=HOUR)
    assert removed.blobs == 2
    assert removed.bytes >= len(LARGE)
    assert store.missing([wanted, unwanted, large]) == [unwanted, large]
    assert store.read(wanted) == b"wanted"


def test_the_mark_outlives_the_hub(tmp_path: Path) -> None:
    (unwanted,) = put(BlobStore(tmp_path), b"unwanted")
    BlobStore(tmp_path).gc(set(), HOUR, now=0)
    store = BlobStore(tmp_path)
    assert store.gc(set(), HOUR, now=HOUR).blobs == 1
    assert store.missing([unwanted]) == [unwanted]


def test_who_asks_whether_a_blob_is_there_may_rely_on_the_answer(tmp_path: Path) -> None:
    """A client is told that nothing is missing, and uploads nothing; its job comes later than the next collection."""
    store = BlobStore(tmp_path)
    digests = put(store, b"small", LARGE)
    store.gc(set(), HOUR, now=0)
    assert store.missing(digests) == []
    assert BlobStore(tmp_path).gc(set(), HOUR, now=HOUR).blobs == 0  # even if the hub is killed in between
    assert store.gc(set(), HOUR, now=2 * HOUR - 1).blobs == 0
    assert store.missing(digests) == []


def test_putting_a_marked_blob_again_saves_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digests = put(store, b"small", LARGE)
    store.gc(set(), HOUR, now=0)
    put(store, b"small", LARGE)
    assert store.gc(set(), HOUR, now=HOUR).blobs == 0
    assert store.missing(digests) == []


def test_wanted_again_means_a_new_mark_later(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    (digest,) = put(store, b"small")
    store.gc(set(), HOUR, now=0)
    store.gc({digest}, HOUR, now=HOUR)
    assert store.gc(set(), HOUR, now=2 * HOUR).blobs == 0
    assert store.gc(set(), HOUR, now=3 * HOUR).blobs == 1


def test_the_room_in_packs_is_given_back(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digests = put(store, *(os.urandom(5_000) for _ in range(100)))
    keep = set(digests[::10])
    full = store.usage().bytes
    store.gc(keep, 0.0, now=0)
    assert store.usage().blobs == 10
    assert store.usage().bytes < full / 5
    assert sum(path.stat().st_size for path in (tmp_path / "packs").iterdir()) == store.usage().bytes
    for again in (store, BlobStore(tmp_path)):
        assert set(digests) - set(again.missing(digests)) == keep
        assert again.check() == []


def test_a_pack_that_comes_back_after_a_collection_is_harmless(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    digests = put(store, *(os.urandom(5_000) for _ in range(20)))
    (old,) = (tmp_path / "packs").iterdir()
    content = old.read_bytes()
    store.gc({digests[0]}, 0.0, now=0)
    assert not old.exists()
    old.write_bytes(content)  # as after a power cut that brings the removed file back
    again = BlobStore(tmp_path)
    assert again.read(digests[0])
    assert again.check() == []
    again.gc({digests[0]}, 0.0, now=1)
    assert again.usage().blobs == 1
    assert BlobStore(tmp_path).usage().blobs == 1


def test_a_collection_killed_between_two_packs_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.blobs.packs.PACK_BYTES", 20_000)
    store = BlobStore(tmp_path)
    digests = [put(store, *(os.urandom(5_000) for _ in range(5))) for _ in range(4)]
    store.close()
    keep = {batch[0] for batch in digests}
    removed: list[int] = []
    real = Packs.remove

    def die_at_the_third(packs: Packs, number: int) -> None:
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(number)
        real(packs, number)

    with monkeypatch.context() as patch:
        patch.setattr(Packs, "remove", die_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            store.gc(keep, 0.0, now=0)
    again = BlobStore(tmp_path)
    assert again.missing(keep) == []
    assert again.check() == []


def test_damaged_marks_only_delay(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    put(store, b"unwanted")
    store.gc(set(), HOUR, now=0)
    for damage in (b"", b"{", b"[1]", b'{"x": "y"}', b"\xff"):
        (tmp_path / "unwanted").write_bytes(damage)
        assert BlobStore(tmp_path).gc(set(), HOUR, now=HOUR).blobs == 0


def test_a_leftover_of_damage_goes_with_the_next_collection(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    (digest,) = put(store, LARGE)
    os.truncate(tmp_path / "files" / digest, 5)
    assert store.check() == [digest]
    assert os.listdir(tmp_path / "files") == [f".damaged-{digest}"]
    store.gc(set(), HOUR)
    assert os.listdir(tmp_path / "files") == []


def test_reading_and_uploading_go_on_during_a_collection(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    keep = put(store, *(b"keep %d" % number * 100 for number in range(50)))
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            wrong.extend(digest for digest, content in store.read_many(keep) if digest_of(content) != digest)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(30):
            put(store, *(b"%d %d" % (number, each) * 100 for each in range(50)))
            store.gc(set(keep), 0.0, now=float(number))
    finally:
        stop.set()
        reader.join()
    assert wrong == []
    assert store.usage().blobs == 50
