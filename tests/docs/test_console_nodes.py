"""The pages whose reader has more than this machine: GPUs, podman. Typed in as `test_console` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import components, containers
from tests.docs.test_console import follow
from turnout.testing.nvidia_smi import FakeGpus


@pytest.mark.timeout(120)
def test_gpus(turnout_home: Path, tmp_path: Path) -> None:
    follow("docs/howto/gpus.md", turnout_home, tmp_path, FakeGpus(tmp_path / "gpus", 2).folder)


@pytest.mark.xdist_group("containers")
@pytest.mark.timeout(120)
def test_containers(turnout_home: Path, tmp_path: Path) -> None:
    with containers.podman(components.podman()) as engine:
        follow("docs/howto/containers.md", turnout_home, tmp_path, engine.program.parent)
