"""Schedulers, as providers, keep every promise of the contract.

The daemons are real ones, but for PBS, of which there is none to be had: its commands are ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests import components, gridengine
from tests.batching import Commands
from tests.contract.command_lab import CommandLab, Words
from tests.gridengine import running_gridengine
from tests.harness import wait_until
from tests.slurm import running_cluster
from turnout.plugin.batch import BatchProvider
from turnout.plugin.provider import Provider
from turnout.providers.pbs import PbsProvider
from turnout.providers.sge import SgeProvider
from turnout.providers.slurm import SlurmProvider
from turnout.testing import Lab, ProviderContract, pbs

pytestmark = [pytest.mark.timeout(180)]


class SchedulerContract(ProviderContract):
    """`kind` is its provider; `running` has its daemons and gives its words, while `patch` has its environment."""

    kind: ClassVar[type[BatchProvider]]
    own: ClassVar[Mapping[str, object]] = {}
    words: ClassVar[Words]
    commands: ClassVar[Commands]
    root: ClassVar[Path]

    @classmethod
    def running(cls, patch: pytest.MonkeyPatch) -> Iterator[Words]:
        raise NotImplementedError

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def is_up(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        cls.root = tmp_path_factory.mktemp("s")
        with pytest.MonkeyPatch.context() as patch, contextmanager(cls.running)(patch) as cls.words:
            cls.commands = Commands(cls.words.commands)
            patch.setenv("PATH", cls.commands.path)
            yield

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        return self.kind({**settings, **self.own, "directory": str(self.root)})

    def make_lab(self) -> Lab:
        return CommandLab(self.words, self.commands, self.root)


@pytest.mark.xdist_group("slurm")
class TestSlurm(SchedulerContract):
    kind = SlurmProvider

    @classmethod
    def running(cls, patch: pytest.MonkeyPatch) -> Iterator[Words]:
        components.slurm()
        with running_cluster(keep=2) as cluster:
            patch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])

            def purge() -> None:
                listed = ("squeue", "-h", "-a", "-t", "all", "-o", "%i")
                wait_until(lambda: not cluster(*listed).split(), 60.0, "Slurm has forgotten all jobs")

            yield Words(
                commands=("sbatch", "squeue", "scancel", "sacct"), purge=purge,
                lost="sbatch: error: Socket timed out on send/recv operation",
                throttled="sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
                login="sbatch: error: Batch job submission failed: Protocol authentication error",
                down="slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
            )  # fmt: skip


@pytest.mark.xdist_group("gridengine")
class TestGridEngine(SchedulerContract):
    kind = SgeProvider

    @classmethod
    def running(cls, patch: pytest.MonkeyPatch) -> Iterator[Words]:
        components.gridengine()
        with running_gridengine():
            for name, value in gridengine.ENVIRONMENT.items():
                patch.setenv(name, value)
            yield Words(
                commands=("qsub", "qstat", "qdel", "qacct"), purge=lambda: None,  # of what is over it tells nothing
                lost="error: commlib error: got read error (closing connection)",
                throttled="Unable to run job: job rejected: only 10 jobs per user are allowed",
                login="Unable to run job: denied: host is no submit host.",
                down="error: unable to contact qmaster using port 6444 on host",
            )  # fmt: skip


class PbsContract(SchedulerContract):
    kind = PbsProvider
    family: ClassVar[str] = "pro"

    @classmethod
    def running(cls, patch: pytest.MonkeyPatch) -> Iterator[Words]:
        path = pbs.install(cls.root / "pbs", cls.family)
        patch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}")
        yield Words(
            commands=("qsub", "qstat", "qdel"), lost="qsub: End of File",
            throttled="qsub: would exceed limit on user's jobs in queue", login="qsub: Unauthorized Request",
            down="cannot connect to server", many=50,  # each is a process at once
        )  # fmt: skip


@pytest.mark.xdist_group("pbs")
class TestPbs(PbsContract):
    pass


@pytest.mark.xdist_group("torque")
class TestTorque(PbsContract):
    family = "torque"
    own = {"family": "torque"}
