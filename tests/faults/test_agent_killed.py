"""The agent is killed or stopped. Runs belong to their supervisors: they go on, and are taken over or fenced."""

from __future__ import annotations

import random
import signal

import pytest

from tests.faults.scene import Scene, children_of, is_alive, kill
from tests.harness import wait_until

PRINTER = """\
echo "$TURNOUT_RUN_NAME" >> "$1/begun"
n=0
while [ ! -e "$1/finish" ]; do echo "line $n"; n=$((n + 1)); sleep 0.05; done
echo "$TURNOUT_RUN_NAME $n" >> "$1/ended"
"""


def test_runs_go_on_and_a_new_agent_takes_them_over(scene: Scene) -> None:
    printer = scene.script("printer.sh", PRINTER)
    parent = scene.submit("--runs", "4", "--concurrent", "4", "bash", printer, str(scene.side))
    wait_until(lambda: len(scene.lines("begun")) == 4, what="all runs are going")
    before = scene.agent()
    supervisors = wait_until(lambda: len(found := scene.supervisors()) == 4 and found)
    assert supervisors
    kill(before)
    wait_until(lambda: scene.agents() and scene.agent() != before, what="a new agent")
    assert all(map(is_alive, supervisors))
    scene.allow("finish")
    scene.wait_for(parent)

    children = scene.children(parent)
    assert [(child["state"], child["attempts"]) for child in children] == [("completed", 1)] * 4
    assert len(scene.lines("begun")) == 4
    for name, count in (line.split() for line in scene.lines("ended")):
        assert scene.output(name) == "".join(f"line {number}\n" for number in range(int(count))).encode()


def test_a_run_that_ended_while_there_was_no_agent_is_told_by_the_next(scene: Scene) -> None:
    """And its files are kept, its metrics too."""
    script = scene.script(
        "late.py",
        "import os, sys, time, turnout\n"
        "while not os.path.exists(sys.argv[1] + '/finish'): time.sleep(0.02)\n"
        "turnout.log(loss=0.5)\n"
        "(turnout.output_dir() / 'model').write_text('weights')\n"
        "print('done')\n"
        "sys.exit(7)\n",
    )
    run = scene.submit("python3", script, str(scene.side))
    scene.wait_for(run, "running")
    (supervisor,) = wait_until(scene.supervisors)
    hub, agent = scene.hub(), scene.agent()
    kill(hub, signal.SIGSTOP)  # or it would start another agent at once
    kill(agent)
    scene.allow("finish")
    wait_until(lambda: not is_alive(supervisor))
    kill(hub, signal.SIGCONT)

    view = scene.wait_for(run)
    assert (view["state"], view["reason"], view["exit_code"], view["attempts"]) == ("failed", "exit_code", 7, 1)
    assert view["metrics"] == {"loss": 0.5}
    assert scene.output(run) == b"done\n"
    scene.cli("extract", run, "kept")
    assert (scene.cli.cwd / "kept" / "after" / "output" / "model").read_text() == "weights"


def test_a_killed_launcher_costs_nothing(scene: Scene) -> None:
    printer = scene.script("printer.sh", PRINTER)
    parent = scene.submit("--runs", "3", "--concurrent", "6", "bash", printer, str(scene.side))  # leaves room for more
    wait_until(lambda: len(scene.lines("begun")) == 3)
    agent = scene.agent()
    (launcher,) = children_of(agent)
    kill(launcher)
    wait_until(lambda: children_of(agent) not in ([], [launcher]), what="the agent has another launcher")
    after = scene.submit("echo", "hi")
    assert scene.wait_for(after)["state"] == "completed", "new runs start"
    scene.allow("finish")
    scene.wait_for(parent)
    assert [(child["state"], child["attempts"]) for child in scene.children(parent)] == [("completed", 1)] * 3
    assert scene.agent() == agent and len(scene.lines("begun")) == 3


@pytest.mark.timeout(120)
def test_many_short_runs_while_the_agent_is_killed_ten_times(scene: Scene) -> None:
    """At least once, and once only unless another attempt is shown; committed exactly once."""
    chance = random.Random(7)
    script = scene.script(
        "short.sh", 'echo "$TURNOUT_RUN_NAME $TURNOUT_ATTEMPT" >> "$1/ran"; echo "out"; sleep 0.0$2\n'
    )
    parent = scene.submit("--runs", "200", "bash", script, str(scene.side), "5")
    for number in range(10):
        ran = number * 18 + chance.randrange(18)
        wait_until(lambda: len(scene.lines("ran")) > ran, 30.0, f"{ran} runs ran")  # noqa: B023
        kill(scene.agent())
    scene.wait_for(parent, timeout=60.0)

    children = scene.children(parent)
    assert [child["state"] for child in children] == ["completed"] * 200
    lines = scene.lines("ran")
    assert len(lines) == len(set(lines)), "no attempt ran twice"
    for child in children:
        times = sum(line.split()[0] == child["name"] for line in lines)
        assert 1 <= times <= child["attempts"], child
        assert scene.output(child["name"]) == b"out\n"
        assert scene.events(child["name"]).count("capture_after") >= 1


STALE = """\
echo "$$" >> "$1/pids"
if [ "$TURNOUT_ATTEMPT" = 1 ]; then
    echo "first"
    (while [ ! -e "$1/late" ]; do sleep 0.02; done
     echo "too late"; python3 -c 'import turnout; turnout.log(stale=1)'; touch "$1/wrote"; sleep 1000) &
    echo "$!" >> "$1/pids"
    wait
else
    echo "second"
fi
"""


@pytest.mark.timeout(90)
def test_an_agent_that_was_stopped_beyond_its_lease_is_fenced(scene: Scene) -> None:
    script = scene.script("stale.sh", STALE)
    run = scene.submit("bash", script, str(scene.side))
    wait_until(lambda: scene.output(run) == b"first\n")
    first = scene.agent()
    kill(first, signal.SIGSTOP)
    try:
        view = scene.wait_for(run, timeout=30.0)
        assert (view["state"], view["attempts"]) == ("completed", 2)
        assert scene.agent() != first
        old = scene.pids()[:2]
        assert all(map(is_alive, old)), "nobody looked after the stale attempt while its agent was stopped"
        scene.allow("late")
        wait_until(lambda: (scene.side / "wrote").exists())
    finally:
        kill(first, signal.SIGCONT)
    wait_until(lambda: not any(map(is_alive, [*old, first])), 15.0, "the stale attempt is ended when its agent wakes")

    view = scene.show(run)
    assert (view["state"], view["attempts"], view["metrics"]) == ("completed", 2, {})
    assert scene.output(run) == b"second\n"
    assert scene.output(run, attempt=1) == b"first\n", "what the stale attempt wrote later does not count"
    assert scene.events(run).count("node_lost") == 1
    assert not any(directory.parent.parent.name == "1" for directory in scene.run_directories())


def test_a_lost_node_fails_a_run_that_may_run_once_only(scene: Scene) -> None:
    run = scene.submit("--retry", "never", "sleep", "1000")
    scene.wait_for(run, "running")
    agent = scene.agent()
    kill(agent, signal.SIGSTOP)
    try:
        view = scene.wait_for(run)
    finally:
        kill(agent, signal.SIGCONT)
    assert (view["state"], view["reason"], view["attempts"]) == ("failed", "node_lost", 1)
    wait_until(lambda: not scene.processes_of(run))


def test_what_comes_after_an_idle_agent_died_goes_to_the_next(scene: Scene) -> None:
    """Its last long poll still waits at the hub, for ten seconds with a lease of thirty. It must get nothing."""
    scene.cli("hub", "start", env={"TURNOUT_LEASE": "30"})
    assert scene.wait_for(scene.submit("true"))["state"] == "completed"
    kill(scene.agent())
    wait_until(lambda: not scene.client.hub()["agents"], what="the hub saw that it is gone")
    run = scene.submit("echo", "hi")
    assert scene.wait_for(run, timeout=9.0)["state"] == "completed"
