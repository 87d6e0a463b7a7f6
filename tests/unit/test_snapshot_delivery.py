"""A snapshot reaches a store whole, whatever happens to the files on the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from turnout import errors
from turnout.blobs import BlobStore
from turnout.snapshot import Snapshot, capture, deliver
from turnout.snapshot import reading as reading_module
from turnout.wire import manifest
from turnout.wire.manifest import digest_of
from turnout.wire.restore import restore

BIG = b"big file\n" * 20_000


class Sink:
    """A store that counts what it is given, and where something may happen before each request."""

    def __init__(self, store: BlobStore) -> None:
        self.store = store
        self.put: list[str] = []
        self.before_put: Callable[[], object] = lambda: None

    def missing(self, digests: Iterable[str]) -> list[str]:
        return self.store.missing(digests)

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        self.before_put()
        self.store.put_many(self._counted(blobs))

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        self.before_put()
        self.put.append(digest)
        self.store.put_stream(digest, chunks)

    def _counted(self, blobs: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        for digest, content in blobs:
            self.put.append(digest)
            yield digest, content


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print()")
    (folder / "lib/same.py").write_text("print()")
    (folder / "lib/model.py").write_text("model")
    (folder / "big.bin").write_bytes(BIG)
    (folder / "link").symlink_to("train.py")
    return folder


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(BlobStore(tmp_path / "blobs"))


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a tree too large to be kept in memory: every content is read again."""
    monkeypatch.setattr(reading_module, "KEPT_TOTAL", 0)


def taken(root: Path) -> Snapshot:
    return capture(root, cache=root.parent / "cache")


def delivered(snapshot: Snapshot, sink: Sink, into: Path) -> dict[str, bytes]:
    """What a node would get: the files of the delivered snapshot, restored from the store."""
    result = deliver(snapshot, sink)
    entries = manifest.decode(sink.store.read(result.digest))
    assert entries == sorted(result.entries)
    restore(entries, str(into), sink.store.read)
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def test_all_of_it_arrives(root: Path, sink: Sink, tmp_path: Path) -> None:
    snapshot = taken(root)
    assert delivered(snapshot, sink, tmp_path / "out") == {
        "train.py": b"print()",
        "lib/same.py": b"print()",
        "lib/model.py": b"model",
        "big.bin": BIG,
        "link": b"print()",
    }
    assert deliver(snapshot, sink) == snapshot


def test_only_what_is_missing_is_sent_and_once(root: Path, sink: Sink) -> None:
    deliver(taken(root), sink)
    assert len(sink.put) == 4  # three contents and the manifest
    deliver(taken(root), sink)
    assert len(sink.put) == 4
    (root / "lib/model.py").write_text("changed")
    deliver(taken(root), sink)
    assert len(sink.put) == 6


def test_files_known_from_the_cache_are_sent_too(root: Path, sink: Sink, tmp_path: Path) -> None:
    taken(root)
    assert len(delivered(taken(root), sink, tmp_path / "out")) == 5


@pytest.mark.usefixtures("nothing_kept")
def test_files_that_are_not_in_memory_are_read_again(root: Path, sink: Sink, tmp_path: Path) -> None:
    snapshot = taken(root)
    assert snapshot.contents == {}
    assert len(delivered(snapshot, sink, tmp_path / "out")) == 5


def test_what_was_captured_is_sent_even_if_the_file_is_another_by_now(root: Path, sink: Sink, tmp_path: Path) -> None:
    snapshot = taken(root)
    (root / "train.py").write_text("changed after the capture")
    assert delivered(snapshot, sink, tmp_path / "out")["train.py"] == b"print()"


@pytest.mark.usefixtures("nothing_kept")
def test_a_file_changed_between_capture_and_upload_is_taken_as_it_is_now(
    root: Path, sink: Sink, tmp_path: Path
) -> None:
    snapshot = taken(root)
    (root / "lib/model.py").write_text("changed after the capture")
    (root / "big.bin").write_bytes(BIG + b"more")
    (root / "lib/same.py").write_text("no longer the same")
    (root / "train.py").write_bytes(BIG + b"small became large")
    result = delivered(snapshot, sink, tmp_path / "out")
    assert result == {
        "train.py": BIG + b"small became large",
        "lib/same.py": b"no longer the same",
        "lib/model.py": b"changed after the capture",
        "big.bin": BIG + b"more",
        "link": BIG + b"small became large",
    }
    assert deliver(snapshot, sink).digest != snapshot.digest


def test_a_large_file_changed_while_it_is_sent_is_never_half_old_half_new(
    root: Path, sink: Sink, tmp_path: Path
) -> None:
    changes = iter([b"first change" * 10_000, b"second change" * 10_000])

    def change() -> None:
        content = next(changes, None)
        if content is not None:
            (root / "big.bin").write_bytes(content)

    snapshot = taken(root)
    sink.before_put = change
    assert delivered(snapshot, sink, tmp_path / "out")["big.bin"] == b"second change" * 10_000


def test_a_file_that_changed_and_changed_back_arrives(root: Path, sink: Sink, tmp_path: Path) -> None:
    states = iter([b"x" * 100_000, BIG])
    snapshot = taken(root)
    sink.before_put = lambda: (root / "big.bin").write_bytes(next(states, BIG))
    assert delivered(snapshot, sink, tmp_path / "out")["big.bin"] == BIG


def test_a_file_that_never_stands_still_is_refused(root: Path, sink: Sink) -> None:
    snapshot = taken(root)
    sink.before_put = lambda: (root / "big.bin").write_bytes(os.urandom(100_000))
    with pytest.raises(errors.SnapshotRefused, match=r"big\.bin: keeps changing while it is sent"):
        deliver(snapshot, sink)


@pytest.mark.usefixtures("nothing_kept")
def test_a_file_that_vanished_is_refused(root: Path, sink: Sink) -> None:
    snapshot = taken(root)
    (root / "lib/model.py").unlink()
    (root / "big.bin").unlink()
    with pytest.raises(errors.SnapshotRefused) as caught:
        deliver(snapshot, sink)
    assert [line.split(":")[0].strip() for line in caught.value.message.splitlines()[1:]] == ["big.bin", "lib/model.py"]


@pytest.mark.usefixtures("nothing_kept")
def test_a_file_that_became_a_secret_or_a_link_is_refused(root: Path, sink: Sink) -> None:
    snapshot = taken(root)
    (root / "lib/model.py").write_text("token = 'ghp_" + "a1B2c3D4e5" * 4 + "'")
    (root / "big.bin").unlink()
    (root / "big.bin").symlink_to("/etc/passwd")
    with pytest.raises(errors.SnapshotRefused) as caught:
        deliver(snapshot, sink)
    assert "lib/model.py: holds what looks like a GitHub token" in caught.value.message
    assert "big.bin: " in caught.value.message
    assert digest_of((root / "lib/model.py").read_bytes()) not in sink.put


@pytest.mark.usefixtures("nothing_kept")
def test_of_two_equal_files_one_that_is_unchanged_is_enough(root: Path, sink: Sink, tmp_path: Path) -> None:
    snapshot = taken(root)
    (root / "train.py").write_text("changed")
    assert delivered(snapshot, sink, tmp_path / "out")["lib/same.py"] == b"print()"


def test_a_broken_line_may_be_tried_again(root: Path, sink: Sink, tmp_path: Path) -> None:
    snapshot = taken(root)

    def break_once() -> None:
        sink.before_put = lambda: None
        raise ConnectionResetError

    sink.before_put = break_once
    with pytest.raises(ConnectionResetError):
        deliver(snapshot, sink)
    assert len(delivered(snapshot, sink, tmp_path / "out")) == 5


def test_a_sink_may_read_a_large_file_from_its_beginning_again(
    root: Path, sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does whose line broke in the middle."""
    put_stream = sink.put_stream

    def broken_once(digest: str, chunks: Iterable[bytes]) -> None:
        next(iter(chunks))
        put_stream(digest, chunks)

    monkeypatch.setattr(sink, "put_stream", broken_once)
    assert delivered(taken(root), sink, tmp_path / "copy")["big.bin"] == BIG


def test_the_manifest_comes_last(root: Path, sink: Sink) -> None:
    """Who finds a manifest in the store finds its files, too."""
    snapshot = deliver(taken(root), sink)
    assert sink.put[-1] == snapshot.digest


def test_a_large_manifest_is_delivered(root: Path, sink: Sink) -> None:
    for number in range(1_500):
        (root / f"a file with a rather long name, number {number}").touch()
    snapshot = deliver(taken(root), sink)
    assert len(snapshot.manifest) > 64 << 10
    assert len(manifest.decode(sink.store.read(snapshot.digest))) == 1_505
