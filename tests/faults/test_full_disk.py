"""The disk of TURNOUT_HOME is full: what cannot be done is refused with its reason; all goes on once there is room."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.scene import Scene, fill
from tests.harness import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.timeout(90)
def test_a_full_disk_is_named_and_all_goes_on_once_there_is_room(small_disk: Path, scene: Scene) -> None:
    waiter = scene.script(
        "waiter.sh",
        'echo begun; touch "$1/up"\nwhile [ ! -e "$1/go" ]; do sleep 0.05; done\necho over; echo x > output/file\n',
    )
    running = scene.submit("bash", waiter, str(scene.side))
    wait_until(lambda: (scene.side / "up").exists() and scene.output(running) == b"begun\n")
    before = {run["name"] for run in scene.client.runs(limit=1000)}
    filler = small_disk / "filler"
    fill(filler)

    refused = scene.cli("run", "-d", "--no-snapshot", "--env", f"LARGE={'x' * 100_000}", "true", check=False)
    assert refused.returncode != 0
    assert "disk" in refused.stderr + refused.stdout, refused
    assert "Traceback" not in refused.stderr
    assert {run["name"] for run in scene.client.runs(limit=1000)} == before, "nothing was half done"
    assert scene.show(running)["state"] == "running"

    filler.unlink()
    after = scene.submit("echo", "hi")
    assert scene.wait_for(after)["state"] == "completed"
    scene.allow("go")
    view = scene.wait_for(running)
    assert (view["state"], view["attempts"]) == ("completed", 1)
    assert scene.output(running) == b"begun\nover\n"


@pytest.mark.timeout(90)
def test_what_ends_on_a_full_disk_is_told_later(small_disk: Path, scene: Scene) -> None:
    """The run itself needs no disk. Its supervisor cannot write how it ended until there is room, and then does."""
    waiter = scene.script(
        "waiter.sh", 'touch "$1/up"; while [ ! -e "$1/go" ]; do sleep 0.05; done; touch "$1/ran"; exit 5\n'
    )
    run = scene.submit("bash", waiter, str(scene.side))
    queued = scene.submit("--priority", "-1", "--cpus", "2", "echo", "next")
    wait_until(lambda: (scene.side / "up").exists())
    scene.wait_for(run, "running")
    filler = small_disk / "filler"
    fill(filler)
    scene.allow("go")
    wait_until(lambda: (scene.side / "ran").exists())
    agent = scene.agent()
    filler.unlink()
    view = scene.wait_for(run)
    assert (view["state"], view["reason"], view["exit_code"], view["attempts"]) == ("failed", "exit_code", 5, 1)
    assert scene.wait_for(queued)["state"] == "completed"
    assert scene.agent() == agent, "the agent lived through it"


@pytest.mark.timeout(90)
def test_files_that_cannot_be_laid_out_are_later(small_disk: Path, scene: Scene) -> None:
    """A run for a class that launches runs itself: its files lie in a directory of the hub's."""
    shutil.copytree(EXAMPLES / "xt-backend", scene.cli.cwd, dirs_exist_ok=True)
    (scene.cli.cwd / "large.bin").write_bytes(os.urandom(4 << 20))
    run = str(scene.cli.json("run", "-d", "--held", "--target", "cloud4x", "train.py")["runs"][0])
    filler = small_disk / "filler"
    fill(filler, leave=2 << 20)
    scene.cli("release", run)

    wait_until(lambda: "No space left" in scene.cli("why", run).stdout, 30.0, "it is said why it waits")
    assert scene.show(run)["state"] == "queued"
    wait_until(lambda: not list((small_disk / "jobs").rglob("large.bin")), 30.0, "what could not be finished goes")
    filler.unlink()
    view = scene.wait_for(run)
    assert (view["state"], view["attempts"]) == ("completed", 1)
