"""A node loses part of a run's output that the hub has: what the hub has is final, and nothing arrives twice."""

from __future__ import annotations

import os
import signal

from tests.faults.scene import Scene, kill
from tests.harness import wait_until


def test_output_that_was_lost_while_there_was_no_agent_is_not_sent_again(scene: Scene) -> None:
    script = 'printf "%0100d" 0; while [ ! -e "$0/finish" ]; do sleep 0.02; done; echo end'
    run = scene.submit("bash", "-c", script, str(scene.side))
    wait_until(lambda: scene.output(run) == b"0" * 100)
    hub, agent = scene.hub(), scene.agent()
    kill(hub, signal.SIGSTOP)  # or it would start another agent at once
    kill(agent)
    (directory,) = scene.run_directories()
    os.truncate(directory / "ctl" / "output", 60)
    kill(hub, signal.SIGCONT)
    wait_until(lambda: scene.agents() not in ([], [agent]), what="a new agent")
    wait_until(lambda: (directory / "ctl" / "output.shift").is_symlink(), what="the loss was seen")
    scene.allow("finish")

    view = scene.wait_for(run)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert scene.output(run) == b"0" * 100 + b"end\n"
    (captured,) = [event["data"] for event in scene.client.events(run) if event["event"] == "capture_after"]
    assert captured["problems"] == ["output: it is shorter than what was read of it before, which is kept"]
