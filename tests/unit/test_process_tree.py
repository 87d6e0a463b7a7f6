"""Which process is meant, who descends from whom, and that never another one is hit."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import wait_until
from turnout.agent import ps, supervisor, tree
from turnout.agent.spawn import spawn
from turnout.agent.tree import ProcessId

pytestmark = pytest.mark.skipif(not tree.LINUX, reason="reads /proc")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def settled(pid: int) -> tree.Stat:
    """The facts about a process that sleeps by now."""

    def asleep() -> tree.Stat | None:
        stat = tree.read_stat(pid)
        return stat if stat is not None and stat.state == "S" else None

    found = wait_until(asleep, what=f"process {pid} sleeps")
    assert found is not None
    return found


def identify(pid: int) -> ProcessId:
    start = tree.start_time(pid)
    assert start is not None
    return ProcessId(pid, start)


def family_of(script: str, size: int) -> tuple[ProcessId, list[ProcessId]]:
    """A shell that runs `script`, and its descendants once there are `size` of them."""
    root = identify(subprocess.Popen(["bash", "-c", script]).pid)
    wait_until(lambda: len(tree.descendants(root.pid)) == size, what=f"{size} descendants")
    return root, tree.descendants(root.pid)


def test_process_is_alive_until_it_is_a_zombie(sleeper: subprocess.Popen[bytes]) -> None:
    process = identify(sleeper.pid)
    assert tree.is_alive(process)
    sleeper.kill()
    wait_until(lambda: not tree.is_alive(process))
    assert tree.start_time(sleeper.pid) == process.start  # nobody has reaped it
    sleeper.wait()
    assert tree.start_time(sleeper.pid) is None
    assert not tree.is_alive(process)


def test_process_with_another_start_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    stranger = ProcessId(sleeper.pid, identify(sleeper.pid).start - 1)
    assert not tree.is_alive(stranger)
    assert tree.open_pidfd(stranger) is None
    assert not tree.signal_process(stranger, signal.SIGKILL)
    assert tree.kill_tree(stranger)
    assert sleeper.poll() is None


def test_signal_says_whether_it_was_sent(sleeper: subprocess.Popen[bytes]) -> None:
    process = identify(sleeper.pid)
    assert tree.signal_process(process, signal.SIGTERM)
    sleeper.wait()
    assert not tree.signal_process(process, signal.SIGTERM)


def test_signal_without_pidfds(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    process = identify(sleeper.pid)
    assert tree.open_pidfd(process) is None
    assert not tree.signal_process(ProcessId(sleeper.pid, 1), signal.SIGKILL)
    assert tree.signal_process(process, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM


def test_pidfd_becomes_readable_at_the_end(sleeper: subprocess.Popen[bytes]) -> None:
    fd = tree.open_pidfd(identify(sleeper.pid))
    assert fd is not None
    assert select.select([fd], [], [], 0)[0] == []
    sleeper.kill()
    assert select.select([fd], [], [], 5.0)[0] == [fd]
    os.close(fd)


@pytest.mark.parametrize("name", ["a) Z 1 (b", "line\nbreak", ")))", "x y z"])
def test_name_of_a_program_cannot_confuse(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy("/bin/sleep", program)
    process = subprocess.Popen([program, "1000"])
    try:
        stat = settled(process.pid)
        assert (stat.parent, stat.group, stat.session) == (os.getpid(), os.getpgrp(), os.getsid(0))
        assert stat.memory > 0
        assert not stat.dead
    finally:
        process.kill()
        process.wait()


def test_process_whose_first_thread_ended_is_alive() -> None:
    script = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(lambda: (stat := tree.read_stat(process.pid)) and stat.state == "Z")
        assert tree.is_alive(identify(process.pid))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("by_files", [True, False])
def test_descendants_of_all_generations(by_files: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_CHILDREN_FILES", by_files)
    root, below = family_of("bash -c 'sleep 1000 & (sleep 1000 & setsid sleep 1000 & wait) & wait' & wait", 5)
    try:
        assert root not in below
        parents = {stat.pid: stat.parent for stat in tree.processes()}
        assert all(parents[process.pid] in {root.pid, *(p.pid for p in below)} for process in below)
    finally:
        assert tree.kill_tree(root)


def test_children_of_other_threads_are_found() -> None:
    script = "import subprocess, threading; threading.Thread(target=subprocess.run, args=(['sleep', '1000'],)).start()"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        wait_until(lambda: len(tree.descendants(process.pid)) == 1)
    finally:
        assert tree.kill_tree(identify(process.pid))
        process.wait()


def test_kill_tree_ends_all_of_it() -> None:
    root, below = family_of("trap '' TERM; for i in 1 2 3; do setsid bash -c 'sleep 1000 & wait' & done; wait", 6)
    assert tree.kill_tree(root)
    assert [process for process in (root, *below) if tree.is_alive(process)] == []
    assert tree.kill_tree(root)  # again is no error


def test_processes_are_found_by_their_marker() -> None:
    marker = f"TURNOUT_TEST={uuid.uuid4().hex}"
    name, value = marker.split("=")
    process = subprocess.Popen(["sleep", "1000"], env={"A": "b", name: value, "Z": marker})
    longer = subprocess.Popen(["sleep", "1000"], env={name: value + "0"})
    try:
        wait_until(lambda: tree.find_marked(marker) == [identify(process.pid)])
        assert tree.end_orphans(None, marker)
        assert process.wait() == -signal.SIGKILL
        assert longer.poll() is None
    finally:
        longer.kill()
        longer.wait()


def test_session_of_a_stranger_is_left_alone() -> None:
    """The number of a session whose leader is another process than the recorded one means nothing."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        recorded = ProcessId(process.pid, identify(process.pid).start - 1)
        assert tree.end_orphans(recorded, "NO=SUCH")
        assert process.poll() is None
        assert tree.end_orphans(identify(process.pid), "NO=SUCH")
        assert process.wait() == -signal.SIGKILL
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_ps_tells_the_same_as_proc(sleeper: subprocess.Popen[bytes]) -> None:
    """What stands for /proc on other systems."""
    stat = settled(sleeper.pid)
    (row,) = ps.rows("-p", str(sleeper.pid))
    assert (row.pid, row.parent, row.group, row.state) == (stat.pid, stat.parent, stat.group, "S")
    assert os.getpid() in {row.pid for row in ps.rows("-A")}
    (again,) = ps.rows("-p", str(sleeper.pid))
    assert again.start == row.start


def test_waiting_without_sigtimedwait() -> None:
    """macOS has none; in a process of its own, since signals are blocked for it."""
    script = """
import os, signal, time
from turnout.agent import supervisor
signal.pthread_sigmask(signal.SIG_BLOCK, supervisor.BLOCKED)
assert supervisor._wait_by_timer(0.05) == 0
os.kill(os.getpid(), signal.SIGTERM)
assert supervisor._wait_by_timer(5.0) == signal.SIGTERM
pid = os.posix_spawn("/bin/true", ["true"], {})
assert supervisor._wait_by_timer(None) == signal.SIGCHLD
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=20)
    assert signal.SIGALRM in supervisor.BLOCKED


def test_command_gets_a_group_where_there_can_be_no_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interpreter that was built for an old C library."""
    real = os.posix_spawn

    def old(*args: object, **options: object) -> int:
        if "setsid" in options:
            raise NotImplementedError
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "posix_spawn", old)
    output = os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT)
    pid = spawn(["sleep", "1000"], {}, output)
    os.close(output)
    stat = tree.read_stat(pid)
    assert stat is not None and stat.group == pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
