"""What a node keeps for many runs: made once, never half made, never removed while a run uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from turnout.agent.cache import Abandoned
from turnout.agent.shelf import Shelf
from turnout.agent.tidying import tidy


class Maker:
    """Makes a file of ten bytes, and counts."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, path: str, lock: int) -> int:
        self.made += 1
        Path(path).write_text("0123456789")
        return 10


def get(shelf: Shelf, key: str, user: Path, make: Callable[[str, int], int]) -> bool:
    """Whether it was found."""
    got = shelf.get(key, str(user), make, is_wanted=lambda: True, is_whole=lambda path, made: os.path.exists(path))
    assert Path(got.path).read_text() == "0123456789"
    return got.found


def test_a_thing_is_made_once(tmp_path: Path) -> None:
    shelf, make = Shelf(str(tmp_path / "shelf")), Maker()
    assert [get(shelf, "a", tmp_path, make) for _ in range(3)] == [False, True, True]
    assert make.made == 1


def test_many_at_once_wait_for_the_one_that_makes_it(tmp_path: Path) -> None:
    shelf, make = Shelf(str(tmp_path / "shelf")), Maker()
    threads = [threading.Thread(target=get, args=(shelf, "a", tmp_path, make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.made == 1


def test_what_failed_in_the_middle_is_made_anew(tmp_path: Path) -> None:
    shelf, make = Shelf(str(tmp_path / "shelf")), Maker()

    def fail(path: str, lock: int) -> int:
        Path(path).write_text("012")
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        get(shelf, "a", tmp_path, fail)
    assert get(shelf, "a", tmp_path, make) is False


def test_a_maker_that_was_killed_leaves_nothing_that_is_believed(tmp_path: Path) -> None:
    """Its child has the lock, too: as long as that still writes, nobody else begins."""
    program = (
        "import os, subprocess, sys\n"
        "from turnout.agent.shelf import Shelf\n"
        "def make(path, lock):\n"
        "    open(path, 'w').write('012')\n"
        "    subprocess.Popen(['sleep', '1000'], pass_fds=(lock,))\n"
        "    os.kill(os.getpid(), 9)\n"
        "Shelf(sys.argv[1]).get('a', '/', make, is_wanted=lambda: True, is_whole=lambda path, made: True)\n"
    )
    shelf, make = Shelf(str(tmp_path / "shelf")), Maker()
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "shelf")]).returncode == -9
    tries: list[bool] = []

    def is_wanted() -> bool:
        tries.append(True)
        return len(tries) < 5

    with pytest.raises(Abandoned):
        shelf.get("a", str(tmp_path), make, is_wanted=is_wanted, is_whole=lambda path, made: True)
    _end_holders(tmp_path / "shelf" / "a.lock")
    assert get(shelf, "a", tmp_path, make) is False


def _end_holders(lock: Path) -> None:
    """Ends whoever has that file open, ourselves excepted."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            held = [os.readlink(fd) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if str(lock) in held and int(entry.name) != os.getpid():
            os.kill(int(entry.name), 9)


def test_what_a_run_uses_stays_and_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    shelf, make = Shelf(str(tmp_path / "shelf")), Maker()
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        get(shelf, name, tmp_path / name, make)
        os.utime(tmp_path / "shelf" / name / "used", (ord(name), ord(name)))
    assert not shelf.drop_oldest(), "all are in use"
    (tmp_path / "b").rmdir()
    (tmp_path / "c").rmdir()
    assert shelf.drop_oldest() and sorted(path.name for path in (tmp_path / "shelf").glob("[abc]")) == ["a", "c"]
    assert get(shelf, "b", tmp_path / "a", make) is False, "it is made anew when it is wanted again"


def test_the_cache_stays_within_its_quota(tmp_path: Path) -> None:
    """Files that no view has go first; then a view that no run uses, and its files with it."""
    cache, shelf = tmp_path / "blobs", Shelf(str(tmp_path / "views"))
    cache.mkdir()
    for name, age in (("old", 9000), ("older", 9500), ("fresh", 0), ("seen", 9900)):
        (cache / name).write_bytes(b"x" * 100)
        os.utime(cache / name, times=(os.stat(cache).st_mtime - age,) * 2)

    def view(path: str, lock: int) -> int:
        os.link(cache / "seen", path)
        return 0

    shelf.get("v", str(tmp_path / "run"), view, is_wanted=lambda: True, is_whole=lambda path, made: True)
    assert tidy(str(cache), [shelf], 400) == 0
    assert tidy(str(cache), [shelf], 300) == 100 and not (cache / "older").exists()
    assert tidy(str(cache), [shelf], 150) == 200, "the last loose file, then what only the view kept"
    assert [path.name for path in cache.iterdir()] == ["fresh"]
    assert not list((tmp_path / "views").iterdir())
