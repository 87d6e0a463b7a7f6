"""A user whose hub stays for a whole module: starting one for each test would take longer than the tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Cli, fresh_user


@pytest.fixture(scope="module")
def user() -> Iterator[Cli]:
    """The command line, in a working directory that the tests of a module share."""
    with fresh_user() as made:
        yield made


@pytest.fixture
def project(user: Cli) -> Iterator[Path]:
    """That working directory, empty before and after each test."""
    yield user.cwd
    for left in user.cwd.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
