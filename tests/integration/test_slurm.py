"""Slurm as it really is: what its provider makes of each of its states, of its commands' complaints, of many jobs."""

from __future__ import annotations

import os
import signal
import socket
import socketserver
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import components
from tests.batching import Commands, Site, is_alive
from tests.harness import wait_until
from tests.slurm import Cluster, running_cluster
from turnout.engine.program import build
from turnout.hub.identity import identity
from turnout.plugin.provider import Failure, Need, Phase
from turnout.providers.slurm import SlurmProvider

pytestmark = [pytest.mark.xdist_group("slurm"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    components.slurm()
    with running_cluster(keep=2) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


@pytest.fixture
def commands(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands(("sbatch", "squeue", "scancel", "sacct"))
    monkeypatch.setenv("PATH", made.path)
    return made


@pytest.fixture
def site(cluster: Cluster, commands: Commands, tmp_path: Path) -> Site:
    return Site.of(SlurmProvider({"directory": str(tmp_path / "shared")}), "--hold")


def test_five_thousand_launches_cost_one_call_and_a_look_at_them_one(site: Site, commands: Commands) -> None:
    launches = [site.launch(stays=True) for _ in range(5000)]
    handles = site.but(raw_options=["--hold"]).submit(*launches)
    assert commands.calls("sbatch") == 1
    seen = site.provider.observe(handles)
    assert commands.calls("squeue") == commands.calls() - 1 == 1
    assert {each.phase for each in seen.values()} == {Phase.PENDING} and len(seen) == 5000
    site.provider.cancel(handles)
    assert commands.calls("scancel") == 1


@pytest.mark.parametrize("text", ["", "\n", "slurm_load_jobs error: what?\n", "JOBID|STATE|EXIT_CODE|\n1_1|RUN"])
def test_an_answer_that_is_none_is_never_taken_for_an_end(site: Site, commands: Commands, text: str) -> None:
    launch = site.launch(stays=True)
    (handle,) = site.submit(launch)
    with commands.spoiled("squeue", "answer", text), pytest.raises(Failure) as raised:
        site.look(handle)
    assert raised.value.kind == "transient"
    assert site.look(handle).phase is not Phase.GONE
    site.let_go([launch])
    site.wait_gone(handle)


def test_after_a_lost_answer_there_is_one_job_and_it_is_found(site: Site, cluster: Cluster, commands: Commands) -> None:
    launches = [site.launch(stays=True) for _ in range(3)]
    lost = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    with commands.spoiled("sbatch", "lose", lost), pytest.raises(Failure, match="Socket timed out"):
        site.provider.submit(launches)
    handles = [site.provider.find(launch.token) for launch in launches]
    assert sorted(cluster.jobs()) == sorted(filter(None, handles)) and len(set(handles)) == 3
    site.let_go(launches)
    wait_until(lambda: not cluster.jobs())


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Batch job submission failed: Invalid account or account/partition combination specified", "rejected"),
        ("Slurm temporarily unable to accept job, sleeping and retrying", "throttled"),
        ("Batch job submission failed: Job violates accounting/QOS policy (job submit limit, ...)", "throttled"),
        ("Unable to contact slurm controller (connect failure)", "transient"),
        ("Batch job submission failed: Protocol authentication error", "login"),
    ],
)
def test_what_a_complaint_means(site: Site, commands: Commands, said: str, kind: str) -> None:
    with commands.spoiled("sbatch", "refuse", f"sbatch: error: {said}\n"):
        (answer,) = site.provider.submit([site.launch()])
    assert isinstance(answer, Failure) and answer.kind == kind and said in answer.message
    assert (answer.retry_after > 0) == (kind == "throttled")


@pytest.mark.slow
def test_a_time_limit_warns_the_agent_first(site: Site) -> None:
    """Slurm ends a job some time after its limit; the warning comes two minutes before that, here at once."""
    launch = site.launch(stays=True, need=Need(seconds=60))
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    wait_until(lambda: site.was_warned(launch), 60.0)
    seen = site.wait_gone(handle)
    assert (seen.exit_code, seen.detail) == (0, "")
    assert (site.root / "orders" / f"{launch.token}.json").exists()  # it may be started again


def test_a_job_that_is_ended_behind_our_back(site: Site, cluster: Cluster) -> None:
    launch = site.launch(stays=True)
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    cluster("scancel", handle)
    assert site.wait_gone(handle).reason == "cancelled"


def test_one_that_makes_room_for_others_is_preempted(site: Site, cluster: Cluster) -> None:
    launch = site.launch(stays=True, need=Need(cpus=32))
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    urgent = cluster(
        "sbatch", "--parsable", "-p", "urgent", "-N", "2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 60"
    ).strip()
    try:
        assert site.wait_gone(handle, 60.0).reason == "preempted"
    finally:
        cluster("scancel", urgent)
    wait_until(lambda: not cluster.jobs())


def test_one_that_is_requeued_starts_again_with_its_order(site: Site, cluster: Cluster) -> None:
    site = site.but(raw_options=["--requeue"])
    launch = site.launch(stays=True)
    (handle,) = site.submit(launch)
    first = site.wait_started(launch)["pid"]
    cluster("scontrol", "requeue", handle)
    wait_until(lambda: "PENDING" in cluster("squeue", "-h", "-o", "%T", "-j", handle), 30.0)
    assert (seen := site.look(handle)).phase is Phase.ACTIVE and "requeued" in seen.detail
    cluster("scontrol", "update", f"jobid={handle}", "starttime=now")
    wait_until(lambda: site.wait_started(launch)["pid"] != first, 60.0)
    site.let_go([launch])
    assert site.wait_gone(handle).exit_code == 0


def test_a_job_that_slurm_has_forgotten(site: Site, cluster: Cluster) -> None:
    """Without accounting, what the job itself wrote down is all there is."""
    launch = site.launch(code=3)
    (handle,) = site.submit(launch)
    site.wait_gone(handle)
    wait_until(lambda: handle not in cluster("squeue", "-h", "-t", "all", "-o", "%i").split(), 90.0)
    assert (seen := site.look(handle)).phase is Phase.GONE
    assert (seen.exit_code, seen.reason) == (3, "exit_code")
    assert site.provider.find(launch.token) == handle


def test_a_relay_brings_the_hub_to_nodes_that_share_only_files(cluster: Cluster, tmp_path: Path) -> None:
    """It passes on what comes over TLS to the socket; there is one, and it comes back when it died."""
    folder = Path(tempfile.mkdtemp(prefix="to-"))
    digest = identity(folder / "hub.pem")
    hub = socketserver.UnixStreamServer(str(folder / "agent.sock"), _Echo)
    threading.Thread(target=hub.serve_forever, args=(0.05,), daemon=True).start()
    told = {"directory": str(tmp_path), "agent_socket": str(folder / "agent.sock"), "identity": str(folder / "hub.pem")}
    with _agent_program(Site.of(SlurmProvider({**told, "relay": "127.0.0.1"}), "--hold")) as site:
        (handle,) = site.but(raw_options=["--hold"]).submit(site.launch())
        address = site.root / "relay.address"
        for _ in range(2):
            wait_until(address.exists, 30.0)
            where, _, shown = address.read_text().strip().removeprefix("tls:").partition("#")
            assert shown == digest and _ask_over_tls(where) == b"hub: hello"
            site.look(handle)
            (pid,) = _relays(site.root)
            os.kill(pid, signal.SIGKILL)
            address.unlink()
            wait_until(lambda: not _relays(site.root))
            site.look(handle)
        site.provider.cancel([handle])
    hub.shutdown()
    hub.server_close()


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"hub: " + self.request.recv(100))


def _ask_over_tls(where: str) -> bytes:
    host, _, port = where.partition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port)), 10.0) as plain, context.wrap_socket(plain) as line:
        line.sendall(b"hello")
        return line.recv(100)


@contextmanager
def _agent_program(site: Site) -> Iterator[Site]:
    """With the agent's real program, which has the relay in it."""
    build(site.folder).rename(site.folder / "program.pyz")
    try:
        yield site
    finally:
        for pid in _relays(site.root):
            os.kill(pid, signal.SIGKILL)


def _relays(root: Path) -> list[int]:
    """The processes that are one, for this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"relay" in words and Path(os.readlink(process / "cwd")) == root:
                found.append(int(process.name))
    return [pid for pid in found if is_alive(pid)]
