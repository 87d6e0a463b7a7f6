"""Uploads and downloads that are killed, that come at once, of files with odd names, and of files that change."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.faults.scene import Scene, fill
from tests.harness import wait_until
from tests.integration.storing import at_once
from turnout.client import Client
from turnout.errors import InvalidInput
from turnout.wire.manifest import digest_of

MEGABYTE = 1 << 20


def kept(scene: Scene) -> int:
    """Bytes that have arrived at the hub."""
    return sum(path.stat().st_size for path in (scene.cli.home / "blobs").rglob("*") if path.is_file())


def test_uploads_that_are_killed_leave_the_share_as_it_was(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "cat").write_text("meow")
    scene.client.upload([tmp_path / "cat"], "pets")
    before = scene.client.share("pets")
    large = tmp_path / "large"
    large.mkdir()
    for number in range(40):
        (large / f"{number}.bin").write_bytes(random.Random(number).randbytes(MEGABYTE))
    for count in (1, 9, 25):
        uploading = scene.cli.start("upload", str(large), "--share", "pets")
        wait_until(lambda: kept(scene) > count * MEGABYTE, 20.0)  # noqa: B023
        uploading.send_signal(signal.SIGKILL)
        uploading.communicate(timeout=20)
        assert scene.client.share("pets") == before
    assert kept(scene) < 40 * MEGABYTE, "so that it was killed in the middle"
    told = scene.cli.json("upload", str(large), "--share", "pets")
    assert (told["files"], told["bytes"]) == (41, 40 * MEGABYTE + 4)
    scene.client.download_share("pets", tmp_path / "out")
    for path in large.iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()


def test_uploads_to_one_share_at_once_lose_nothing(scene: Scene, tmp_path: Path) -> None:
    scene.start_hub()

    def upload(number: int) -> None:
        client = Client()
        for round in range(4):
            path = tmp_path / f"{number}-{round}"
            path.write_text(f"{number} {round}")
            client.upload([path], "pets")

    at_once(*[lambda number=number: upload(number) for number in range(4)])
    found = {entry.path: entry.digest for entry in scene.client.share_files("pets")}
    assert found == {f"{n}-{r}": digest_of(f"{n} {r}".encode()) for n in range(4) for r in range(4)}


def test_names_and_bytes_that_nobody_would_choose(scene: Scene, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    (odd / "-rf").mkdir(parents=True)
    names = [b"\xff\xfe", b"new\nline", b"-n", b"a b\tc", b"$(touch gone)", b"'\"`", b"*", b"x" * 255, b"\x1b[2J",
             "kätzchen".encode(), b"-rf/.hidden", b"CON", b"%2e%2e", b"a\\..\\b"]  # fmt: skip
    contents = {os.fsdecode(name): random.Random(n).randbytes(n * 9973) for n, name in enumerate(names)}
    for name, content in contents.items():
        (odd / name).write_bytes(content)
    assert scene.cli.json("upload", str(odd), "--share", "odd")["files"] == len(names)
    scene.cli("list", "shares", "odd")
    scene.cli("download", "--share", "odd", str(tmp_path / "out"))
    out = tmp_path / "out"
    found = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert found == contents


def test_places_outside_of_the_share(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "cat").write_text("meow")
    for name in ("../up", "a/../../b", "a//b", ".", "a\0b", "/root"):
        with pytest.raises(InvalidInput):
            scene.client.upload([tmp_path / "cat"], "pets", path=name)
    assert scene.client.shares() == []


def test_a_file_that_changes_while_it_is_sent(scene: Scene, tmp_path: Path) -> None:
    """It is taken as it was at some moment, never half as it was and half as it is."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a.bin", "b.bin", "c.bin"):
        (data / name).write_bytes(name[:1].encode() * (3 * MEGABYTE))
    versions = {name: {(data / name).read_bytes()} for name in ("a.bin", "b.bin", "c.bin")}

    def change(done: int, total: int) -> None:
        name = "abc"[done // MEGABYTE % 3]
        new = bytes([65 + done // MEGABYTE]) * (2 * MEGABYTE)
        if len(versions[f"{name}.bin"]) < 3:
            versions[f"{name}.bin"].add(new)
            (data / f"{name}.bin").write_bytes(new)

    scene.client.upload([data], "moving", told=change)
    assert all(len(each) > 1 for each in versions.values())
    scene.client.download_share("moving", tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() in versions[path.name]


def test_a_disk_that_is_full_on_either_side(small_disk: Path, tiny_disk: Path, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(4 * MEGABYTE))
    scene.cli("upload", str(tmp_path / "large"), "--share", "pets")
    before = scene.client.share("pets")
    refused = scene.cli("download", "--share", "pets", str(tiny_disk / "out"), check=False)
    assert refused.returncode == 6 and "No space left" in refused.stderr
    assert list(tiny_disk.iterdir()) == []
    fill(small_disk / "filler", leave=MEGABYTE)
    (tmp_path / "large").write_bytes(random.Random(2).randbytes(4 * MEGABYTE))
    refused = scene.cli("upload", str(tmp_path / "large"), "--share", "pets", check=False)
    assert refused.returncode == 6 and "space" in refused.stderr and "Traceback" not in refused.stderr
    assert scene.client.share("pets") == before
    (small_disk / "filler").unlink()
    assert scene.cli.json("upload", str(tmp_path / "large"), "--share", "pets")["manifest"] != before["manifest"]


def test_a_download_into_the_directory_one_is_in(scene: Scene, tmp_path: Path) -> None:
    """It stays that directory: whoever is in it sees the files."""
    (tmp_path / "cat").write_text("meow")
    scene.client.upload([tmp_path / "cat"], "pets")
    before = scene.cli.cwd.stat().st_ino
    scene.cli("download", "--share", "pets", ".")
    assert [path.name for path in scene.cli.cwd.iterdir()] == ["cat"] and scene.cli.cwd.stat().st_ino == before
