"""Restoring writes exactly the manifest into the directory it was given, and nothing anywhere else."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from turnout.wire.manifest import BadManifest, Entry, digest_of, link_entry
from turnout.wire.restore import RestoreFailed, Source, restore


def entry(path: str, content: bytes, mode: int = 0o644) -> Entry:
    return Entry(path, mode, len(content), digest_of(content))


def reading(*contents: bytes) -> Callable[[str], Source]:
    by_digest: dict[str, Source] = {digest_of(content): content for content in contents}
    return by_digest.__getitem__


def everything(root: Path) -> dict[str, bytes | str]:
    """What lies below `root`: the content of files, the target of links."""
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file that must never be touched."""
    marker = tmp_path / "marker.txt"
    marker.write_text("untouched")
    return marker


def test_files_directories_links_and_modes_come_back(tmp_path: Path) -> None:
    entries = [
        entry("train.py", b"print(1)"),
        entry("bin/run.sh", b"#!/bin/sh", 0o755),
        entry("a/b/c/deep.txt", b""),
        entry("a-b/x", b"print(1)"),
        link_entry("a/latest", "../bin/run.sh"),
    ]
    done = restore(entries, str(tmp_path / "out"), reading(b"print(1)", b"#!/bin/sh", b""))
    assert everything(tmp_path / "out") == {
        "train.py": b"print(1)",
        "bin/run.sh": b"#!/bin/sh",
        "a/b/c/deep.txt": b"",
        "a-b/x": b"print(1)",
        "a/latest": "../bin/run.sh",
    }
    assert done == (5, 25)
    assert os.access(tmp_path / "out/bin/run.sh", os.X_OK)
    assert not (tmp_path / "out/train.py").stat().st_mode & stat.S_IXUSR


def test_the_directory_is_private_from_the_start_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        restore([entry("x", b"1")], str(tmp_path / "out"), reading(b"1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "out/x").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../marker.txt", b"evil")],
        [entry("ok", b"evil"), entry("/tmp/abs", b"evil")],
        [link_entry("dir", "sub"), entry("dir/file", b"evil")],
        [entry("ok", b"evil"), Entry("link", 0o777, 0, "", "../marker.txt")],
        [entry("ok", b"evil"), entry("ok", b"evil")],
        [entry("ok", b"evil"), entry("setuid", b"evil", 0o4755)],
        [entry("ok", b"evil"), entry("/".join(["d"] * 1000), b"evil")],
    ],
)
def test_a_hostile_manifest_is_refused_whole(entries: list[Entry], tmp_path: Path, outside: Path) -> None:
    with pytest.raises(BadManifest):
        restore(entries, str(tmp_path / "out"), reading(b"evil"))
    assert sorted(os.listdir(tmp_path)) == ["marker.txt"]
    assert outside.read_text() == "untouched"


def test_caps_on_count_and_size_hold_before_anything_is_written(tmp_path: Path) -> None:
    many = [entry(f"f{n}", b"") for n in range(11)]
    with pytest.raises(BadManifest, match="limit of 10"):
        restore(many, str(tmp_path / "out"), reading(b""), max_entries=10)
    bomb = [Entry(f"f{n}", 0o644, 1 << 60, digest_of(b"")) for n in range(3)]
    with pytest.raises(BadManifest, match="over the limit"):
        restore(bomb, str(tmp_path / "out"), reading(b""))
    assert not (tmp_path / "out").exists()


def test_a_link_that_waits_in_the_directory_is_not_followed(tmp_path: Path, outside: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "file").symlink_to(outside)
    (target / "dir").symlink_to(tmp_path)
    with pytest.raises(RestoreFailed, match="'file'"):
        restore([entry("file", b"evil")], str(target), reading(b"evil"))
    with pytest.raises(RestoreFailed, match="link or a file is where a directory belongs"):
        restore([entry("dir/marker.txt", b"evil")], str(target), reading(b"evil"))
    assert outside.read_text() == "untouched"


def test_a_target_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(RestoreFailed, match="not a directory"):
        restore([entry("x", b"1")], str(tmp_path / "link"), reading(b"1"))
    assert os.listdir(tmp_path / "real") == []


def test_a_directory_swapped_for_a_link_while_we_write_catches_nothing(tmp_path: Path, outside: Path) -> None:
    """Between two files of one directory an attacker moves it away and puts a link to another place there."""
    target = tmp_path / "out"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def read(digest: str) -> Source:
        if digest == digest_of(b"second"):
            (target / "dir").rename(target / "moved")
            (target / "dir").symlink_to(elsewhere)
        return {digest_of(b"first"): b"first", digest_of(b"second"): b"second", digest_of(b"third"): b"third"}[digest]

    entries = [entry("dir/1", b"first"), entry("dir/2", b"second"), entry("dir/sub/3", b"third")]
    restore(entries, str(target), read)
    assert os.listdir(elsewhere) == []
    assert everything(target / "moved") == {"1": b"first", "2": b"second", "sub/3": b"third"}


def test_a_directory_made_a_link_before_we_enter_it_is_refused(tmp_path: Path, outside: Path) -> None:
    def read(digest: str) -> Source:
        if not (tmp_path / "out/b").is_symlink():
            (tmp_path / "out/b").symlink_to(tmp_path)
        return b"x"

    with pytest.raises(RestoreFailed):
        restore([entry("a", b"x"), entry("b/marker.txt", b"x")], str(tmp_path / "out"), read)
    assert outside.read_text() == "untouched"


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(RestoreFailed, match="'x'"):
        restore([entry("x", b"theirs")], str(tmp_path), reading(b"theirs"))
    assert (tmp_path / "x").read_text() == "mine"


@pytest.mark.parametrize("bad", [b"fals", b"longer than said", b"wrong!"])
@pytest.mark.parametrize("as_file", [False, True])
def test_a_damaged_source_is_named_and_leaves_no_file(tmp_path: Path, bad: bytes, as_file: bool) -> None:
    source: Source = bad
    if as_file:
        (tmp_path / "blob").write_bytes(bad)
        source = str(tmp_path / "blob")
    with pytest.raises(RestoreFailed, match=digest_of(b"right!")):
        restore([entry("x", b"right!")], str(tmp_path / "out"), lambda _: source)
    assert os.listdir(tmp_path / "out") == []


def test_large_files_are_copied_and_still_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(3 << 20)
    blob = tmp_path / "blob"
    blob.write_bytes(content)
    restore([entry("big", content)], str(tmp_path / "kernel"), lambda _: str(blob))
    monkeypatch.setattr(sys, "platform", "other")
    restore([entry("big", content)], str(tmp_path / "memory"), lambda _: str(blob))
    assert (tmp_path / "kernel/big").read_bytes() == (tmp_path / "memory/big").read_bytes() == content
    with open(blob, "r+b") as file:
        file.seek(2 << 20)
        file.write(b"damage")
    with pytest.raises(RestoreFailed, match="damaged"):
        restore([entry("big", content)], str(tmp_path / "other"), lambda _: str(blob))
    assert os.listdir(tmp_path / "other") == []


def test_a_source_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path, outside: Path) -> None:
    (tmp_path / "link").symlink_to(outside)
    os.mkfifo(tmp_path / "pipe")
    for source in (str(tmp_path / "link"), str(tmp_path / "pipe")):
        with pytest.raises(RestoreFailed):
            restore([entry("x", b"untouched")], f"{source}-out", {digest_of(b"untouched"): source}.__getitem__)


def test_each_directory_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = os.mkdir

    def counted(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        made.append(name)
        real(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", counted)
    entries = [entry(f"{d}/{s}/f{n}", b"") for n in range(5) for d in "abc" for s in "xy"]
    restore(entries, str(tmp_path / "out"), reading(b""))
    assert len(made) == 1 + 3 + 6


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    restore([entry("a/b/c/d", b"1")], str(tmp_path / "out"), reading(b"1"))
    with pytest.raises(RestoreFailed):
        restore([entry("a/b/c/d", b"1")], str(tmp_path / "out"), reading(b"1"))
    assert len(os.listdir("/dev/fd")) == before
