"""Runs are ended whole and in time, once, and the record says truly how each ended."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest

from tests.faults.scene import OVER, Scene, is_alive, kill
from tests.harness import wait_until
from turnout.client import Client
from turnout.errors import NotFound

GRACE = 1.0
SPARE = 2.0

#: Every way to get out of sight: own session, no parent, no environment, deaf to SIGTERM, and forking all the time.
STUBBORN = """\
import os, signal, subprocess, sys, time

def note():
    with open(sys.argv[1] + "/pids", "a") as file:
        file.write(f"{os.getpid()}\\n")

def linger():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    while True:
        time.sleep(100)

def run_away():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:  # a chain of processes, each of which forks the next and ends
        if os.fork():
            os._exit(0)
        time.sleep(0.01)

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    linger()
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    linger()
if os.fork() == 0:
    os.setsid()
    run_away()
deaf = "trap '' TERM; echo $$ >> $0/pids; while :; do sleep 1; done"
subprocess.Popen(["env", "-i", "setsid", "bash", "-c", deaf, sys.argv[1]])
note()
print("ready", flush=True)
while True:
    time.sleep(100)
"""


def _start_stubborn(scene: Scene, *options: str) -> str:
    run = scene.submit(
        *options, "--grace", str(GRACE), "python3", scene.script("stubborn.py", STUBBORN), str(scene.side)
    )
    wait_until(lambda: len(scene.pids()) == 4 and scene.output(run) == b"ready\n", what="all of them are there")
    return run


def _assert_gone(scene: Scene, run: str) -> None:
    assert not [pid for pid in scene.pids() if is_alive(pid)]
    assert not scene.processes_of(run)


def test_cancel_empties_the_whole_tree_in_time(scene: Scene) -> None:
    run = _start_stubborn(scene)
    assert len(scene.processes_of(run)) >= 3
    with scene.timed(GRACE + SPARE):
        scene.client.cancel([run])
        wait_until(lambda: not scene.processes_of(run) and not any(map(is_alive, scene.pids())))
    view = scene.wait_for(run)
    assert (view["state"], view["reason"], view["attempts"]) == ("cancelled", "user", 1)
    _assert_gone(scene, run)


def test_the_time_limit_empties_the_whole_tree_in_time(scene: Scene) -> None:
    run = _start_stubborn(scene, "--time", "3s")
    view = scene.wait_for(run)
    assert (view["state"], view["reason"]) == ("failed", "timeout")
    assert view["duration"] <= 3 + GRACE + SPARE
    _assert_gone(scene, run)


@pytest.mark.timeout(90)
def test_cancelled_at_any_moment_a_run_ends_once(scene: Scene) -> None:
    """Queued, starting, running, finishing or over: twenty runs are cancelled at random moments, each of them twice."""
    script = scene.script(
        "brief.sh", 'echo "$TURNOUT_RUN_NAME" >> "$1/ran"; sleep 0.$2; echo "$TURNOUT_RUN_NAME" >> "$1/done"\n'
    )
    parents = [scene.submit("--runs", "5", "bash", script, str(scene.side), str(digit)) for digit in (0, 1, 2, 3)]
    names = [f"{parent}.{index}" for parent in parents for index in range(1, 6)]

    def cancel_later(parent: str) -> None:
        chance = random.Random(parent)
        client = Client()
        for index in chance.sample(range(1, 6), 5):
            time.sleep(chance.random() * 0.2)  # the moment is what is random here
            name = f"{parent}.{index}"
            wait_until(lambda: _exists(client, name), what=f"{name} was made")  # noqa: B023
            client.cancel([name])
            client.cancel([name])
        client.close()

    threads = [threading.Thread(target=cancel_later, args=(parent,)) for parent in parents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for parent in parents:
        scene.wait_for(parent)
    done = scene.lines("done")
    for name in names:
        view = scene.show(name)
        assert view["state"] in {"cancelled", "completed"}, view
        assert view["attempts"] <= 1
        assert scene.events(name).count("ended") == 1
        if view["state"] == "completed":
            assert done.count(name) == 1
        assert not scene.processes_of(name)
    assert len(scene.lines("ran")) == len(set(scene.lines("ran")))


def _exists(client: Client, name: str) -> bool:
    try:
        client.run(name)
    except NotFound:
        return False
    return True


def test_cancel_and_finish_at_the_same_moment(scene: Scene) -> None:
    """Whoever is first, the run has one end, and what it was stays."""
    script = scene.script("gate.sh", 'touch "$1/up$2"; while [ ! -e "$1/go$2" ]; do :; done\n')
    for number in range(6):
        run = scene.submit("bash", script, str(scene.side), str(number))
        wait_until(lambda: (scene.side / f"up{number}").exists())  # noqa: B023
        threads = [
            threading.Thread(target=scene.allow, args=(f"go{number}",)),
            threading.Thread(target=scene.cli, args=("cancel", "run", run)),
        ]
        for thread in threads[:: 1 if number % 2 else -1]:
            thread.start()
        for thread in threads:
            thread.join()
        view = scene.wait_for(run)
        assert view["state"] in {"completed", "cancelled"}
        assert scene.events(run).count("ended") == 1
        scene.client.cancel([run])
        assert scene.show(run)["state"] == view["state"]


def test_everything_at_once_is_cancelled(scene: Scene) -> None:
    """Runs that go and runs that wait; the parent too makes no more children."""
    parent = scene.submit("--runs", "1000", "sleep", "1000")
    wait_until(lambda: len(scene.supervisors()) >= 2)
    scene.cli("cancel", "all")
    scene.wait_for(parent, "cancelled", timeout=15.0)
    assert {child["state"] for child in scene.children(parent)} <= {"cancelled"}
    wait_until(lambda: not scene.supervisors())


HOG = "import time; block = bytearray(400 << 20); block[::4096] = b'x' * len(block[::4096]); time.sleep(60)"

CAUSES = {
    "exit code": (["bash", "-c", "exit 41"], "failed", "exit_code", 41, None),
    "signal": (["bash", "-c", "kill -9 $$"], "failed", "signal", None, 9),
    "terminated": (["bash", "-c", "kill -15 $$"], "failed", "signal", None, 15),
    "timeout": (["--time", "1s", "--grace", "0.2", "sleep", "100"], "failed", "timeout", None, 15),
    "oom": (["--memory", "50M", "python3", "-c", HOG], "failed", "oom", None, 9),
    "fine": (["true"], "completed", None, 0, None),
}


def test_the_true_cause_is_recorded(scene: Scene) -> None:
    runs = {cause: scene.submit(*arguments) for cause, (arguments, *_) in CAUSES.items()}
    for cause, run in runs.items():
        _, state, reason, exit_code, killed_by = CAUSES[cause]
        view = scene.wait_for(run)
        assert (view["state"], view["reason"]) == (state, reason), (cause, view)
        assert (view["exit_code"], view["signal"]) == (exit_code, killed_by), (cause, view)
        assert view["attempts"] == 1, "a failure of its own is not tried again unless asked for"
        assert view["state"] in OVER


def test_a_command_killed_by_a_stranger(scene: Scene) -> None:
    run = scene.submit("bash", "-c", "echo $$ > pid; exec sleep 1000")
    scene.wait_for(run, "running")
    (directory,) = scene.run_directories()
    pid = wait_until(lambda: (directory / "work" / "pid").exists() and (directory / "work" / "pid").read_text().strip())
    os.kill(int(pid), 9)
    view = scene.wait_for(run)
    assert (view["state"], view["reason"], view["signal"]) == ("failed", "signal", 9)


def test_a_supervisor_that_does_not_end_its_run_is_ended_with_it(scene: Scene) -> None:
    run = scene.submit("--grace", "0.2", "sleep", "1000")
    scene.wait_for(run, "running")
    (supervisor,) = wait_until(scene.supervisors)
    kill(supervisor, signal.SIGSTOP)
    scene.client.cancel([run])
    view = scene.wait_for(run)
    assert (view["state"], view["reason"]) == ("cancelled", "user")
    assert not is_alive(supervisor) and not scene.processes_of(run)
