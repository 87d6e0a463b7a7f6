"""An agent keeps the next short runs at hand. What turns out long goes back, and nobody is told that it was tried."""

from __future__ import annotations

from tests.faults.scene import Scene


def test_short_runs_do_not_bring_long_ones_along(scene: Scene) -> None:
    """The second job has to wait for its turn; it was not attempted before."""
    short = scene.submit("--runs", "60", "true")
    scene.wait_for(short, timeout=60.0)
    long = scene.submit("--runs", "5", "sleep", "1.5")
    scene.wait_for(long)
    children = scene.children(long)
    assert [(child["state"], child["attempts"]) for child in children] == [("completed", 1)] * 5
    assert all("requeued" not in scene.events(child["name"]) for child in children)
