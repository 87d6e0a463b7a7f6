"""A capture is the files of a directory by content; what must not be taken is told, all of it at once."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from turnout import errors
from turnout.snapshot import Limits, Snapshot, capture
from turnout.snapshot import reading as reading_module
from turnout.wire import manifest
from turnout.wire.manifest import Entry, digest_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project."""
    root = tmp_path / "project"
    for path, text in {
        "train.py": "print('training')\n",
        "lib/model.py": "class Model: ...\n",
        "lib/data/load.py": "def load(): ...\n",
        "run.sh": "#!/bin/sh\npython train.py\n",
        "empty.txt": "",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "run.sh").chmod(0o750)
    return root


def taken(root: Path, **options: object) -> Snapshot:
    return capture(root, cache=root.parent / "cache", **options)  # type: ignore[arg-type]


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(entry.path for entry in snapshot.entries)


def refused(root: Path, **options: object) -> errors.SnapshotRefused:
    with pytest.raises(errors.SnapshotRefused) as caught:
        taken(root, **options)
    return caught.value


def test_every_file_with_mode_size_and_digest(tree: Path) -> None:
    snapshot = taken(tree)
    assert sorted(snapshot.entries) == [
        Entry("empty.txt", 0o644, 0, digest_of(b"")),
        Entry("lib/data/load.py", 0o644, 16, digest_of(b"def load(): ...\n")),
        Entry("lib/model.py", 0o644, 17, digest_of(b"class Model: ...\n")),
        Entry("run.sh", 0o755, 26, digest_of(b"#!/bin/sh\npython train.py\n")),
        Entry("train.py", 0o644, 18, digest_of(b"print('training')\n")),
    ]
    assert (snapshot.files, snapshot.total_bytes) == (5, 77)
    assert snapshot.digest == digest_of(snapshot.manifest)
    assert manifest.decode(snapshot.manifest) == sorted(snapshot.entries)


def test_equal_trees_give_equal_digests_wherever_they_lie(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "elsewhere" / "copy", copy_function=shutil.copy)
    assert taken(tree).digest == taken(tmp_path / "elsewhere" / "copy").digest


def test_the_directory_is_only_read(tree: Path) -> None:
    def state() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in [tree, *tree.rglob("*")]}

    before = state()
    taken(tree)
    assert state() == before


def test_an_empty_directory_is_a_snapshot_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert taken(tmp_path / "empty").entries == ()


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(errors.InvalidInput, match="not a directory"):
            taken(path)


def test_odd_names_are_taken(tree: Path) -> None:
    for name in ("with space", "new\nline", "ümlaut", os.fsdecode(b"not \xff text"), "-rf", "~x", "*", "a" * 255):
        (tree / name).write_text("odd")
    assert len(taken(tree).entries) == 13
    assert manifest.decode(taken(tree).manifest)


def test_caches_and_environments_are_never_taken(tree: Path) -> None:
    (tree / "env").mkdir()
    (tree / "env/pyvenv.cfg").touch()
    for path in (
        ".git/config", ".turnout/x", "__pycache__/m.pyc", "lib/__pycache__/m.pyc", "old.pyc", "env/bin/python",
        "node_modules/x/index.js", ".mypy_cache/x", ".ruff_cache/x", ".pytest_cache/x", ".tox/x",
        "lib/.ipynb_checkpoints/x",
    ):  # fmt: skip
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).touch()
    (tree / ".venv").symlink_to("/usr")  # replaced below by one that leads to an environment elsewhere
    (tree / ".venv").unlink()
    other = tree.parent / "environment"
    other.mkdir()
    (other / "pyvenv.cfg").touch()
    (tree / ".venv").symlink_to(other)
    assert len(paths(taken(tree))) == 5


def test_links_that_stay_inside_are_kept_as_links(tree: Path) -> None:
    (tree / "latest.py").symlink_to("lib/model.py")
    (tree / "lib/up").symlink_to("../train.py")
    (tree / "lib/code").symlink_to("data")
    (tree / "dangling").symlink_to("not/there")
    (tree / "absolute").symlink_to(tree / "lib" / "model.py")
    (tree / "roundabout").symlink_to("lib/../train.py")
    links = {entry.path: entry.link for entry in taken(tree).entries if entry.link}
    assert links == {
        "latest.py": "lib/model.py",
        "lib/up": "../train.py",
        "lib/code": "data",
        "dangling": "not/there",
        "absolute": "lib/model.py",
        "roundabout": "train.py",
    }
    assert "lib/code/load.py" not in paths(taken(tree))


def test_all_problems_are_told_at_once_with_what_to_do(tree: Path) -> None:
    (tree / "passwd").symlink_to("/etc/passwd")
    (tree / "lib/out").symlink_to("../../outside")
    os.mkfifo(tree / "pipe")
    (tree / ".env").write_text("KEY=1")
    (tree / "big.bin").write_bytes(bytes(2000))
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.getcwd()
        os.chdir(tree)  # the path of a socket must be short
        try:
            listener.bind("socket")
        finally:
            os.chdir(before)
        error = refused(tree, limits=Limits(file_bytes=1000))
    assert error.message.splitlines() == [
        f"6 things in {tree} cannot go into the snapshot:",
        "  .env: looks like a file of secret settings by its name",
        "  big.bin: 2.0 KiB is over the cap of 1000 B",
        "  lib/out: is a symlink out of the tree (to ../../outside)",
        "  passwd: is a symlink out of the tree (to /etc/passwd)",
        "  pipe: is neither a file, a directory nor a link",
        "  socket: is neither a file, a directory nor a link",
    ]
    for advice in (".turnoutignore", "--allow-secret PATH", "`code: max-file-size`"):
        assert advice in error.hint
    assert error.exit_code == 2


def test_a_long_list_is_cut(tree: Path) -> None:
    for number in range(30):
        (tree / f"link{number:02}").symlink_to("/etc/passwd")
    lines = refused(tree).message.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "  and 10 more"


def test_a_name_cannot_write_to_the_terminal(tree: Path) -> None:
    (tree / "\x1b]52;c;evil\x07").symlink_to("/etc/passwd")
    assert "\x1b" not in refused(tree).message


def test_what_is_ignored_is_no_problem(tree: Path) -> None:
    (tree / "passwd").symlink_to("/etc/passwd")
    (tree / ".env").write_text("KEY=1")
    os.mkfifo(tree / "pipe")
    (tree / ".turnoutignore").write_text("passwd\n.env\npipe\n")
    assert len(taken(tree).entries) == 6


def test_a_tree_over_the_count_cap_is_refused_before_it_is_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "many").mkdir()
    for number in range(20):
        (tree / f"many/{number}").touch()
    monkeypatch.setattr(reading_module, "read_stable", lambda *_: pytest.fail("read"))
    error = refused(tree, limits=Limits(files=10))
    assert "more than 10 files; most are in many (20)" in error.message
    assert "`code: max-files`" in error.hint


def test_a_tree_over_the_total_cap_is_refused_before_it_is_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "large.bin").write_bytes(bytes(5000))
    monkeypatch.setattr(reading_module, "read_stable", lambda *_: pytest.fail("read"))
    error = refused(tree, limits=Limits(total_bytes=5000))
    assert "5.0 KiB in all is over the cap of 4.9 KiB; most is large.bin (4.9 KiB), run.sh (26 B)" in error.message
    assert "`code: max-size`" in error.hint


def test_caps_hold_for_what_is_remembered_too(tree: Path) -> None:
    os.utime(tree / "train.py")
    taken(tree)
    assert "train.py" in refused(tree, limits=Limits(file_bytes=17)).message
    assert "in all" in refused(tree, limits=Limits(total_bytes=50)).message
    assert "more than 4 files" in refused(tree, limits=Limits(files=4)).message


def test_ten_thousand_levels_are_refused_not_a_crash(tree: Path) -> None:
    before = os.getcwd()
    os.chdir(tree)
    try:
        for _ in range(200):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(before)
    assert "is nested too deeply" in refused(tree).message


def test_what_cannot_be_read_is_refused(nobody: Path) -> None:
    root = nobody / "project"
    (root / "closed").mkdir(parents=True)
    (root / "unreadable").touch(mode=0)
    (root / "closed").chmod(0)
    error = refused(root)
    (root / "closed").chmod(0o700)
    assert error.message.splitlines()[1:] == [
        "  closed/: cannot be read (Permission denied)",
        "  unreadable: cannot be read (Permission denied)",
    ]
    assert "chmod u+r" in error.hint


def test_a_cache_that_cannot_be_written_is_no_problem(nobody: Path) -> None:
    (nobody / "project").mkdir()
    (nobody / "project/x").write_text("1")
    (nobody / "closed").mkdir(mode=0o500)
    for cache in (nobody / "closed", nobody / "closed/below", Path(os.devnull)):
        assert len(capture(nobody / "project", cache=cache).entries) == 1


class Writer:
    """Stands in for `os.fstat`: something is written to the file each time just before we look, `times` times."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.left, self.real = path, times, os.fstat

    def __call__(self, fd: int) -> os.stat_result:
        if self.left and os.readlink(f"/proc/self/fd/{fd}") == str(self.path):
            self.left -= 1
            with open(self.path, "a") as file:
                file.write("more\n")
        return self.real(fd)


def test_a_file_written_while_it_is_read_is_read_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fstat", Writer(tree / "train.py", 2))
    entry = {entry.path: entry for entry in taken(tree).entries}["train.py"]
    assert entry.digest == digest_of((tree / "train.py").read_bytes())
    assert entry.size == (tree / "train.py").stat().st_size


def test_a_file_that_never_stands_still_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fstat", Writer(tree / "train.py", 99))
    error = refused(tree)
    assert "train.py: keeps changing while it is read" in error.message
    assert "wait until that is done" in error.hint


def test_a_file_that_vanishes_meanwhile_is_not_part_of_it(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = reading_module.read_stable

    def vanish(fd: int, name: str, seen: object) -> object:
        (tree / "lib/model.py").unlink(missing_ok=True)
        return real(fd, name, seen)  # type: ignore[arg-type]

    monkeypatch.setattr(reading_module, "read_stable", vanish)
    assert "lib/model.py" not in paths(taken(tree))


def test_garbage_collection_is_left_as_it_was(tree: Path) -> None:
    import gc

    taken(tree)
    assert gc.isenabled()
    gc.disable()
    try:
        taken(tree)
        assert not gc.isenabled()
    finally:
        gc.enable()
