"""A file that appears when it is whole."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from turnout.client.appearing import appearing


@pytest.fixture(params=["nameless", "named"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """On file systems that have files without a name, and on those that do not."""
    if request.param == "named":
        monkeypatch.setattr("sys.platform", "somewhere")
    return tmp_path


def test_it_is_there_when_it_is_whole_and_only_for_its_owner(folder: Path) -> None:
    with appearing(folder / "file") as target:
        target.write(b"all of it")
        assert not (folder / "file").exists()
    assert (folder / "file").read_bytes() == b"all of it" and os.listdir(folder) == ["file"]
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o600


def test_it_is_not_there_when_something_went_wrong(folder: Path) -> None:
    def fail() -> None:
        with appearing(folder / "file") as target:
            target.write(b"a part")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert os.listdir(folder) == []


@pytest.mark.parametrize("dangling", [False, True])
def test_what_came_to_be_there_meanwhile_is_left_alone(folder: Path, dangling: bool) -> None:
    def write() -> None:
        with appearing(folder / "file") as target:
            (folder / "file").symlink_to("nowhere") if dangling else (folder / "file").write_text("mine")
            target.write(b"another")

    with pytest.raises(FileExistsError):
        write()
    assert os.listdir(folder) == ["file"]
    assert dangling or (folder / "file").read_text() == "mine"


def test_what_a_killed_writer_left_is_removed_and_what_others_write_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "somewhere")
    abandoned, fresh, held = (tmp_path / f".turnout-{name}.part" for name in ("abandoned", "fresh", "held"))
    for path in (abandoned, fresh, held):
        path.write_text("a part")
    os.utime(abandoned, (1, 1))
    os.utime(held, (1, 1))
    with open(held) as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with appearing(tmp_path / "file"):
            assert not abandoned.exists() and fresh.exists() and held.exists()
