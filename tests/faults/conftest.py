from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.scene import Scene
from tests.harness import Cli, user_environment
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
