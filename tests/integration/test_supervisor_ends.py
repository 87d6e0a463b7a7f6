"""Ending a run: whatever its processes do to survive, the tree is empty within grace + 2 s, and the cause is true."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.harness import wait_until
from tests.integration.supervising import KEY, Node, Stopwatch
from tests.integration.supervising import node as node
from turnout.agent import record, supervisor, tree
from turnout.agent.launcher import Ended

GRACE = 0.5

#: Each writes the file `ready` when all of it is up, and then would run for ever.
SHAPES = {
    "plain": "echo up > ready; sleep 1000",
    "ignores SIGTERM": "trap '' TERM; echo up > ready; while :; do sleep 1000; done",
    "pipeline": "(sleep 1000 | sleep 1000 | sleep 1000) & echo up > ready; wait",
    "double fork": "( (trap '' TERM; sleep 1000; sleep 1000) & ) ; echo up > ready; sleep 1000",
    "new session": "setsid sh -c 'trap \"\" TERM; echo up > ready; while :; do sleep 1000; done'",
    "daemon": "(setsid sh -c 'trap \"\" TERM; echo up > ready; exec >&- 2>&-; while :; do sleep 9; done' &); sleep 9",
    "stopped": "sleep 1000 & kill -STOP $!; echo up > ready; kill -STOP $$",
    "job control": "set -m; sleep 1000 & sleep 1000 & echo up > ready; wait",
    "no environment": "( env -i setsid sleep 1000 & ); echo up > ready; sleep 1000",
    "restarts itself": "trap 'setsid bash \"$0\" & ' TERM EXIT; echo up > ready; while :; do sleep 1000; done",
}

#: Forks as fast as it can, 300 at a time, each in a session of its own and gone before the next look.
STORM = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def chase():
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
for _ in range(4):
    if os.fork() == 0:
        chase()
for _ in range(300):
    if os.fork() == 0:
        while True: time.sleep(1000)
open("ready", "w").write("up\\n")
while True: time.sleep(1000)
"""


def processes_in(node: Node) -> list[int]:
    """Who works in the run's directory: finds those without our marker, too."""
    work = (node.directory() / "work").resolve()
    found = []
    for stat in tree.processes():
        try:
            if not stat.dead and Path(f"/proc/{stat.pid}/cwd").readlink() == work:
                found.append(stat.pid)
        except OSError:
            pass  # gone meanwhile
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_cancel_empties_the_tree(node: Node, shape: str) -> None:
    script = node.root / "script"
    script.write_text(SHAPES[shape])
    started = node.start("bash", str(script), grace=GRACE)
    node.wait_for_file("ready")
    with Stopwatch() as watch:
        node.stop(started)
        ended = node.finish()
    assert ended.cause == "cancelled"
    assert watch.seconds < GRACE + 2
    assert processes_in(node) == []


def test_fork_storm_is_ended(node: Node) -> None:
    started = node.start(sys.executable, "-c", STORM, grace=GRACE)
    node.wait_for_file("ready")
    with Stopwatch() as watch:
        node.stop(started)
        node.finish()
    assert watch.seconds < GRACE + 2
    assert processes_in(node) == []


def test_time_limit_ends_the_tree(node: Node) -> None:
    with Stopwatch() as watch:
        ended = node.shell(
            "trap '' TERM; (setsid sleep 1000 &); while :; do sleep 1000; done", seconds=0.5, grace=GRACE
        )
    assert (ended.cause, ended.signal, ended.message) == ("timeout", signal.SIGKILL, "time limit reached")
    assert 0.5 + GRACE <= watch.seconds < 0.5 + GRACE + 2
    assert processes_in(node) == []


def test_end_before_the_time_limit_is_no_timeout(node: Node) -> None:
    assert node.shell("exit 4", seconds=60.0).exit_code == 4


def test_command_may_use_its_grace(node: Node) -> None:
    started = node.start(
        "bash", "-c", "trap 'sleep 0.3; echo saved; exit 9' TERM; echo up > ready; sleep 1000 & wait", grace=10.0
    )
    node.wait_for_file("ready")
    node.stop(started, cause="stopped")
    ended = node.finish()
    assert node.output() == b"saved\n"
    assert (ended.cause, ended.exit_code, ended.signal, ended.message) == ("stopped", 9, None, "stopped")
    assert ended.seconds < 5


def test_stop_may_shorten_the_grace(node: Node) -> None:
    started = node.start("bash", "-c", SHAPES["ignores SIGTERM"], grace=1000.0)
    node.wait_for_file("ready")
    with Stopwatch() as watch:
        node.stop(started, grace=0.0)
        ended = node.finish()
    assert watch.seconds < 2
    assert (ended.cause, ended.signal) == ("cancelled", signal.SIGKILL)


def test_second_stop_may_shorten_the_grace_of_the_first(node: Node) -> None:
    started = node.start("bash", "-c", SHAPES["ignores SIGTERM"], grace=1000.0)
    node.wait_for_file("ready")
    with Stopwatch() as watch:
        node.stop(started)
        node.stop(started, cause="stopped", grace=0.0)
        node.finish()
    assert watch.seconds < 2


def test_process_that_cannot_be_killed_is_named_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one in uninterruptible sleep: the record must not wait for it for ever."""
    monkeypatch.setattr(tree, "signal_own_tree", lambda sig: tree.descendants(os.getpid()))
    monkeypatch.setattr(supervisor, "_UNKILLABLE_SECONDS", 0.3)
    node = Node(tmp_path, keep=2)  # the launcher is forked from here
    started = node.start("bash", "-c", "echo $$ > pid; exec sleep 1000", grace=0.1)
    pid = node.wait_for_file("pid").strip()
    node.stop(started)
    ended = node.finish()
    assert (ended.cause, ended.exit_code, ended.signal) == ("cancelled", None, None)
    assert ended.message == f"cancelled; could not be ended: process {pid}"
    assert ended.seconds > 0.3
    wait_until(lambda: not tree.is_alive(started.process), what="a supervisor with children is not used again")
    node.close()


def test_stop_before_the_start_executes_nothing(node: Node) -> None:
    order = node.order("touch", "executed")
    record.write_stop(str(node.ctl()), "cancelled")
    node.launcher.start(order)
    ended = node.finish()
    assert (ended.cause, ended.exit_code, ended.signal) == ("cancelled", None, None)
    assert not (node.directory() / "work" / "executed").exists()


def test_stop_after_the_end_changes_nothing(node: Node) -> None:
    started = node.start("true")
    ended = node.finish()
    node.stop(started)
    assert record.examine(str(node.directory())) == ended


def test_stop_needs_a_known_cause(node: Node) -> None:
    with pytest.raises(ValueError, match="cancelled"):
        record.write_stop(str(node.ctl()), "bored")


def test_signals_from_strangers_are_not_obeyed(node: Node) -> None:
    started = node.start("bash", "-c", "echo up > ready; sleep 0.5; exit 6")
    node.wait_for_file("ready")
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        tree.signal_process(started.process, sig)
    assert node.finish().exit_code == 6


def test_removed_directory_and_a_stop_end_the_run(node: Node) -> None:
    started = node.start("bash", "-c", SHAPES["ignores SIGTERM"])
    node.wait_for_file("ready")
    shutil.rmtree(node.directory())
    tree.signal_process(started.process, signal.SIGTERM)
    node.answer(KEY, Ended)
    assert node.processes() == []


@pytest.mark.parametrize(
    "leftover", ["sleep 1000 &", "(trap '' TERM; sleep 1000; sleep 1000) &", "(setsid sleep 1000 &)"]
)
def test_what_a_command_leaves_running_is_ended_and_its_own_end_counts(node: Node, leftover: str) -> None:
    with Stopwatch() as watch:
        ended = node.shell(f"{leftover}\necho done; exit 3", linger=0.3)
    assert (ended.cause, ended.exit_code) == ("exit", 3)
    assert watch.seconds < 0.3 + 2
    assert ended.seconds < watch.seconds
    assert node.output() == b"done\n"
    assert processes_in(node) == []


def test_what_leftovers_say_on_their_way_out_is_kept(node: Node) -> None:
    ended = node.shell(
        "(trap 'echo bye; exit' TERM; echo up > ready; sleep 1000 & wait) & until test -s ready; do :; done"
    )
    assert node.output() == b"bye\n"
    assert ended.output_bytes == 4


def test_orphans_that_end_meanwhile_do_not_stay_as_zombies(node: Node) -> None:
    started = node.start("bash", "-c", "for i in 1 2 3 4 5; do (sleep 0.01 &); done; echo up > ready; exec sleep 1000")
    node.wait_for_file("ready")

    def children() -> list[int]:
        return [stat.pid for stat in tree.processes() if stat.parent == started.process.pid]

    wait_until(lambda: len(children()) == 1, what="only the command is left")
    node.stop(started)
    node.finish()
