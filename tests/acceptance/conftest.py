"""A user whose hub stays for a whole module: starting one for each test would take longer than the tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Cli, end_processes_of


@pytest.fixture(scope="module")
def user() -> Iterator[Cli]:
    """The command line, in a working directory that the tests of a module share."""
    base = Path(tempfile.mkdtemp(prefix="to-", dir="/tmp"))
    (base / "run").mkdir(mode=0o700)
    (base / "work").mkdir()
    cli = Cli(home=base / "home", cwd=base / "work")
    try:
        yield cli
    finally:
        end_processes_of(cli.home)
        shutil.rmtree(base)


@pytest.fixture
def project(user: Cli) -> Iterator[Path]:
    """That working directory, empty before and after each test."""
    yield user.cwd
    for left in user.cwd.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
