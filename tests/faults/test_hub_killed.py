"""The hub is killed with -9 and started again. Nobody notices: not the runs, not what they wrote."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.faults.scene import Scene, kill
from tests.harness import wait_until

RUNS = 50
KILLS = 10

#: Prints and logs until it is told to stop, and says outside of turnout what it printed.
WORKER = """\
import os, sys, time, turnout
side = sys.argv[1]
name = os.environ["TURNOUT_RUN_NAME"]
with open(f"{side}/begun", "a") as file:
    file.write(f"{name}\\n")
count = 0
while not os.path.exists(f"{side}/finish"):
    print(f"{name} line {count}", flush=True)
    turnout.log(step=count, value=count * 2)
    count += 1
    time.sleep(0.1)
with open(f"{side}/ended", "a") as file:
    file.write(f"{name} {count}\\n")
"""


@pytest.mark.timeout(150)
def test_runs_go_on_when_the_hub_is_killed_ten_times(scene: Scene) -> None:
    worker = scene.script("worker.py", WORKER)
    parent = scene.submit("--runs", str(RUNS), "--concurrent", str(RUNS), "python3", worker, str(scene.side))
    wait_until(lambda: len(scene.lines("begun")) == RUNS, 60.0, "all runs are going")
    for _ in range(KILLS):
        _wait_for_output(scene, parent)  # so that each hub has something to lose
        scene.kill_hub()
        scene.start_hub()
    scene.allow("finish")
    scene.wait_for(parent, timeout=60.0)

    children = scene.children(parent)
    assert [child["state"] for child in children] == ["completed"] * RUNS
    assert [child["attempts"] for child in children] == [1] * RUNS
    names = [child["name"] for child in children]
    assert sorted(scene.lines("begun")) == sorted(names), "each run began once"
    counts = dict(line.split() for line in scene.lines("ended"))
    assert counts.keys() == set(names) and len(scene.lines("ended")) == RUNS, "each run ended once"
    for name in names:
        count = int(counts[name])
        assert scene.output(name) == "".join(f"{name} line {number}\n" for number in range(count)).encode()
        points = scene.client.metrics(name)["value"]
        assert [(point["step"], point["value"]) for point in points] == [(n, n * 2.0) for n in range(count)]


def _wait_for_output(scene: Scene, parent: str) -> None:
    """Until more of it is at the hub than now."""
    names = [f"{parent}.1", f"{parent}.{RUNS}"]
    before = [len(scene.output(name)) for name in names]
    wait_until(lambda: all(len(scene.output(name)) > size for name, size in zip(names, before, strict=True)))


def test_an_acknowledged_submit_exists_exactly_once(scene: Scene) -> None:
    """Submits go on while the hub is killed again and again. Those it answered exist once, the others at most once."""
    scene.start_hub()
    acknowledged: list[str] = []
    tried: list[str] = []
    stop = threading.Event()

    def submit_all() -> None:
        while not stop.is_set():
            tag = f"n{len(tried)}"
            tried.append(tag)
            done = scene.cli("run", "-d", "--no-snapshot", "--tag", f"mark={tag}", "true", check=False)
            if done.returncode == 0:
                acknowledged.append(tag)

    submitter = threading.Thread(target=submit_all)
    submitter.start()
    try:
        for kills in range(5):
            wait_until(lambda: len(acknowledged) > 2 * kills, 30.0, "submits go through")  # noqa: B023
            scene.kill_hub()
    finally:
        stop.set()
        submitter.join()
    scene.start_hub()
    found = [run["tags"]["mark"] for run in scene.client.runs(limit=10_000)]
    assert len(found) == len(set(found)), "no submit exists twice"
    assert set(acknowledged) <= set(found) <= set(tried)
    assert wait_until(lambda: all(run["state"] == "completed" for run in scene.client.runs(limit=10_000)), 30.0)


def test_a_hub_that_slept_blames_nobody(scene: Scene) -> None:
    """It was not there to hear its agents for longer than a lease and the margin. That is not their fault."""
    run = scene.submit("bash", "-c", 'while [ ! -e "$0/go" ]; do sleep 0.05; done; echo done', str(scene.side))
    scene.wait_for(run, "running")
    hub = scene.hub()
    kill(hub, signal.SIGSTOP)
    woken = time.monotonic() + 4.0
    wait_until(lambda: time.monotonic() > woken)
    kill(hub, signal.SIGCONT)
    scene.allow("go")
    view = scene.wait_for(run)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert "node_lost" not in scene.events(run)


def test_a_restart_that_was_acknowledged_comes_to_pass(scene: Scene) -> None:
    """Whether its node heard of it before the hub was dead, or is asked by the next one."""
    run = scene.submit("sh", "-c", 'echo "$TURNOUT_ATTEMPT"; [ "$TURNOUT_ATTEMPT" = 2 ] || sleep 100')
    wait_until(lambda: scene.output(run) == b"1\n")
    agent = scene.agent()
    kill(agent, signal.SIGSTOP)
    (asked,) = scene.cli.json("restart", run)
    assert asked["attempt"] == 1
    kill(scene.hub())
    kill(agent, signal.SIGCONT)
    assert scene.wait_for(run)["state"] == "completed"
    assert scene.show(run)["attempts"] == 2 and scene.output(run) == b"2\n"
