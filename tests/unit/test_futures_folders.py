"""Directories of executors: one that was killed has its removed by the next."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from turnout.futures.folders import executor_folder

HOLD = """
import sys, time
from turnout.futures.folders import executor_folder
with executor_folder("test", sys.argv[1]) as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def test_it_goes_with_its_executor(tmp_path: Path) -> None:
    with executor_folder("test", str(tmp_path)) as folder:
        Path(folder, "more").mkdir()
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_killed_one_goes_with_the_next(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    theirs = Path(other.stdout.readline().strip())
    with executor_folder("test", str(tmp_path)):
        assert theirs.exists(), "it is in use"
    os.kill(other.pid, signal.SIGKILL)
    other.communicate()
    with executor_folder("test", str(tmp_path)) as folder:
        assert list(tmp_path.iterdir()) == [Path(folder)]


def test_what_is_not_marked_stays(tmp_path: Path) -> None:
    (tmp_path / "turnout-other").mkdir()
    (tmp_path / "turnout-link").symlink_to(tmp_path / "turnout-other")
    with executor_folder("test", str(tmp_path)):
        pass
    assert (tmp_path / "turnout-other").exists()
