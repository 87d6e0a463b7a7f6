from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.scene import Scene
from tests.harness import Cli, end_processes_of, user_environment
from turnout.client import Client


@pytest.fixture
def scene(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name, value in user_environment(cli.home).items():
        monkeypatch.setenv(name, value)
    side = tmp_path / "side"
    side.mkdir()
    client = Client()
    yield Scene(cli, client, side)
    client.close()


@pytest.fixture
def small_disk(turnout_home: Path) -> Iterator[Path]:
    """TURNOUT_HOME is a file system of its own, of 24 MB."""
    turnout_home.mkdir(mode=0o700)
    with _mounted(turnout_home, 24 << 20):
        try:
            yield turnout_home
        finally:
            end_processes_of(turnout_home)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that is a file system of its own, of 1 MB."""
    directory = tmp_path / "tiny"
    directory.mkdir()
    with _mounted(directory, 1 << 20):
        yield directory


@contextmanager
def _mounted(directory: Path, size: int) -> Iterator[None]:
    options = f"size={size},mode=0700,uid={os.getuid()}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(f"a small file system cannot be mounted: {done.stderr}")
        pytest.skip("mounting a small file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)
