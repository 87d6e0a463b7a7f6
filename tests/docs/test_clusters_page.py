"""The page about clusters is followed where there is one: a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import components
from tests.docs.test_console import follow
from tests.harness import wait_until
from tests.slurm import running_cluster


@pytest.mark.xdist_group("slurm")
@pytest.mark.timeout(200)
def test_the_page_about_clusters(turnout_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    components.slurm()
    with running_cluster() as cluster:
        monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        follow("docs/howto/clusters.md", turnout_home, tmp_path)
        cluster("scancel", "--me")
        wait_until(lambda: not cluster.jobs(), 30.0)
