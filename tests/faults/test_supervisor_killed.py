"""A supervisor is killed: what it started is ended, the cause is recorded, and the run is tried again."""

from __future__ import annotations

import os

import pytest

from tests.faults.scene import Scene, is_alive, kill
from tests.harness import wait_until

#: In its first attempt it starts a process in a session of its own, one without a parent, and one without environment.
FAMILY = """\
echo "$TURNOUT_ATTEMPT" >> "$1/began"
[ "$TURNOUT_ATTEMPT" = 1 ] || exit 0
trap '' TERM
setsid sleep 1000 & echo "$!" >> "$1/pids"
(setsid bash -c 'echo $$ >> '"$1"'/pids; exec sleep 1000' &)
env -i sleep 1000 & echo "$!" >> "$1/pids"
echo "$$" >> "$1/pids"
touch "$1/ready"
wait
"""


@pytest.mark.parametrize(
    ("options", "state", "attempts"),
    [((), "completed", 2), (("--retry", "never"), "failed", 1)],
    ids=["retried", "never"],
)
def test_its_tree_is_ended_and_the_cause_says_so(
    scene: Scene, options: tuple[str, ...], state: str, attempts: int
) -> None:
    script = scene.script("family.sh", FAMILY)
    run = scene.submit(*options, "bash", script, str(scene.side))
    wait_until(lambda: (scene.side / "ready").exists() and len(scene.pids()) == 4)
    (supervisor,) = wait_until(scene.supervisors)
    kill(supervisor)
    wait_until(lambda: not any(map(is_alive, scene.pids())), 10.0, "all it had started is gone")

    view = scene.wait_for(run)
    assert (view["state"], view["attempts"]) == (state, attempts)
    assert scene.lines("began") == [str(number + 1) for number in range(attempts)]
    ended = next(event for event in scene.client.events(run) if event["event"] == "ended")
    assert ended["data"]["cause"] == "infra"
    assert "supervisor was killed" in ended["data"]["message"]
    if state == "failed":
        assert view["reason"] == "infra"
        assert "supervisor was killed" in " ".join(scene.cli.json("why", run)["why"])


def test_agent_and_supervisors_killed_together(scene: Scene) -> None:
    """As when a machine runs out of memory. The next agent finds what is left, ends it, and the run is tried again."""
    script = scene.script("family.sh", FAMILY)
    run = scene.submit("bash", script, str(scene.side))
    wait_until(lambda: (scene.side / "ready").exists() and len(scene.pids()) == 4)
    (supervisor,) = wait_until(scene.supervisors)
    agent = scene.agent()
    os.kill(agent, 19)
    kill(supervisor)
    kill(agent)
    view = scene.wait_for(run)
    assert (view["state"], view["attempts"]) == ("completed", 2)
    assert not any(map(is_alive, scene.pids()))
