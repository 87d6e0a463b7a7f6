"""A real Slurm cluster of several nodes, all of them on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.harness import wait_until

_CONF = """\
ClusterName=t
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MaxArraySize=20001
MaxJobCount=50000
MinJobAge={keep}
ReturnToService=2
SlurmdTimeout=10
KillWait=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
_NODE = "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=32 RealMemory=4000 State=UNKNOWN\n"
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/run/munge.sock
"""
_PARTITIONS = """\
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9
"""


@dataclass(frozen=True)
class Cluster:
    """Its commands find it by the environment variable ``SLURM_CONF``."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def __call__(self, *argv: str) -> str:
        """What one of its commands prints."""
        env = {**os.environ, **self.environment}
        return subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout

    def jobs(self) -> list[str]:
        """Handles of all that are not over."""
        return self("squeue", "-h", "-a", "-r", "-o", "%i").split()

    def all_jobs(self) -> set[str]:
        """Also of those that are over and not forgotten yet."""
        return set(self("squeue", "-h", "-a", "-r", "-t", "all", "-o", "%i").split())


_DBD = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost={host}
DbdPort={port}
SlurmUser=root
PidFile={folder}/run/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={storage}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


@contextmanager
def accounted_cluster(keep: int = 2) -> Iterator[Cluster]:
    """One whose jobs are kept in a data base."""
    folder = Path(tempfile.mkdtemp(prefix="turnout-acct-"))
    folder.chmod(0o755)
    (folder / "db").mkdir()
    shutil.chown(folder / "db", "mysql", "mysql")
    port, dbd = _free_ports(2)
    data = ["--no-defaults", f"--datadir={folder}/db", "--user=mysql"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    made = ["mariadb-install-db", *data, "--auth-root-authentication-method=normal"]
    subprocess.run(made, check=True, **quiet, timeout=60)  # type: ignore[call-overload]
    where = [f"--socket={folder}/db/m.sock", "--bind-address=127.0.0.1", f"--port={port}"]
    server = subprocess.Popen(["mariadbd", *data, *where], **quiet)  # type: ignore[call-overload]
    sql = (
        "create database slurm_acct_db; create user slurm@'127.0.0.1' identified by 'slurm'; "
        "grant all on slurm_acct_db.* to slurm@'127.0.0.1'"
    )
    argv = ["mariadb", "--no-defaults", f"--socket={folder}/db/m.sock", "-u", "root", "-e"]
    try:
        wait_until(lambda: subprocess.run([*argv, "select 1"], capture_output=True).returncode == 0, 30.0)
        subprocess.run([*argv, sql], check=True, timeout=30)
        with running_cluster(keep=keep, accounting=(port, dbd)) as cluster:
            yield cluster
    finally:
        server.kill()
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_cluster(nodes: int = 2, keep: int = 300, accounting: tuple[int, int] | None = None) -> Iterator[Cluster]:
    """Jobs that are over are remembered for `keep` seconds. `accounting`: the ports of a data base, and of who keeps
    jobs in it."""
    folder = Path(tempfile.mkdtemp(prefix="turnout-slurm-"))
    folder.chmod(0o755)
    for name in ("state", "log", "run", *(f"spool/n{number}" for number in range(1, nodes + 1))):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    host, ports = socket.gethostname().partition(".")[0], _free_ports(nodes + 1)
    lines = _CONF.format(host=host, port=ports[0], folder=folder, keep=keep)
    lines += "".join(_NODE.format(number=n, host=host, port=ports[n]) for n in range(1, nodes + 1)) + _PARTITIONS
    if accounting is not None:
        lines += _ACCOUNTING.format(folder=folder, port=accounting[1])
    (folder / "slurm.conf").write_text(lines)
    cluster = Cluster(folder)
    try:
        _start_munge(folder)
        if accounting is not None:
            _start_accounting(cluster, host, *accounting)
        cluster("slurmctld", "-c", "-f", str(folder / "slurm.conf"))
        for number in range(1, nodes + 1):
            cluster("slurmd", "-N", f"n{number}", "-f", str(folder / "slurm.conf"))
        wait_until(lambda: set(_sinfo(cluster)) == {"idle"} and len(_sinfo(cluster)) == nodes, 30.0)
        yield cluster
    finally:
        _stop(folder)


def _start_accounting(cluster: Cluster, host: str, storage: int, port: int) -> None:
    file = cluster.folder / "slurmdbd.conf"
    file.write_text(_DBD.format(folder=cluster.folder, host=host, port=port, storage=storage))
    file.chmod(0o600)
    cluster("slurmdbd")
    env = {**os.environ, **cluster.environment}
    argv = ["sacctmgr", "-i", "add", "cluster", "t"]
    wait_until(lambda: subprocess.run(argv, env=env, capture_output=True, timeout=30).returncode == 0, 30.0)


def _sinfo(cluster: Cluster) -> list[str]:
    env = {**os.environ, **cluster.environment}
    argv = ["sinfo", "-h", "-N", "-p", "p", "-o", "%T"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30).stdout.split()


def _start_munge(folder: Path) -> None:
    run = folder / "run"
    argv = [
        "munged", "--force", f"--key-file={folder}/munge.key", f"--socket={run}/munge.sock", "--num-threads=2",
        f"--pid-file={run}/munged.pid", f"--log-file={folder}/log/munged.log", f"--seed-file={run}/munge.seed",
    ]  # fmt: skip
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL, timeout=30)


def _stop(folder: Path) -> None:
    """Jobs first, then nodes, and last what they talk by."""
    with suppress(subprocess.SubprocessError, OSError, AssertionError):
        Cluster(folder)("scancel", "--me", "--signal=KILL", "--full")
        Cluster(folder)("scancel", "--me")
        wait_until(lambda: not Cluster(folder).jobs(), 10.0)
    for name in ("slurmd-*", "slurmctld", "slurmdbd", "munged"):
        for file in (folder / "run").glob(f"{name}.pid"):
            with suppress(ValueError, ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
