"""Boxes whose connections break, that are cut off, lose their power or have full disks: no run ends wrongly for it, no
byte is lost, and nothing runs twice at once. The boxes are three hosts with real SSH servers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests import components
from tests.faults.scene import Scene, fill
from tests.harness import Cli, wait_until
from tests.netns import Host, Yard, running_hosts

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(300)]
#: Long enough for a connection to be made again on a busy machine, short enough to wait for its end.
LEASE = {"TURNOUT_LEASE": "8"}
#: Prints numbered lines until it is let go. $1 = a directory that all hosts see. Two at once would both say so.
COUNTING = """\
n=0
mkdir "$1/busy-$TURNOUT_RUN_NAME" 2>/dev/null || echo "$TURNOUT_ATTEMPT ran at the same time" >> "$1/twice"
trap 'rmdir "$1/busy-$TURNOUT_RUN_NAME"; exit 143' TERM
while [ ! -e "$1/go" ]; do echo "$n"; n=$((n+1)); sleep 0.02; done
echo "end $n"
rmdir "$1/busy-$TURNOUT_RUN_NAME"
"""


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with running_hosts(components.namespaces(), ["ada", "bob", "cyd"], home_size="60m") as made:
        yield made


@pytest.fixture
def side() -> Iterator[Path]:
    """Seen by all hosts, as a shared file system is."""
    made = Path(tempfile.mkdtemp(prefix="turnout-side-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def lab(scene: Scene, yard: Yard, side: Path) -> Scene:
    """A user with the three boxes and a pool of them, whose hub gives longer leases."""
    scene.cli.home.mkdir(parents=True, exist_ok=True)
    (scene.cli.home / "config.yaml").write_text(
        yard.settings(**{"max-runs": 2}) + "compute-targets: {lab: {service: pool}}\n"
    )
    start(scene)
    return replace(scene, side=side)


def start(scene: Scene) -> None:
    scene.cli("hub", "start", env=LEASE)


def count_at(lab: Scene, target: str) -> str:
    """A run there that counts, and has begun to."""
    name = lab.submit("--target", target, "sh", lab.script("count.sh", COUNTING), str(lab.side))
    wait_until(lambda: b"5\n" in lab.output(name), 60.0, f"{name} prints")
    return name


def is_whole(lab: Scene, name: str) -> bool:
    """All that it printed is there, once and in order."""
    *lines, last = lab.output(name).decode().splitlines()
    return lines == [str(n) for n in range(len(lines))] and last == f"end {len(lines)}"


def grows(lab: Scene, name: str) -> None:
    """What it prints now arrives."""
    seen = len(lab.output(name))
    wait_until(lambda: len(lab.output(name)) > seen, 60.0, f"more output of {name}")


def test_twenty_drops(lab: Scene, yard: Yard) -> None:
    names = [count_at(lab, host.name) for host in yard.hosts]
    names += [count_at(lab, "lab") for _ in yard.hosts]
    for number in range(20):
        grows(lab, names[number % 3])  # so that there is a connection, and somebody uses it
        assert yard.hosts[number % 3].drop_connections()
    for name in names:
        grows(lab, name)
    lab.allow("go")
    for name in names:
        view = lab.wait_for(name, timeout=90.0)
        assert (view["state"], view["attempts"]) == ("completed", 1)
        assert is_whole(lab, name)
    assert not (lab.side / "twice").exists()


def test_a_drop_is_not_noticed_by_the_silence_alone(lab: Scene, yard: Yard) -> None:
    """The lease is so long that nobody would be missed while this test runs."""
    lab.cli("hub", "stop")
    lab.cli("hub", "start", env={"TURNOUT_LEASE": "6000"})
    ada = yard.hosts[0]
    name = count_at(lab, "ada")
    assert ada.drop_connections()
    grows(lab, name)
    lab.allow("go")
    lab.wait_for(name, timeout=60.0)
    assert ada.drop_connections()
    wait_until(ada.drop_connections, 60.0, "the hub calls an agent that does nothing")


def test_a_cut_shorter_than_the_lease(lab: Scene, yard: Yard) -> None:
    """Nobody notices but by the silence."""
    name = count_at(lab, "ada")
    yard.hosts[0].cut()
    wait_until(lambda: is_overdue(lab, name), 30.0, "the hub misses it")
    yard.hosts[0].mend()
    grows(lab, name)
    lab.allow("go")
    view = lab.wait_for(name, timeout=60.0)
    assert (view["state"], view["attempts"]) == ("completed", 1) and is_whole(lab, name)


def is_overdue(lab: Scene, name: str) -> bool:
    """Nothing was heard of it for some seconds: what it prints does not come."""
    before = len(lab.output(name))
    try:
        wait_until(lambda: len(lab.output(name)) > before, 3.0)
    except AssertionError:
        return True
    return False


def test_a_cut_longer_than_the_lease(lab: Scene, yard: Yard) -> None:
    """The run goes to another box. What went on at the first one ends when that one is back, and counts for nothing."""
    name = lab.submit("--target", "lab", "--cpus", "2", "sh", lab.script("count.sh", COUNTING), str(lab.side))
    view = lab.wait_for(name, "running", timeout=60.0)
    host = next(each for each in yard.hosts if each.name == view["node"])
    host.cut()
    try:
        wait_until(lambda: lab.show(name)["attempts"] == 2 and lab.show(name)["state"] == "running", 90.0)
        assert lab.show(name)["node"] != host.name
    finally:
        host.mend()
    wait_until(lambda: not running_there(host), 60.0, "the first attempt is ended")
    lab.allow("go")
    view = lab.wait_for(name, timeout=60.0)
    assert (view["state"], view["attempts"]) == ("completed", 2) and is_whole(lab, name)


def running_there(host: Host) -> str:
    return host.run("pgrep", "-f", "[c]ount.sh")


def test_what_a_dead_agent_left_is_ended_by_the_next_one(lab: Scene, yard: Yard) -> None:
    """It was given up while the box was cut off, and then died: nobody else would ever ask for its runs."""
    ada = yard.hosts[0]
    name = count_at(lab, "ada")
    ada.cut()
    try:
        wait_until(lambda: lab.show(name)["state"] == "queued", 60.0, "it is given up")
        assert ada.kill_agents()
        assert running_there(ada)
    finally:
        ada.mend()
    wait_until(lambda: lab.show(name)["attempts"] == 2 and lab.show(name)["state"] == "running", 60.0)
    wait_until(lambda: len(running_there(ada).split()) == 1, 30.0, "the first attempt is ended")
    lab.allow("go")
    assert lab.wait_for(name, timeout=60.0)["state"] == "completed" and is_whole(lab, name)


@pytest.mark.parametrize("dies", [False, True])
def test_what_is_not_wanted_any_more_ends_when_the_box_is_back(lab: Scene, yard: Yard, dies: bool) -> None:
    """Though nothing else is sent there; also when its agent died meanwhile."""
    bob = yard.hosts[1]
    name = count_at(lab, "bob")
    bob.cut()
    try:
        wait_until(lambda: lab.show(name)["state"] == "queued", 60.0, "it is given up")
        lab.cli("cancel", "run", name)
        assert not dies or bob.kill_agents()
        assert running_there(bob)
    finally:
        bob.mend()
    wait_until(lambda: not running_there(bob), 90.0, "it is ended")
    assert (lab.show(name)["state"], lab.show(name)["attempts"]) == ("cancelled", 1)


def test_the_agent_there_is_killed(lab: Scene, yard: Yard) -> None:
    """The run goes on, and another agent takes it over."""
    name = count_at(lab, "bob")
    assert yard.hosts[1].kill_agents()
    grows(lab, name)
    lab.allow("go")
    view = lab.wait_for(name, timeout=60.0)
    assert (view["state"], view["attempts"]) == ("completed", 1) and is_whole(lab, name)


def test_the_hub_is_killed(lab: Scene, yard: Yard) -> None:
    """With its connections, once, and with them staying, once."""
    names = [count_at(lab, "ada"), count_at(lab, "lab")]
    lab.kill_hub()
    start(lab)
    for name in names:
        grows(lab, name)
    lab.kill_hub()
    for host in yard.hosts:
        host.drop_connections()
    start(lab)
    for name in names:
        grows(lab, name)
    lab.allow("go")
    for name in names:
        view = lab.wait_for(name, timeout=60.0)
        assert (view["state"], view["attempts"]) == ("completed", 1) and is_whole(lab, name)


def test_the_program_that_keeps_a_connection_is_killed(lab: Scene) -> None:
    name = count_at(lab, "ada")
    found = subprocess.run(["pgrep", "-f", f"^ssh -S {lab.cli.home.parent}/run/.* -M "], capture_output=True, text=True)
    keepers = [int(pid) for pid in found.stdout.split()]
    assert keepers
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    grows(lab, name)
    lab.allow("go")
    view = lab.wait_for(name, timeout=60.0)
    assert (view["state"], view["attempts"]) == ("completed", 1) and is_whole(lab, name)


def test_power_is_lost(lab: Scene, yard: Yard) -> None:
    """All that ran there is gone; it is done again, there or elsewhere, when that is known."""
    cyd = yard.hosts[2]
    name = count_at(lab, "cyd")
    cyd.lose_power()
    cyd.start()
    wait_until(lambda: lab.show(name)["attempts"] == 2 and lab.show(name)["state"] == "running", 90.0)
    lab.allow("go")
    view = lab.wait_for(name, timeout=60.0)
    assert (view["state"], view["attempts"]) == ("completed", 2) and is_whole(lab, name)


def test_the_disk_there_is_full(lab: Scene, yard: Yard, cli: Cli) -> None:
    """What runs goes on, and how it ended is told later; what needs room waits for it."""
    bob = yard.hosts[1]
    waiter = lab.script("wait.sh", 'touch "$1/up"; while [ ! -e "$1/go" ]; do sleep 0.05; done; touch "$1/ran"; exit 5')
    running = lab.submit("--target", "bob", "sh", waiter, str(lab.side))
    wait_until(lambda: (lab.side / "up").exists(), 60.0)
    lab.wait_for(running, "running")
    (cli.cwd / "large").write_bytes(os.urandom(1 << 20))
    fill(bob.home / "filler")
    try:
        waiting = cli.json("run", "-d", "--target", "bob", "wc", "-c", "large")["runs"][0]
        lab.allow("go")
        wait_until(lambda: (lab.side / "ran").exists())
        told = lab.cli("doctor", "bob", check=False)
        assert told.returncode == 1 and "MB free" in told.stdout and "free some space" in told.stdout
        assert lab.show(waiting)["state"] in ("queued", "starting")
    finally:
        (bob.home / "filler").unlink()
    view = lab.wait_for(running, timeout=60.0)
    assert (view["state"], view["exit_code"], view["attempts"]) == ("failed", 5, 1)
    assert lab.wait_for(waiting, timeout=60.0)["state"] == "completed"
    assert lab.output(waiting) == b"1048576 large\n"


def test_a_start_whose_answer_is_lost(lab: Scene, yard: Yard, tmp_path: Path, cli: Cli) -> None:
    """The connection breaks after the agent was started and before that was told: there is one agent, not two."""
    real = subprocess.run(["sh", "-c", "command -v ssh"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    # An ssh that, once, does what it was told, and then says that the connection was lost.
    (folder / "ssh").write_text(
        f'#!/bin/sh\ncase "$*" in *"turnout.agent >>"*) if mkdir {folder}/once 2>/dev/null; then '
        f'{real} "$@" >/dev/null; echo "Connection reset" >&2; exit 255; fi ;; esac\nexec {real} "$@"\n'
    )
    (folder / "ssh").chmod(0o755)
    before = roots(yard.hosts[0])
    cli("hub", "stop")
    cli("hub", "start", env={**LEASE, "PATH": f"{folder}:{os.environ['PATH']}"})
    name = lab.submit("--target", "ada", "hostname")
    assert lab.wait_for(name, timeout=60.0)["state"] == "completed"
    assert (folder / "once").exists() and lab.output(name) == b"ada\n"
    assert len([node for node in lab.client.nodes() if node["target"] == "ada"]) == 1
    (root,) = roots(yard.hosts[0]) - before
    assert os.listdir(yard.hosts[0].home / ".turnout/boxes" / root / "nodes") == ["1"]


def roots(host: Host) -> set[str]:
    folder = host.home / ".turnout/boxes"
    return set(os.listdir(folder)) if folder.exists() else set()


def test_setups_and_data_there(lab: Scene, yard: Yard, cli: Cli) -> None:
    """Made and fetched once per box, and used by the next run too, over connections that break meanwhile."""
    (cli.cwd / "turnout.yaml").write_text("setups: {mine: {activate: 'export GREETING=hello'}}\n")
    (cli.cwd / "set").mkdir()
    (cli.cwd / "set/words").write_text("world\n" * 100_000)
    cli("upload", "--share", "words", "set")
    argv = ["run", "-d", "--target", "ada", "--setup", "mine", "--data", "words", "--no-snapshot"]
    shell = 'echo "$GREETING"; find "$TURNOUT_DATA_DIR" -name words -exec wc -l {} + | tr -s " " | cut -d" " -f1-2'
    name = cli.json(*argv, "sh", "-c", shell)["runs"][0]
    yard.hosts[0].drop_connections()
    assert lab.wait_for(name, timeout=60.0)["state"] == "completed"
    assert b"hello\n" in lab.output(name) and b"100000" in lab.output(name)
