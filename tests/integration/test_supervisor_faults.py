"""What happens to runs when agent, launcher or supervisor are killed, when messages are damaged and disks are full."""

from __future__ import annotations

import errno
import os
import random
import resource
import select
import signal
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.harness import wait_until
from tests.integration.supervising import KEY, Node
from tests.integration.supervising import node as node
from tests.integration.supervising import thrifty_node as thrifty_node
from turnout.agent import record, tree
from turnout.agent.launcher import Ended, Failed, LauncherDied, Started

#: Main command, an ordinary child, one in a session of its own, one that left its parent; all deaf to SIGTERM.
FAMILY = """
trap '' TERM
sleep 1000 &
setsid sleep 1000 &
(setsid sleep 1000 &)
echo up > ready
while :; do sleep 1000; done
"""


def start_family(node: Node) -> Started:
    started = node.start("bash", "-c", FAMILY)
    node.wait_for_file("ready")
    wait_until(lambda: len(node.processes()) == 5, what="five processes")
    return started


def kill(process: tree.ProcessId) -> None:
    tree.signal_process(process, signal.SIGKILL)


def died(node: Node) -> record.Died:
    state = record.examine(str(node.directory()))
    assert isinstance(state, record.Died), state
    return state


def test_killed_supervisor_is_told_and_a_sweep_ends_what_it_left(node: Node) -> None:
    kill(start_family(node).process)
    node.answer(KEY, Ended)
    assert died(node).running is not None
    assert len(node.processes()) == 5
    node.launcher.sweep()
    wait_until(lambda: not node.processes(), 3.0, "the sweep")


def test_sweep_leaves_running_runs_alone(node: Node) -> None:
    started = node.start("bash", "-c", FAMILY, key="1.1")
    node.wait_for_file("ready", "1.1")
    other = node.start("bash", "-c", "(sleep 1000 &); echo up > ready; exec sleep 1000", key="2.1")
    node.wait_for_file("ready", "2.1")
    kill(started.process)
    node.answer("1.1", Ended)
    node.launcher.sweep()
    wait_until(lambda: len(node.processes()) == 2, 3.0, "only the other run")
    assert isinstance(record.examine(str(node.directory("2.1"))), record.Running)
    node.stop(other, key="2.1")
    assert node.finish("2.1").cause == "cancelled"


def test_orphans_are_ended_without_their_launcher(node: Node) -> None:
    started = start_family(node)
    os.kill(node.launcher.pid, signal.SIGKILL)
    kill(started.process)
    wait_until(lambda: not tree.is_alive(started.process))
    running = died(node).running
    assert running is not None
    assert tree.end_orphans(running.child, node.marker, seconds=5.0)
    assert node.processes() == []


def test_orphans_without_marker_are_found_by_their_session(node: Node) -> None:
    started = node.start("bash", "-c", "env -i sleep 1000 & echo $! > pid; exec sleep 1000")
    wiped = int(node.wait_for_file("pid"))
    running = node.wait_for_child()
    os.kill(node.launcher.pid, signal.SIGKILL)
    kill(started.process)
    wait_until(lambda: not tree.is_alive(started.process))
    died(node)
    assert tree.end_orphans(running.child, "NO=SUCH", seconds=5.0)
    stat = tree.read_stat(wiped)
    assert stat is None or stat.dead
    assert node.processes() == []


def test_runs_go_on_when_the_agent_is_gone(node: Node) -> None:
    node.start("bash", "-c", "echo up > ready; until test -e go; do sleep 0.02; done; echo through; exit 8")
    node.wait_for_file("ready")
    node.launcher.close()
    assert isinstance(record.examine(str(node.directory())), record.Running)
    (node.directory() / "work" / "go").touch()
    ended = node.wait_for_record()
    assert (ended.cause, ended.exit_code) == ("exit", 8)
    assert node.output() == b"through\n"


def test_adopted_run_can_be_stopped_and_its_end_is_seen(thrifty_node: Node) -> None:
    """As by an agent that was started anew: it knows nothing but the directory."""
    node = thrifty_node
    start_family(node)
    node.launcher.close()
    running = record.examine(str(node.directory()))
    assert isinstance(running, record.Running)
    fd = tree.open_pidfd(running.supervisor)
    assert fd is not None
    record.write_stop(str(node.ctl()), "stopped", grace=0.0)
    tree.signal_process(running.supervisor, signal.SIGTERM)
    assert select.select([fd], [], [], 5.0)[0] == [fd]
    os.close(fd)
    ended = record.examine(str(node.directory()))
    assert isinstance(ended, record.Exit) and ended.cause == "stopped"
    assert node.processes() == []


def test_killed_launcher_is_noticed_and_takes_no_run_with_it(node: Node) -> None:
    node.start("bash", "-c", "echo up > ready; until test -e go; do sleep 0.02; done; exit 8")
    node.wait_for_file("ready")
    os.kill(node.launcher.pid, signal.SIGKILL)

    def noticed() -> bool:
        try:
            node.launcher.read()
        except LauncherDied:
            return True
        return False

    wait_until(noticed)
    with pytest.raises(LauncherDied):
        node.launcher.start(node.order("true", key="2.1"))
    (node.directory() / "work" / "go").touch()
    assert node.wait_for_record().exit_code == 8


def test_waiting_supervisors_leave_with_the_launcher(thrifty_node: Node) -> None:
    node = thrifty_node
    kept = [node.start("true", key=key).process for key in ("1.1", "2.1")]
    for key in ("1.1", "2.1"):
        node.finish(key)
    os.kill(node.launcher.pid, signal.SIGKILL)
    wait_until(lambda: not any(tree.is_alive(process) for process in kept), what="waiting supervisors end")


def test_waiting_supervisor_that_was_killed_is_replaced(thrifty_node: Node) -> None:
    node = thrifty_node
    first = node.start("true", key="1.1").process
    node.finish("1.1")
    kill(first)
    wait_until(lambda: not tree.is_alive(first))
    assert node.start("true", key="2.1").process != first
    assert node.finish("2.1").exit_code == 0


def test_waiting_supervisor_that_was_stopped_does_not_hold_up_the_rest(thrifty_node: Node) -> None:
    """What is too large for its pipe cannot be left half delivered."""
    node = thrifty_node
    first = node.start("true", key="1.1").process
    node.finish("1.1")
    tree.signal_process(first, signal.SIGSTOP)
    assert node.run("bash", "-c", "exit ${#LARGE}", key="2.1", env={"LARGE": "x" * 100_000}).exit_code == 100_000 % 256


def test_supervisors_killed_at_any_moment_never_execute_twice(thrifty_node: Node) -> None:
    """An attempt either ends, or is lost after it began, or never began and is started again."""
    node, dice = thrifty_node, random.Random(7)
    waiting = [f"{number}.1" for number in range(150)]
    live: dict[str, Started] = {}
    fates: dict[str, record.Exit | record.Died] = {}
    sure = live["150.1"] = node.start("bash", "-c", "echo executed >> log; sleep 1000", key="150.1")  # most die earlier
    wait_until((node.directory("150.1") / "work" / "log").exists)
    kill(sure.process)
    while waiting or live:
        while waiting and len(live) < 4:
            key = waiting.pop()
            live[key] = node.start("bash", "-c", "echo executed >> log; (sleep 1000 &); exit 3", key=key, linger=0.05)
        if dice.random() < 0.3:
            kill(dice.choice(list(live.values())).process)
        for key in [key for key in live if node.has_ended(key)]:
            del live[key]
            state = record.examine(str(node.directory(key)))
            assert not isinstance(state, record.Running)
            if state is None:
                waiting.append(key)
            else:
                fates[key] = state
    assert len(fates) == 151
    for key, fate in fates.items():
        log = node.directory(key) / "work" / "log"
        executed = log.read_text().count("executed") if log.exists() else 0
        assert executed == 1 if isinstance(fate, record.Exit) else executed <= 1
    assert {type(fate) for fate in fates.values()} == {record.Exit, record.Died}
    node.launcher.sweep()
    wait_until(lambda: not node.processes(), 3.0, "the sweep")


def test_killed_command_is_not_a_killed_supervisor(node: Node) -> None:
    node.start("bash", "-c", "echo $$ > pid; exec sleep 1000")
    os.kill(int(node.wait_for_file("pid")), signal.SIGKILL)
    ended = node.finish()
    assert (ended.cause, ended.signal) == ("signal", signal.SIGKILL)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x03\0\0\0abc",
        struct.pack("<I", 0),
        struct.pack("<I", 30 << 20) + b"x" * (30 << 20),
        b"\x05\0\0\0\xe9\x07\0\0\0",
        b"\x08\0\0\0\xa9\x01\xda\x04boom",
    ],
    ids=["nonsense", "empty", "too long", "a number", "unknown operation"],
)
def test_bad_message_is_answered_and_survived(node: Node, garbage: bytes) -> None:
    node.launcher._unsent += garbage
    answer = node.answer("", Failed)
    assert isinstance(answer, Failed)
    assert "bad message" in answer.error
    assert node.run("true").exit_code == 0


def test_bad_order_is_refused(node: Node) -> None:
    node.launcher.start(node.order("true")._replace(dir="relative"))
    assert isinstance(node.answer(KEY, Failed), Failed)
    node.launcher.start(node.order())
    assert isinstance(node.answer(KEY, Failed), Failed)
    assert node.run("true").exit_code == 0


def test_shortage_of_descriptors_is_an_error_that_passes(tmp_path: Path) -> None:
    """Run in a process of its own, whose limit leaves the launcher room for a few supervisors only."""
    script = """
        import resource, sys
        from pathlib import Path
        from tests.integration.supervising import Node
        from turnout.agent.launcher import Ended, Failed, Started

        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14))
        from turnout.agent import launcher
        node = Node.__new__(Node)
        node.root, node.marker, node._answers = Path(sys.argv[1]), "TURNOUT_TEST=few", []
        node.launcher = launcher.start()
        node.define({"PATH": "/bin:/usr/bin"})
        keys = [f"{number}.1" for number in range(8)]
        for key in keys:
            node.launcher.start(node.order("bash", "-c", "until test -e ../../go; do sleep 0.02; done", key=key))
        answers = {key: node.answer(key, Started, Failed) for key in keys}
        failed = [key for key in keys if isinstance(answers[key], Failed)]
        assert 0 < len(failed) < 8, answers
        assert "Too many open files" in answers[failed[0]].error
        (node.root / "runs" / "go").touch()
        for key in set(keys) - set(failed):
            node.finish(key)
        assert node.run("true", key=failed[0]).exit_code == 0
        node.launcher.close()
    """
    run_python(textwrap.dedent(script), str(tmp_path))


def test_full_disk_delays_the_exit_record_and_does_not_lose_it(node: Node) -> None:
    """A limit on the size of its files stands for the disk that has no room; the command itself has none."""
    started = node.start("bash", "-c", "until test -e go; do sleep 0.01; done; echo said; exit 5")
    node.wait_for_child()
    full = (node.ctl() / "record").stat().st_size + 20
    resource.prlimit(started.process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
    (node.directory() / "work" / "go").touch()
    wait_until(lambda: not node.processes() and node.output() == b"said\n", what="the command's end")
    assert isinstance(record.examine(str(node.directory())), record.Running)
    resource.prlimit(started.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ended = node.finish()
    assert (ended.exit_code, ended.output_bytes) == (5, 5)
    assert ended.seconds < 1.0


def test_failed_starts_leave_nothing_open_in_a_kept_supervisor(thrifty_node: Node) -> None:
    node = thrifty_node
    started = node.start("no-such-command", key="0.1")
    node.finish("0.1")
    before = os.listdir(f"/proc/{started.process.pid}/fd")
    for number in range(1, 5):
        assert node.run("no-such-command", key=f"{number}.1").cause == "spawn_failed"
    assert os.listdir(f"/proc/{started.process.pid}/fd") == before


def test_file_system_without_locks_still_executes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)  # the launcher is forked from here
    node = Node(tmp_path)
    assert node.shell("echo executed; exit 3").exit_code == 3
    assert node.shell("echo again").exit_code == 3
    assert node.output() == b"executed\n"
    node.close()


def test_fault_of_ours_ends_the_tree_and_leaves_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("turnout.agent.supervisor.wait_for_signal", fail)
    node = Node(tmp_path)
    node.start("bash", "-c", "setsid sleep 1000 & sleep 1000")
    node.answer(KEY, Ended)
    assert died(node).running is not None
    assert node.processes() == []
    assert "a bug" in (node.ctl() / "crash.txt").read_text()
    node.close()


def test_supervisor_keeps_nothing_of_the_agents_open(tmp_path: Path) -> None:
    """A lock or a pipe of the agent's would live as long as the run."""
    with open(tmp_path / "lock", "w") as lock:
        os.set_inheritable(lock.fileno(), True)
        node = Node(tmp_path)
    started = node.start("bash", "-c", "echo up > ready; exec sleep 1000")
    node.wait_for_file("ready")
    for pid in (node.launcher.pid, started.process.pid):
        files = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        ours = {str(node.ctl() / "record"), str(node.ctl() / "output"), "/dev/null"}
        assert {file for file in files - ours if not file.startswith(("pipe:", "socket:"))} == set()
    assert not [f for f in Path(f"/proc/{started.process.pid}/fd").iterdir() if os.readlink(f).startswith("socket:")]
    node.stop(started, grace=0.0)
    node.finish()
    node.close()


def test_supervisors_are_small(tmp_path: Path) -> None:
    """Twenty that wait, made by a process as small as an agent that has just begun."""
    script = """
        import sys
        from turnout.agent import launcher
        warm = launcher.start()
        from pathlib import Path
        from tests.integration.supervising import Node
        from turnout.agent.launcher import Started

        node = Node.__new__(Node)
        node.root, node.marker, node._answers, node.launcher = Path(sys.argv[1]), "TURNOUT_TEST=small", [], warm
        node.define({"PATH": "/bin:/usr/bin"})
        keys = [f"{number}.1" for number in range(20)]
        supervisors = [node.start("bash", "-c", "echo up > ready; exec sleep 1000", key=key) for key in keys]
        for key in keys:
            node.wait_for_file("ready", key)
        sizes = []
        for supervisor in supervisors:
            lines = Path(f"/proc/{supervisor.process.pid}/smaps_rollup").read_text().splitlines()
            sizes += [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
        for key, supervisor in zip(keys, supervisors):
            node.stop(supervisor, grace=0.0, key=key)
        for key in keys:
            node.finish(key)
        node.launcher.close()
        assert len(sizes) == 20 and max(sizes) < 2048, sizes
    """
    run_python(textwrap.dedent(script), str(tmp_path))


def run_python(script: str, *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script, *args], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
