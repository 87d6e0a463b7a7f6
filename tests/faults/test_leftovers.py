"""An agent is given up and then dies: what it left running is nobody's, and is ended all the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.faults.scene import Scene, is_alive, kill
from tests.harness import wait_until

STUBBORN = """\
echo "$$" >> "$1/pids"
if [ "$TURNOUT_ATTEMPT" = 1 ]; then
    trap '' TERM
    setsid sleep 1000 &
    echo "$!" >> "$1/pids"
    while :; do sleep 0.1; done
fi
"""


def give_up_agent(scene: Scene) -> int:
    """A run is going and its agent is stopped, until it is given up and the run completes elsewhere. Its pid."""
    run = scene.submit("bash", scene.script("stubborn.sh", STUBBORN), str(scene.side))
    wait_until(lambda: len(scene.pids()) == 2)
    scene.wait_for(run, "running")
    agent = scene.agent()
    kill(agent, signal.SIGSTOP)
    view = scene.wait_for(run, timeout=30.0)
    assert (view["state"], view["attempts"]) == ("completed", 2)
    assert all(map(is_alive, scene.pids()[:2]))
    return agent


def is_cleared(scene: Scene) -> bool:
    return not any(map(is_alive, scene.pids()[:2])) and not list((scene.cli.home / "nodes" / "1" / "runs").iterdir())


@pytest.mark.timeout(90)
def test_what_a_given_up_agent_leaves_when_it_dies_is_ended(scene: Scene) -> None:
    kill(give_up_agent(scene))
    wait_until(lambda: is_cleared(scene), 20.0, "its runs are ended, their directories gone")


@pytest.mark.timeout(90)
def test_and_by_the_next_hub_when_it_died_while_there_was_none(scene: Scene) -> None:
    agent = give_up_agent(scene)
    scene.kill_hub()
    kill(agent)
    assert all(map(is_alive, scene.pids()[:2]))
    scene.start_hub()
    wait_until(lambda: is_cleared(scene), 20.0, "its runs are ended, their directories gone")


@pytest.mark.timeout(90)
def test_the_runs_of_an_agent_that_works_are_safe_from_clearing(scene: Scene) -> None:
    """Whatever a hub believes: who holds the place is asked for, not what is in it."""
    run = scene.submit("sleep", "1000")
    scene.wait_for(run, "running")
    (directory,) = scene.run_directories()
    order = {"directory": str(directory.parent.parent), "clear": True}
    done = subprocess.run(
        [sys.executable, "-m", "turnout.agent"], input=json.dumps(order).encode(), capture_output=True, timeout=30
    )
    assert done.returncode != 0 and b"another agent is at work" in done.stderr
    assert directory.exists() and scene.processes_of(run) and scene.show(run)["state"] == "running"
