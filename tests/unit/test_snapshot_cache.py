"""What has not changed is not read again; what may have changed is."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

import turnout
from turnout import errors
from turnout.snapshot import Snapshot, capture, ignore
from turnout.snapshot import cache as cache_module
from turnout.snapshot import reading as reading_module
from turnout.wire.manifest import digest_of


class Project:
    """A directory and the captures of it; `read` are the names that the last capture had to read."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.cache = folder / "project", folder / "cache"
        self.read: list[str] = []
        self._now = time.time_ns
        self.clock = self._now()
        for number in range(3):
            (self.root / f"d{number}").mkdir(parents=True)
            for each in range(3):
                (self.root / f"d{number}/f{each}.py").write_text(f"{number} {each}")
        real = reading_module.read_stable

        def counted(fd: int | None, name: str, seen: cache_module.Identity) -> reading_module.FileRead:
            self.read.append(name)
            return real(fd, name, seen)

        monkeypatch.setattr(reading_module, "read_stable", counted)
        monkeypatch.setattr(time, "time_ns", lambda: self.clock)

    def later(self, seconds: float = 10) -> None:
        """Let time pass: the clock that a capture sees is moved, not waited for."""
        self.clock = self._now() + int(seconds * 1e9)

    def capture(self, **options: object) -> Snapshot:
        self.read.clear()
        return capture(self.root, cache=self.cache, **options)  # type: ignore[arg-type]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path, monkeypatch)
    made.later()
    return made


def test_an_unchanged_tree_is_not_read_again(project: Project) -> None:
    first = project.capture()
    assert len(project.read) == 9
    second = project.capture()
    assert project.read == []
    assert second.digest == first.digest


def test_only_what_changed_is_read(project: Project) -> None:
    first = project.capture()
    (project.root / "d1/f1.py").write_text("changed")
    (project.root / "d1/new.py").write_text("new")
    (project.root / "d2/f0.py").unlink()
    project.later(20)
    second = project.capture()
    assert sorted(project.read) == ["f1.py", "new.py"]
    assert second.digest != first.digest
    assert {entry.path for entry in first.entries} - {entry.path for entry in second.entries} == {"d2/f0.py"}
    project.capture()
    assert project.read == []


def test_a_change_of_equal_size_and_time_is_noticed(project: Project) -> None:
    """Same length, modification time put back: the change time tells."""
    path = project.root / "d0/f0.py"
    before = path.stat()
    project.capture()
    path.write_text("9 9")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    project.later(20)
    assert digest_of(b"9 9") in {entry.digest for entry in project.capture().entries}


def test_a_file_replaced_by_another_is_noticed(project: Project) -> None:
    project.capture()
    (project.root / "d0/other").write_text("8 8")
    (project.root / "d0/other").rename(project.root / "d0/f0.py")
    assert digest_of(b"8 8") in {entry.digest for entry in project.capture().entries}


def test_an_executable_bit_is_noticed(project: Project) -> None:
    project.capture()
    (project.root / "d0/f0.py").chmod(0o755)
    assert {entry.path: entry.mode for entry in project.capture().entries}["d0/f0.py"] == 0o755


def test_a_file_too_young_to_be_believed_is_read_again(project: Project) -> None:
    """It could change once more within the same tick of the file system's clock."""
    project.later(0)
    project.capture()
    project.capture()
    assert len(project.read) == 9
    project.later(1.9)
    project.capture()
    assert len(project.read) == 9
    project.later(5)
    project.capture()
    project.capture()
    assert project.read == []


def test_a_file_dated_in_the_future_is_still_remembered(project: Project) -> None:
    os.utime(project.root / "d0/f0.py", (4e9, 4e9))
    project.later()
    project.capture()
    project.capture()
    assert project.read == []


def test_a_secret_is_refused_again_without_being_read_again(project: Project) -> None:
    (project.root / "d0/f0.py").write_text("key = 'ghp_" + "a1B2c3D4e5" * 4 + "'")
    project.later()
    for expected in (9, 0):
        with pytest.raises(errors.SnapshotRefused, match="GitHub token"):
            project.capture()
        assert len(project.read) == expected
    assert len(project.capture(allow_secrets=["d0/f0.py"]).entries) == 9
    assert project.read == []


def test_decisions_of_the_rules_are_remembered_until_the_rules_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / ".gitignore").write_text("*/f1.py\n")
    (project.root / "link").symlink_to("d0")
    project.later()
    first = project.capture()
    with monkeypatch.context() as patch:
        patch.setattr(ignore.Rules, "leave_out", lambda *_: pytest.fail("asked again"))
        assert project.capture().digest == first.digest
    (project.root / "d1/.gitignore").write_text("f0.py\n")
    assert {entry.path for entry in first.entries} - {entry.path for entry in project.capture().entries} == {"d1/f0.py"}
    assert project.read == [".gitignore"]
    (project.root / ".gitignore").write_text("")
    project.capture()
    assert sorted(project.read) == [".gitignore", "f1.py", "f1.py", "f1.py"]


def test_a_file_that_becomes_a_directory_is_decided_anew(project: Project) -> None:
    (project.root / ".gitignore").write_text("build/\n")
    (project.root / "build").write_text("a file is not meant")
    project.later()
    assert "build" in {entry.path for entry in project.capture().entries}
    (project.root / "build").unlink()
    (project.root / "build").mkdir()
    (project.root / "build/out").touch()
    assert not any("build" in entry.path for entry in project.capture().entries)
    (project.root / "build/out").unlink()
    (project.root / "build").rmdir()
    (project.root / "build").write_text("again")
    assert "build" in {entry.path for entry in project.capture().entries}


def test_an_unchanged_tree_needs_no_pattern_library(project: Project) -> None:
    (project.root / ".gitignore").write_text("d0/*\n!d0/f0.py\n")
    project.later()
    project.capture()
    project.capture()
    program = """
import sys
from pathlib import Path
from turnout.snapshot import capture
print(len(capture(Path(sys.argv[1]), cache=Path(sys.argv[2])).entries), "pathspec" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, project.root, project.cache],
        env={**os.environ, "PYTHONPATH": str(Path(turnout.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["8", "False"]


def test_a_damaged_cache_only_means_reading_everything(project: Project) -> None:
    expected = project.capture().digest
    (path,) = project.cache.iterdir()
    image = path.read_bytes()
    rng = random.Random(3)
    flipped = bytearray(image)
    flipped[rng.randrange(60, len(image))] ^= 1
    for damaged in (b"", image[:10], image[: len(image) // 2], bytes(flipped), b"x" * 200, image + b"x"):
        path.write_bytes(damaged)
        assert project.capture().digest == expected
        assert len(project.read) == 9
    project.capture()
    assert project.read == []


def test_the_cache_is_private_and_holds_no_content(project: Project) -> None:
    (project.root / "d0/f0.py").write_text("unmistakable content")
    before = os.umask(0)
    try:
        project.capture()
    finally:
        os.umask(before)
    (path,) = project.cache.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(project.cache.stat().st_mode) == 0o700
    assert b"unmistakable" not in path.read_bytes()


def test_an_unchanged_capture_writes_nothing(project: Project) -> None:
    project.capture()
    project.capture()
    (path,) = project.cache.iterdir()
    before = path.stat().st_mtime_ns, path.stat().st_ino
    project.capture()
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_caches_of_old_directories_do_not_pile_up(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_KEPT_CACHES", 3)
    for number in range(6):
        root = project.root.parent / f"other{number}"
        root.mkdir()
        (root / "x").touch()
        capture(root, cache=project.cache)
    assert len(list(project.cache.iterdir())) == 3


def test_two_directories_do_not_share_a_cache(project: Project, tmp_path: Path) -> None:
    project.capture()
    (tmp_path / "other").mkdir()
    assert capture(tmp_path / "other", cache=project.cache).entries == ()
    project.capture()
    assert project.read == []
