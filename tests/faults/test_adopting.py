"""What an agent knows is in its directory: the one that comes after it knows as much."""

from __future__ import annotations

from tests.faults.scene import Scene, kill
from tests.harness import wait_until
from turnout.testing.nvidia_smi import FakeGpus


def test_a_gpu_is_not_given_twice(scene: Scene) -> None:
    """Two GPUs, as far as anyone can tell; one is in use when the agent dies."""
    scene.cli("hub", "start", env=FakeGpus(scene.side / "bin", 2).env())
    waiter = scene.script("waiter.sh", 'echo "$CUDA_VISIBLE_DEVICES"; while [ ! -e "$1/go" ]; do sleep 0.05; done\n')
    first = scene.submit("--gpus", "1", "bash", waiter, str(scene.side))
    wait_until(lambda: scene.output(first) == b"0\n")
    before = scene.agent()
    kill(before)
    wait_until(lambda: scene.agents() and scene.agent() != before)
    second = scene.submit("--gpus", "1", "bash", waiter, str(scene.side))
    wait_until(lambda: scene.output(second) == b"1\n")
    third = scene.submit("--gpus", "1", "bash", waiter, str(scene.side))
    assert scene.show(third)["state"] == "queued"
    scene.allow("go")
    for run in (first, second, third):
        assert scene.wait_for(run)["state"] == "completed"
    assert scene.output(third) in (b"0\n", b"1\n")


def test_a_secret_stays_covered(scene: Scene) -> None:
    """The agent that comes after cannot look it up any more: it is gone from the file."""
    scene.cli("secret", "set", "KEY", "--from-stdin", input="hunter2 and more")
    teller = scene.script(
        "teller.sh", 'echo "one $KEY"; while [ ! -e "$1/go" ]; do sleep 0.05; done; echo "two $KEY"; printf "$KEY"\n'
    )
    run = scene.submit("--env", "KEY=secret:KEY", "bash", teller, str(scene.side))
    wait_until(lambda: scene.output(run) == b"one ****************\n")
    before = scene.agent()
    scene.cli("secret", "remove", "KEY")
    kill(before)
    wait_until(lambda: scene.agents() and scene.agent() != before)
    scene.allow("go")
    assert scene.wait_for(run)["state"] == "completed"
    assert scene.output(run) == b"one ****************\ntwo ****************\n****************"
