"""Slurm as a target: the daemons are real, their nodes are on this machine, and agents are jobs of theirs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import components
from tests.batching import Commands, is_alive
from tests.harness import Cli, run_example, wait_until
from tests.slurm import Cluster, running_cluster
from tests.sshd import USER, running_box

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.timeout(150)]
LEASE = 2.0  # that of the tests


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    components.slurm()
    with running_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


@pytest.fixture
def lab(cli: Cli, cluster: Cluster) -> Iterator[Cli]:
    """A user with the target ``cluster`` in the settings, and a cluster without jobs."""
    _define(cli)
    yield cli
    cli("cancel", "all")
    cli("hub", "stop")
    cluster("scancel", "--me")
    wait_until(lambda: not cluster.jobs(), 30.0)


def _define(user: Cli, **settings: object) -> None:
    """The target, with these settings beside the usual ones."""
    directory = user.home.parent / "shared"
    told = {"service": "slurm", "partition": "p", "directory": str(directory), **settings}
    user.home.mkdir(parents=True, exist_ok=True)
    (user.home / "config.yaml").write_text(f"compute-targets: {json.dumps({'cluster': told})}\n")


def test_a_run_in_an_allocation(lab: Cli, cluster: Cluster) -> None:
    (lab.cwd / "train.py").write_text(
        "import sys, turnout\n"
        "turnout.log(loss=0.5)\n"
        "(turnout.output_dir() / 'model').write_text('weights')\n"
        "print(sys.argv[1:])\n"
    )
    view = lab.json("run", "--wait", "--target", "cluster", "train.py", "a b")
    assert (view["state"], view["target"]) == ("completed", "cluster")
    assert lab("logs", "run1").stdout == "['a b']\n"
    assert len(cluster.jobs()) == 1
    assert lab.json("metrics", "run1")["loss"][0]["value"] == 0.5
    lab("extract", "run1", str(lab.cwd / "got"))
    assert (lab.cwd / "got/after/output/model").read_text() == "weights"


def test_an_allocation_takes_many_runs(lab: Cli, cluster: Cluster) -> None:
    _define(lab, allocations=1)
    (lab.cwd / "all.txt").write_text("echo {}\n" * 100)
    before = cluster.all_jobs()
    lab("run", "--wait", "--target", "cluster", "--multi", "all.txt", timeout=120.0)
    (job,) = lab.json("list", "jobs")
    assert (job["runs"], job["state"]) == (100, "completed")
    assert len(cluster.all_jobs() - before) == 1


def test_a_run_with_more_time_than_usual_gets_an_allocation_that_has_it(lab: Cli, cluster: Cluster) -> None:
    _define(lab, time=180)
    before = cluster.all_jobs()
    lab("run", "--wait", "--target", "cluster", "--time", "4m", "true", timeout=60.0)
    (job,) = cluster.all_jobs() - before
    assert cluster("squeue", "-h", "-t", "all", "-j", job, "-o", "%l").strip() == "6:00"


def test_what_a_node_can_never_take_starts_none(lab: Cli, cluster: Cluster) -> None:
    _define(lab, **{"cpus": 2, "max-runs": 2})
    before = cluster.all_jobs()
    lab("run", "-d", "--target", "cluster", "--cpus", "8", "true")
    wait_until(lambda: "It can never start: it needs 8 cpus" in lab("why", "run1").stdout, 30.0)
    assert lab.json("run", "--wait", "--target", "cluster", "true")["state"] == "completed"
    assert len(cluster.all_jobs() - before) == 1


def test_an_allocation_that_begins_while_the_hub_is_away_waits_for_it(lab: Cli, cluster: Cluster) -> None:
    _define(lab, **{"raw-options": ["--hold"], "idle": 2})
    before = cluster.all_jobs()
    lab("run", "-d", "--target", "cluster", "true")
    wait_until(lambda: cluster.all_jobs() - before, 30.0)
    lab("hub", "stop")
    (job,) = cluster.all_jobs() - before
    cluster("scontrol", "release", job)
    # longer than it would wait on a machine of ours, and longer than it stays with nothing to do
    wait_until(lambda: cluster("squeue", "-h", "-j", job, "-t", "RUNNING", "-o", "%M").strip() >= "0:09", 40.0)
    wait_until(lambda: lab.json("show", "run1")["state"] == "completed", 60.0)
    assert cluster.all_jobs() - before == {job} and lab.json("show", "run1")["attempts"] == 1


def test_doctor_says_whether_a_job_would_be_taken(lab: Cli, cluster: Cluster) -> None:
    before = cluster.all_jobs()
    assert {each["level"] for each in lab.json("doctor", "cluster")} == {"ok"}
    _define(lab, partition="nope")
    done = lab("doctor", "cluster", check=False)
    assert done.returncode == 1 and "would not take a job" in done.stdout
    assert "Invalid partition name" in done.stdout and "sbatch --test-only" in done.stdout
    assert cluster.all_jobs() == before


def test_what_waits_in_the_queue_of_the_site_waits_as_long_as_it_takes(lab: Cli, cluster: Cluster) -> None:
    """Longer than the lease of an agent, too; and `why` has the scheduler's own word."""
    _define(lab, **{"raw-options": ["--hold"]})
    name = lab.json("run", "-d", "--target", "cluster", "echo", "at last")["runs"][0]
    (job,) = wait_until(cluster.jobs, 30.0)
    wait_until(lambda: "JobHeldUser" in lab("why", name).stdout, 30.0)
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 3 * LEASE, 30.0)
    assert cluster.jobs() == [job]
    cluster("scontrol", "release", job)
    wait_until(lambda: lab.json("show", name)["state"] == "completed", 30.0)
    assert lab.json("show", name)["attempts"] == 1 and lab("logs", name).stdout == "at last\n"


def test_a_job_that_is_ended_behind_our_back(lab: Cli, cluster: Cluster, tmp_path: Path) -> None:
    """What ran in it goes back to the queue, and to the next allocation."""
    go = tmp_path / "go"
    shell = f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done; echo done"
    name = lab.json("run", "-d", "--target", "cluster", "sh", "-c", shell)["runs"][0]
    wait_until(lambda: lab("logs", name).stdout == "begun\n", 60.0)
    (job,) = cluster.jobs()
    cluster("scancel", job)
    wait_until(lambda: job not in cluster.jobs(), 30.0)
    go.touch()
    wait_until(lambda: lab.json("show", name)["state"] == "completed", 60.0)
    assert lab.json("show", name)["attempts"] == 2


def test_a_command_that_is_signalled_before_its_agent(lab: Cli, cluster: Cluster, tmp_path: Path) -> None:
    """Who wants a node back may signal every process on it, in any order: that is no failure of what ran."""
    go = tmp_path / "go"
    shell = f"echo begun; while [ ! -e {go} ]; do sleep 0.05; done"
    name = lab.json("run", "-d", "--target", "cluster", "--retry", "0", "sh", "-c", shell)["runs"][0]
    wait_until(lambda: lab("logs", name).stdout == "begun\n", 60.0)
    (job,) = cluster.jobs()
    ours = {*_processes(f"SLURM_JOB_ID={job}".encode(), "environ")} & {*_processes(b"turnout.agent")}
    agent = min(ours)  # what it started came later
    commands = _processes(str(go).encode())
    os.kill(agent, signal.SIGSTOP)
    for pid in commands:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not _processes(str(go).encode()), what="the command has ended, and nobody was told")
    os.kill(agent, signal.SIGTERM)
    os.kill(agent, signal.SIGCONT)
    go.touch()
    wait_until(lambda: lab.json("show", name)["state"] in ("completed", "failed"), 60.0)
    view = lab.json("show", name)
    assert (view["state"], view["attempts"]) == ("completed", 2), view["message"]


def _processes(text: bytes, where: str = "cmdline") -> list[int]:
    """Those that have it among their arguments, or in their environment."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{where}"):
        with suppress(OSError):
            if text in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_the_hub_dies_before_it_hears_the_answer(lab: Cli, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one job of the site, and the next hub finds it."""
    commands = Commands(("sbatch",))
    monkeypatch.setenv("PATH", commands.path)
    _define(lab, allocations=1)
    before = cluster.all_jobs()
    lab("hub", "start")
    hub = lab.json("hub", "status")["pid"]
    (commands.folder / "victim").write_text(str(hub))
    with commands.spoiled("sbatch", "die"):
        name = lab.json("run", "-d", "--target", "cluster", "echo", "once")["runs"][0]
        wait_until(lambda: not is_alive(hub), 60.0)
    wait_until(lambda: lab.json("show", name)["state"] == "completed", 60.0)
    assert commands.calls("sbatch") == 1 and len(cluster.all_jobs() - before) == 1
    assert lab("logs", name).stdout == "once\n"


def test_over_ssh_to_a_login_node(cli: Cli, cluster: Cluster) -> None:
    """Who submits is another user over there, who has nothing of ours."""
    with running_box(components.sshd()) as box:
        profile = box.folder / "profile"
        profile.write_text(f"export SLURM_CONF={cluster.environment['SLURM_CONF']}\n")
        _define(
            cli, address=f"{USER}@127.0.0.1", port=box.port, profile=str(profile), directory="",
            **{"ssh-options": box.options},
        )  # fmt: skip
        done = cli("run", "--wait", "--target", "cluster", "sh", "-c", "id -un; pwd")
        who, where = done.stdout.split()
        assert who == USER and where.startswith(f"{box.home}/.turnout/clusters/")
        cli("hub", "stop")
    cluster("scancel", "-u", USER)
    wait_until(lambda: not cluster.jobs(), 30.0)


def test_python_functions_on_its_nodes(lab: Cli, cluster: Cluster) -> None:
    """Their workers are runs; what lies beside the script comes with the snapshot."""
    assert run_example(lab, "cluster") == "pi is about 3.14\n"
    views = lab.json("list", "runs")
    assert {(view["label"], view["target"]) for view in views} == {("workers", "cluster")}
    assert "completed" in {view["state"] for view in views} <= {"completed", "cancelled"}, "who came late is not needed"
