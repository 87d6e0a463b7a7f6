"""What a run can do to its own directory, and to the files by which it is known. None of it harms anyone else."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.scene import Scene, children_of, kill
from tests.harness import wait_until

CTL = 'ctl="$(dirname "$TURNOUT_SPOOL")"\n'


def _run(scene: Scene, text: str, *args: str) -> dict[str, object]:
    run = scene.submit(*args, "bash", scene.script("unruly.sh", text), str(scene.side))
    return scene.wait_for(run)


def _captured(scene: Scene, run: str) -> dict[str, object]:
    (event,) = [event for event in scene.client.events(run) if event["event"] == "capture_after"]
    data: dict[str, object] = event["data"]
    return data


def _assert_well(scene: Scene, agent: int) -> None:
    """The same agent still takes runs."""
    run = scene.submit("echo", "well")
    assert scene.wait_for(run)["state"] == "completed"
    assert scene.output(run) == b"well\n"
    assert scene.agent() == agent


UNRULY = {
    "removes its directory": ('echo out; rm -rf "$PWD"; echo more', b"out\nmore\n"),
    "removes its output": ("echo out; sleep 0.4; " + CTL + 'rm "$ctl/output"; echo more', b"out\nmore\n"),
    "replaces output.txt": ("rm output.txt; echo mine > output.txt; echo out", b"out\n"),
    "cuts its output": ("echo first; sleep 0.4; : > output.txt; sleep 0.3; echo second", b"first\nsecond\n"),
    "puts a pipe for its output": (CTL + 'rm "$ctl/output"; mkfifo "$ctl/output"; echo lost', b""),
    "fills its spool with oddities": (
        'mkfifo "$TURNOUT_SPOOL/1-00000000.0000"; mkdir "$TURNOUT_SPOOL/2-00000000.0000"; '
        'ln -s /etc/passwd "$TURNOUT_SPOOL/3-00000000.0000"; touch "$TURNOUT_SPOOL/$(printf %0200d 1)"; '
        "echo nonsense > \"$TURNOUT_SPOOL/4-00000000.0000\"; echo x > $TURNOUT_SPOOL/$'\\n'; echo out",
        b"out\n",
    ),
    "makes its files unreadable": (
        "mkdir -p output/a; echo x > output/a/b; chmod 000 output/a output; echo out",
        b"out\n",
    ),
}


def test_a_run_may_do_anything_to_its_directory(scene: Scene) -> None:
    assert scene.wait_for(scene.submit("true"))["state"] == "completed"
    agent = scene.agent()
    for what, (text, output) in UNRULY.items():
        view = _run(scene, text)
        assert (view["state"], view["attempts"]) == ("completed", 1), (what, view)
        assert scene.output(str(view["name"])) == output, what
    _assert_well(scene, agent)
    wait_until(lambda: not scene.run_directories(), what="all is cleared away")


def test_a_run_without_its_control_directory_is_infra(scene: Scene) -> None:
    """What is left to know is that something is wrong."""
    view = _run(scene, CTL + 'rm -rf "$ctl"; exit 0\n', "--retry", "never")
    assert (view["state"], view["reason"]) == ("failed", "infra")
    _assert_well(scene, scene.agent())


def test_much_output_at_once_arrives_whole(scene: Scene) -> None:
    size = 100 << 20
    run = scene.submit("bash", "-c", f"yes 0123456789abcde | head -c {size}")
    agent = scene.agent()
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, _resident(agent))
        return bool(scene.show(run)["state"] == "completed")

    wait_until(is_over, 60.0)
    digest = hashlib.sha256()
    length = 0
    for piece in scene.client.output(run):
        digest.update(piece)
        length += len(piece)
    assert length == size
    assert digest.hexdigest() == hashlib.sha256(b"0123456789abcde\n" * (size // 16)).hexdigest()
    assert _captured(scene, run)["output_sha256"] == digest.hexdigest()
    assert most < 48 << 20, f"the agent took {most >> 20} MB"


def _resident(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


WRITERS = """\
import os, turnout
for writer in range(40):
    if os.fork() == 0:
        for step in range(25):
            turnout.log({f"m{writer}": step}, step=step)
        os._exit(0)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def test_many_writers_of_one_run(scene: Scene) -> None:
    run = scene.submit("python3", scene.script("writers.py", WRITERS))
    assert scene.wait_for(run)["state"] == "completed"
    found = scene.client.metrics(run)
    assert found.keys() == {f"m{writer}" for writer in range(40)}
    for points in found.values():
        assert [point["step"] for point in points] == list(range(25))


DAMAGED = """\
import glob, os, turnout
for step in range(10):
    turnout.log(loss=step, step=step)
(path,) = glob.glob(os.environ["TURNOUT_SPOOL"] + "/*")
with open(path, "r+b") as file:
    file.seek(os.path.getsize(path) // 2)
    file.write(b"damage")
for step in range(10, 20):
    turnout.log(loss=step, step=step)
print("done")
"""


def test_a_damaged_spool_is_told_and_not_sent_for_ever(scene: Scene) -> None:
    run = scene.submit("python3", scene.script("damaged.py", DAMAGED))
    view = scene.wait_for(run)
    assert view["state"] == "completed"
    assert "damaged at byte" in str(_captured(scene, run)["problems"])
    steps = [point["step"] for point in scene.client.metrics(run).get("loss", [])]
    assert steps == list(range(len(steps))) and len(steps) < 10, "what was whole counts, nothing else"


def test_oddities_left_to_an_agent_are_no_trouble(scene: Scene) -> None:
    """Whatever lies among the run directories when an agent begins."""
    run = scene.submit("bash", "-c", "while [ ! -e $0/go ]; do sleep 0.05; done; echo out", str(scene.side))
    scene.wait_for(run, "running")
    (real,) = scene.run_directories()
    runs = real.parent
    (runs / "a file").write_text("x")
    (runs / "link").symlink_to("/etc")
    (runs / "7000.1" / "ctl").mkdir(parents=True)
    (runs / "7001.1" / "ctl").mkdir(parents=True)
    (runs / "7001.1" / "ctl" / "record").write_text('{"grant": 1}\n{"supervisor": not json\n')
    (runs / "7002.1" / "ctl" / "record").mkdir(parents=True)
    (runs / "7003.1" / "ctl").mkdir(parents=True)
    os.mkfifo(runs / "7003.1" / "ctl" / "record")
    told = (real / "ctl" / "record").read_bytes()
    zeros = re.sub(rb'\{"grant.*', lambda found: b"\0" * len(found[0]), told)  # as a power cut might leave it
    (real / "ctl" / "record").write_bytes(zeros)
    before = scene.agent()
    kill(before)
    wait_until(lambda: scene.agents() and scene.agent() != before)
    scene.allow("go")
    assert scene.wait_for(run)["state"] == "completed"
    assert scene.output(run) == b"out\n"
    _assert_well(scene, scene.agent())
    wait_until(lambda: not [path for path in scene.run_directories() if path.name != "a file"])


def test_the_token_is_in_the_agent_alone(scene: Scene) -> None:
    """A run is of the same user as its agent. It finds the token nowhere it can look: not in a file, an environment, or
    the memory of the processes that start it; and the agent's own memory is closed to all but root."""
    if os.getuid() != 0:
        pytest.skip("looking into memory needs root")
    run = scene.submit("sleep", "1000")
    scene.wait_for(run, "running")
    agent = scene.agent()
    found = re.search(rb"Bearer ([0-9a-f]{64})", _memory(agent))
    assert found is not None
    token = found[1]
    assert os.stat(f"/proc/{agent}/environ").st_uid == 0 and os.stat(f"/proc/{agent}/mem").st_mode & 0o077 == 0
    (launcher,) = children_of(agent)
    others = [launcher, *scene.supervisors(), *scene.processes_of(run)]
    assert len(others) == 3
    for pid in others:
        assert token not in _memory(pid), pid
    for pid in [agent, *others]:
        for name in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{pid}/{name}").read_bytes()
    for path in scene.cli.home.rglob("*"):
        assert not path.is_file() or token not in path.read_bytes(), path
    scene.client.cancel([run])


def _memory(pid: int) -> bytes:
    """All that a process can write to."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            region, rights = line.split()[:2]
            first, last = (int(address, 16) for address in region.split("-"))
            if rights.startswith("rw"):
                with suppress(OSError, ValueError):
                    memory.seek(first)
                    parts.append(memory.read(last - first))
    return b"".join(parts)
