"""Blobs are kept by content: put twice they are there once, damaged they are never served as good."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turnout import errors
from turnout.blobs import Blobs, BlobStore
from turnout.blobs import store as module
from turnout.blobs.index import Index, Place
from turnout.blobs.packs import PACK_BYTES
from turnout.wire.manifest import digest_of

if TYPE_CHECKING:
    _: Blobs = BlobStore(Path())

SMALL, LARGE = b"small", b"large" * 40_000


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def put(store: BlobStore, *contents: bytes) -> list[str]:
    store.put_many([(digest_of(content), content) for content in contents])
    return [digest_of(content) for content in contents]


def pack_files(store_directory: Path) -> list[Path]:
    return sorted((store_directory / "packs").iterdir())


def test_what_was_put_is_read(store: BlobStore) -> None:
    for digest, content in zip(put(store, SMALL, LARGE, b""), (SMALL, LARGE, b""), strict=True):
        assert store.read(digest) == content
        assert store.size(digest) == len(content)
        with store.open(digest) as file:
            assert file.read() == content


def test_only_what_is_missing_is_asked_for(store: BlobStore) -> None:
    here = put(store, SMALL, LARGE)
    gone = digest_of(b"elsewhere")
    assert store.missing([here[0], gone, here[1], gone]) == [gone]
    assert store.missing([]) == []


def test_putting_again_changes_nothing(store: BlobStore) -> None:
    put(store, SMALL, LARGE)
    before = store.usage()
    put(store, SMALL, LARGE, SMALL)
    store.put_stream(digest_of(LARGE), [LARGE])
    assert store.usage() == before
    assert before.blobs == 2


def test_a_stream_of_any_size_is_kept(store: BlobStore) -> None:
    for content in (b"", b"short", os.urandom(64 << 10), os.urandom((64 << 10) + 1), os.urandom(3 << 20)):
        pieces = [content[start : start + 1000] for start in range(0, len(content), 1000)]
        store.put_stream(digest_of(content), pieces)
        assert store.read(digest_of(content)) == content


def test_many_are_read_in_one_go(store: BlobStore) -> None:
    contents = [str(number).encode() for number in range(100)]
    digests = put(store, *contents, LARGE)
    wanted = [digests[50], digests[-1], digests[3], digests[3]]
    assert dict(store.read_many(wanted)) == {digests[50]: b"50", digests[3]: b"3", digests[-1]: LARGE}


@pytest.mark.parametrize(
    "digest",
    ["", "../../etc/passwd", "AB" * 32, "ab" * 31 + "a", "ab" * 32 + "\n", "ab" * 31 + " a", "ab" * 33, "é" * 64],
)
def test_what_is_no_digest_reaches_no_file(store: BlobStore, digest: str) -> None:
    for call in (
        store.read,
        store.open,
        store.size,
        lambda d: store.missing([d]),
        lambda d: store.put_stream(d, [b"x"]),
    ):
        with pytest.raises(errors.InvalidInput):
            call(digest)
    with pytest.raises(errors.InvalidInput):
        store.put_many([(digest, b"x")])


def test_an_unknown_digest_is_not_found(store: BlobStore) -> None:
    for call in (store.read, store.open, store.size):
        with pytest.raises(errors.NotFound, match="ab" * 32):
            call("ab" * 32)


def test_content_that_is_not_its_digest_is_refused(store: BlobStore) -> None:
    for content in (SMALL, LARGE):
        with pytest.raises(errors.InvalidInput, match="not that of this digest"):
            store.put_many([(digest_of(b"other"), content)])
        with pytest.raises(errors.InvalidInput, match="not that of this digest"):
            store.put_stream(digest_of(b"other"), [content])
    assert store.missing([digest_of(b"other")]) == [digest_of(b"other")]
    assert store.usage().blobs == 0


def test_what_came_before_an_error_of_the_sender_is_kept(store: BlobStore) -> None:
    def sending() -> Iterator[tuple[str, bytes]]:
        yield digest_of(SMALL), SMALL
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        store.put_many(sending())
    assert store.read(digest_of(SMALL)) == SMALL


def test_a_store_opened_again_has_everything(tmp_path: Path) -> None:
    digests = put(BlobStore(tmp_path), SMALL, LARGE)
    again = BlobStore(tmp_path)
    assert again.missing(digests) == []
    again.close()
    more = put(again, b"more")
    third = BlobStore(tmp_path)
    assert [third.read(digest) for digest in digests + more] == [SMALL, LARGE, b"more"]


def test_many_small_blobs_cost_few_files_and_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(tmp_path / "blobs")
    synced: list[int] = []
    real = os.fsync

    def counted(fd: int) -> None:
        synced.append(os.fstat(fd).st_mode)
        real(fd)

    monkeypatch.setattr(os, "fsync", counted)
    put(store, *(str(number).encode() for number in range(1000)))
    assert len([mode for mode in synced if stat.S_ISREG(mode)]) == 1
    assert len(pack_files(tmp_path / "blobs")) == 1


def test_everything_is_private_from_the_first_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under umask 000, and with no chmod that would come too late."""
    for name in ("chmod", "fchmod"):
        monkeypatch.setattr(os, name, lambda *args: pytest.fail("chmod leaves a moment in which others can look"))
    before = os.umask(0)
    try:
        store = BlobStore(tmp_path / "blobs")
        put(store, SMALL, LARGE)
        store.gc(set(), 1e9)
        store.close()
    finally:
        os.umask(before)
    found = [tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")]
    modes = {path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in found}
    assert len(modes) == 7
    assert {name: oct(mode) for name, mode in modes.items() if mode not in (0o600, 0o700)} == {}


def test_damage_is_named_and_healed_by_putting_it_again(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    small, large = put(store, SMALL, LARGE)
    for path in [*pack_files(tmp_path), tmp_path / "files" / large]:
        with open(path, "r+b") as file:
            file.seek(-2, os.SEEK_END)
            file.write(b"#!")
    for digest in (small, large):
        with pytest.raises(errors.Internal, match=digest) as caught:
            store.read(digest)
        assert "submit again" in caught.value.hint
    assert store.missing([small, large]) == [small, large]
    put(store, SMALL, LARGE)
    assert [store.read(small), store.read(large)] == [SMALL, LARGE]
    assert BlobStore(tmp_path).check() == []


def test_a_large_blob_is_checked_before_its_first_byte_is_given(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    (digest,) = put(store, LARGE)
    store.read(digest)
    with open(tmp_path / "files" / digest, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    with pytest.raises(errors.Internal, match=digest):
        store.open(digest)


def test_check_finds_every_damaged_blob(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    good = put(store, *(b"content %d" % number for number in range(20)), LARGE + b"1")
    (bad_large,) = put(store, LARGE)
    assert store.check() == []
    content = bytearray(pack_files(tmp_path)[0].read_bytes())
    content[content.index(b"content 7")] ^= 1
    pack_files(tmp_path)[0].write_bytes(content)
    os.truncate(tmp_path / "files" / bad_large, 10)
    assert sorted(store.check()) == sorted([digest_of(b"content 7"), bad_large])
    assert store.missing(good) == [digest_of(b"content 7")]


def test_a_sample_finds_what_it_reads_and_no_more(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    put(store, *(b"content %d" % number for number in range(20)), LARGE)
    store.close()
    content = bytearray(pack_files(tmp_path)[0].read_bytes())
    content[content.index(b"content 7")] ^= 1
    pack_files(tmp_path)[0].write_bytes(content)
    assert store.sample(0.0).read < 21
    found = store.sample(30.0)
    assert (found.read, found.damaged) == (21, [digest_of(b"content 7")])
    assert store.sample(30.0).damaged == [], "it counts as missing from then on"


def test_a_sample_of_many_takes_some_of_all_kinds_and_others_each_time(tmp_path: Path) -> None:
    index = Index()
    digests = [bytes.fromhex(digest_of(b"%d" % number)) for number in range(2000)]
    index.update({digest: Place(1, 0, 0) for digest in digests[:1500]})
    index.save(str(tmp_path / "index"), {1: 1})
    index.update({digest: Place(2, 0, 0) for digest in digests[1400:]})  # a hundred have moved
    for digest in digests[:200]:
        index.drop(digest)
    samples = [index.some(100) for _ in range(30)]
    assert all(0 < len(sample) <= 101 for sample in samples)
    assert all(None not in map(index.find, sample) for sample in samples)
    assert all(any(digest in index.fresh for digest in sample) for sample in samples)
    assert len({digest for sample in samples for digest in sample}) > 500
    assert Index().some(10) == []


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond 300 kB; writing more fails half-way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    before = put(store, SMALL)
    too_much = [(digest_of(content), content) for content in (os.urandom(60_000) for _ in range(8))]
    with pytest.raises(errors.Unavailable, match="no space") as caught:
        store.put_many(too_much)
    assert caught.value.retryable and caught.value.hint
    with pytest.raises(errors.Unavailable, match="no space"):
        store.put_stream(digest_of(LARGE * 2), [LARGE * 2])
    assert store.missing(digest for digest, _ in too_much) == [digest for digest, _ in too_much]
    assert list((tmp_path / "files").iterdir()) == []
    assert store.read(before[0]) == SMALL
    put(store, b"afterwards")  # room is made, or it was a small one
    again = BlobStore(tmp_path)
    assert again.usage().blobs == 2
    assert again.check() == []


def test_a_failing_sync_is_an_error_and_nothing_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(tmp_path)
    put(store, SMALL)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(errors.Unavailable, match="Input/output error"):
            put(store, b"lost")
    assert store.missing([digest_of(b"lost")]) == [digest_of(b"lost")]
    put(store, b"lost", b"found")
    assert BlobStore(tmp_path).check() == []
    assert BlobStore(tmp_path).usage().blobs == 3


def test_a_quota_is_kept(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, quota=300_000)
    put(store, LARGE, SMALL)
    with pytest.raises(errors.Unavailable, match=r"another 117.2K do not fit: .* of the 293K allowed") as caught:
        put(store, os.urandom(60_000), os.urandom(60_000))
    assert "max-size" in caught.value.hint
    with pytest.raises(errors.Unavailable, match="allowed"):
        store.put_stream(digest_of(LARGE + SMALL), [LARGE, SMALL])
    assert store.usage().blobs == 2
    assert store.usage().bytes < 300_000
    put(store, b"a little")


def test_packs_do_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.blobs.packs.PACK_BYTES", 1000)
    store = BlobStore(tmp_path)
    digests = [put(store, os.urandom(400))[0] for _ in range(10)]
    assert len(pack_files(tmp_path)) >= 4
    again = BlobStore(tmp_path)
    assert again.missing(digests) == []
    assert PACK_BYTES > 1 << 20


def test_more_than_one_batch_is_written_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 1000)
    store = BlobStore(tmp_path)
    contents = [os.urandom(300) for _ in range(100)]
    digests = put(store, *contents, contents[0])
    assert store.missing(digests) == []
    assert BlobStore(tmp_path).usage().blobs == 100
    bad = [(digest_of(b"%d" % n), b"%d" % n * 200) for n in range(3)]
    with pytest.raises(errors.InvalidInput):
        store.put_many(bad)


def test_any_number_of_threads_may_use_it(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    shared = [b"shared %d" % number for number in range(30)]
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            own = [b"%d of %d" % (each, number) for each in range(30)] + [LARGE + b"%d" % number]
            digests = put(store, *own, *shared)
            wrong.extend(store.missing(digests))
            wrong.extend(d for d, content in store.read_many(digests) if digest_of(content) != d)
            if number % 3 == 0:
                store.gc(set(digests), 1e9)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert store.usage().blobs == 8 * 31 + 30
    assert store.check() == []
