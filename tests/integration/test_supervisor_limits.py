"""The memory limit: held by the kernel where a cgroup can be made, by looking where not; and the cause is ``oom``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.supervising import Node
from turnout.agent import limits, record, tree
from turnout.agent.limits import CgroupLimit, SampledLimit, find_place, limit_memory

MB = 1 << 20
GREEDY = "held = []\nwhile True: held.append(b'x' * (4 << 20))"
MODEST = "held = b'x' * (30 << 20)"


def cgroups_can_be_made() -> bool:
    limit = limit_memory(64 * MB, f"turnout-probe-{os.getpid()}")
    limit.remove()
    return isinstance(limit, CgroupLimit)


@pytest.fixture(params=["cgroup", "sampled"])
def limited_node(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node that holds memory limits the one way or the other."""
    if request.param == "sampled":
        monkeypatch.setattr(limits, "find_place", lambda: None)  # the launcher is forked from here
    elif not cgroups_can_be_made():
        pytest.skip("no memory cgroup can be made here")
    node = Node(tmp_path)
    yield node
    node.close()


def test_run_over_its_limit_is_out_of_memory(limited_node: Node) -> None:
    ended = limited_node.python(GREEDY, memory=100 * MB)
    assert (ended.cause, ended.signal, ended.message) == ("oom", signal.SIGKILL, "out of memory")
    assert ended.max_rss < 2000 * MB
    assert limited_node.processes() == []


def test_child_over_the_limit_fails_the_run_as_out_of_memory(limited_node: Node) -> None:
    """The usual case: a script whose program is killed."""
    script = f'{sys.executable} -c "$1"; exit $?'
    ended = limited_node.run("bash", "-c", script, "bash", GREEDY, memory=100 * MB)
    assert ended.cause == "oom"


def test_run_below_its_limit_is_left_alone(limited_node: Node) -> None:
    ended = limited_node.python(f"{MODEST}\nimport time; time.sleep(0.7)", memory=200 * MB)
    assert (ended.cause, ended.exit_code) == ("exit", 0)


def test_failure_below_the_limit_is_not_blamed_on_memory(limited_node: Node) -> None:
    assert limited_node.shell("kill -KILL $$", memory=200 * MB).cause == "signal"
    assert limited_node.shell("exit 137", key="2.1", memory=200 * MB).cause == "exit"


def test_shared_memory_counts_once(limited_node: Node) -> None:
    """Four processes that share 60 MB are not 240."""
    script = """
import os, time
held = bytearray(60 << 20)
for _ in range(3):
    if os.fork() == 0:
        sum(held[::4096]); time.sleep(1.2); os._exit(0)
for _ in range(3): os.wait()
"""
    ended = limited_node.python(script, memory=150 * MB)
    assert (ended.cause, ended.exit_code) == ("exit", 0)


def test_cgroup_is_recorded_while_it_lasts_and_removed_after(tmp_path: Path) -> None:
    if not cgroups_can_be_made():
        pytest.skip("no memory cgroup can be made here")
    node = Node(tmp_path)
    started = node.start("bash", "-c", "echo up > ready; exec sleep 1000", memory=100 * MB)
    node.wait_for_file("ready")
    running = node.wait_for_child()
    assert running.cgroup is not None and running.child is not None
    members = (Path(running.cgroup) / "cgroup.procs").read_text().split()
    assert str(running.child.pid) in members
    assert str(started.process.pid) not in members
    node.stop(started)
    node.finish()
    assert not Path(running.cgroup).exists()
    node.close()


def test_run_without_limit_has_no_cgroup(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run("true")
    running = record.read_running(str(node.ctl()))
    assert running is not None and running.cgroup is None
    node.close()


@pytest.mark.parametrize(
    ("script", "cause"), [("kill -KILL $$", "oom"), ("exit 137", "oom"), ("exit 1", "exit"), ("exit 0", "exit")]
)
def test_kill_by_the_machines_oom_killer_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, cause: str
) -> None:
    """The kernel's count of OOM kills goes up while the command runs; it only explains a SIGKILL."""
    count = iter(range(1000))
    monkeypatch.setattr(limits, "_machine_kills", lambda: next(count))
    node = Node(tmp_path)
    assert node.shell(script).cause == cause
    node.close()


def test_sampling_looks_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look(pid: int) -> list[tree.Stat]:
        looks.append(pid)
        return []

    monkeypatch.setattr(tree, "walk", look)
    limit = SampledLimit(MB)
    assert not limit.exceeded() and not limit.exceeded()
    assert len(looks) == 1
    assert limit.interval == 0.5


class FakeSystem:
    """A ``/proc/self`` and a cgroup v2 tree of plain files."""

    def __init__(self, root: Path, home: str) -> None:
        self.proc, self.mount = root / "proc", root / "cgroup"
        self.proc.mkdir()
        (self.proc / "cgroup").write_text(f"0::{home}\n")
        line = f"41 31 0:38 / {self.mount} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
        (self.proc / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + line)

    def cgroup(self, path: str, control: str, limit: str = "max") -> str:
        directory = self.mount / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.subtree_control").write_text(control + "\n")
        (directory / "memory.max").write_text(limit + "\n")
        return str(directory)


def test_v2_cgroup_goes_below_ours_when_that_may_have_limited_children(tmp_path: Path) -> None:
    system = FakeSystem(tmp_path, "/app")
    home = system.cgroup("app", "cpu memory")
    place = find_place(str(system.proc))
    assert place is not None and (place.home, place.parent) == (home, home)
    assert place.version.limit == "memory.max"


def test_v2_cgroup_goes_beside_ours_when_ours_holds_processes(tmp_path: Path) -> None:
    system = FakeSystem(tmp_path, "/user/app")
    parent, home = system.cgroup("user", "memory pids"), system.cgroup("user/app", "")
    place = find_place(str(system.proc))
    assert place is not None and (place.home, place.parent) == (home, parent)


def test_v2_cgroup_does_not_escape_a_limit_of_ours(tmp_path: Path) -> None:
    system = FakeSystem(tmp_path, "/user/app")
    system.cgroup("user", "memory")
    system.cgroup("user/app", "", limit="1000000")
    assert find_place(str(system.proc)) is None


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    assert find_place(str(tmp_path)) is None
