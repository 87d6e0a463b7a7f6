"""Slurm with accounting: what it has forgotten is in the data base."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components
from tests.batching import Site
from tests.harness import wait_until
from tests.slurm import Cluster, accounted_cluster
from turnout.plugin.provider import Phase
from turnout.providers.slurm import SlurmProvider

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    components.slurm_accounting()
    with accounted_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


def test_how_forgotten_jobs_ended(cluster: Cluster, tmp_path: Path) -> None:
    """One by itself, one by another's hand, one by a signal, one before it began."""
    site = Site.of(SlurmProvider({"directory": str(tmp_path)}), "--hold")
    own, ended = site.launch(code=3), site.launch(stays=True)
    waiting, killed = site.launch(), site.launch(stays=True)
    handles = [*site.submit(own, ended, killed), *site.but(raw_options=["--hold"]).submit(waiting)]
    pids = [site.wait_started(launch)["pid"] for launch in (own, ended, killed)]
    cluster("scancel", handles[1], handles[3])
    os.kill(pids[2], signal.SIGKILL)
    wait_until(lambda: not cluster.all_jobs(), 60.0, "all of them are forgotten")
    seen = [site.look(handle) for handle in handles]
    assert {each.phase for each in seen} == {Phase.GONE}
    assert [each.reason for each in seen] == ["exit_code", "cancelled", "signal", "cancelled"]
    assert seen[0].exit_code == 3 and seen[1].detail.startswith("cancelled by ")
