"""Torque's commands as Debian has them, over a real Slurm: the nearest thing to a PBS server that can be had.

Their package conflicts with that of Grid Engine, so it is only unpacked.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components
from tests.batching import Site
from tests.harness import wait_until
from tests.slurm import running_cluster
from turnout.plugin.provider import Phase
from turnout.providers.pbs import PbsProvider

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory that has them."""
    components.slurm()
    folder = tmp_path_factory.mktemp("torque")
    components.unpacked(("slurm-wlm-torque", "libslurm-perl", "libslurmdb-perl", "libslurm38"), folder)
    perl = next(folder.rglob("Slurm.pm")).parent
    library = next(folder.rglob("libslurm.so.*")).parent
    for name in ("sbatch", "salloc", "scancel"):  # they look for these beside themselves
        (folder / "usr" / "bin" / name).symlink_to(str(shutil.which(name)))
    (folder / "bin").mkdir()
    with running_cluster(keep=2) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
        for name in ("qsub", "qstat", "qdel"):
            env = f"PERL5LIB={perl} LD_LIBRARY_PATH={library} SLURM_CONF={cluster.environment['SLURM_CONF']}"
            (folder / "bin" / name).write_text(f'#!/bin/sh\n{env} exec {folder}/usr/bin/{name} "$@"\n')
            (folder / "bin" / name).chmod(0o755)
        yield folder / "bin"


def test_a_job_by_the_commands_of_torque(commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    site = Site.of(PbsProvider({"directory": str(tmp_path), "family": "torque"}), "-h")
    launch = site.launch(stays=True)
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    wait_until(lambda: site.look(handle).phase is Phase.ACTIVE, 30.0)
    assert site.provider.find(launch.token) == handle
    site.provider.cancel([handle])
    assert site.wait_gone(handle).phase is Phase.GONE
