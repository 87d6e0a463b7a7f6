"""What a person asked for is killed with -9 at many moments: all of it is done, or nothing, and it can be repeated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("what", "moments"),
    [
        ("import", 20),
        ("delete", 5),
        ("share", 10),
        ("download", 15),
        ("export", 15),
        ("shelf", 20),
        ("code", 15),
        ("layout", 15),
    ],
)
def test_killed_at_any_line(what: str, moments: int, tmp_path: Path) -> None:
    """See `tests.faults.deaths` for what is checked after each death."""
    argv = [sys.executable, "-m", "tests.faults.deaths", what, str(tmp_path), str(moments)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= moments, "so many times, at least, it was killed before it was through"
