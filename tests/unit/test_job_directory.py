"""The directory that jobs share with who submits them, as a shell of this machine reaches it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from turnout.plugin.job_directory import JobDirectory
from turnout.plugin.transport import Shell

OLD = time.time() - 62 * 24 * 3600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "shared"


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (OLD, OLD))


def test_what_nothing_happened_to_for_long_goes_with_the_next_job(root: Path) -> None:
    """A run whose files are old is none of that: something in its agent's directory is new."""
    directory = JobDirectory(Shell(str(root)))
    directory.bring({"orders/a.json": b"{}"}, "agent-1.pyz", b"program")
    work = {name: root / "nodes" / name / "runs" / "1.1" / "work" for name in ("old", "busy", "new")}
    for each in work.values():
        each.mkdir(parents=True)
        (each / "file").touch()
        age(each / "file", each, each.parent, each.parent.parent)
    work["old"].chmod(0o500)
    (root / "nodes" / "busy" / "agent.log").touch()
    age(root / "nodes" / "old", root / "nodes" / "busy", root / "orders" / "a.json")
    directory.bring({"orders/b.json": b"{}"}, "agent-1.pyz", b"program")
    assert {path.name for path in (root / "nodes").iterdir()} == {"busy", "new"}
    assert all((work[name] / "file").exists() for name in ("busy", "new"))
    assert {path.name for path in (root / "orders").iterdir()} == {"b.json"}
