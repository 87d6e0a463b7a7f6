"""What a node does before a run: setups and prologs whose agent is killed, that fail, and that several want at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.scene import Scene, is_alive, kill
from tests.harness import wait_until
from turnout.agent.leash import Leash

#: Takes the place of a Python, quickly: makes "environments", and "installs" as the files in `SIDE` tell it.
PYTHON = """\
#!/bin/sh
side={side}
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; ln -sf "{python}" "$3/bin/python"; echo "$3" >> "$side/made" ;;
  *"-m pip "*)
    echo "$$" >> "$side/pips"
    touch "$(dirname "$0")/half"
    while [ -e "$side/wait" ]; do sleep 0.02; done
    [ ! -e "$side/fail" ] || {{ echo "no such package"; exit 1; }}
    touch "$(dirname "$0")/whole" ;;
esac
"""
USING = 'test -e "$VIRTUAL_ENV/bin/whole" && echo "$VIRTUAL_ENV"'


@pytest.fixture
def lab(scene: Scene) -> Scene:
    """A project with a setup `lab`, and targets `one` and `two` on this machine that share a cache."""
    python = scene.side / "python"
    python.write_text(PYTHON.format(side=scene.side, python=python))
    python.chmod(0o755)
    scene.cli.home.mkdir(mode=0o700)
    prolog = f"echo $$ >> {scene.side}/prologs; while [ -e {scene.side}/hold ]; do sleep 0.02; done"
    (scene.cli.home / "config.yaml").write_text(
        "compute-targets:\n  one: {service: local}\n  two: {service: local}\n"
        f"  three:\n    service: local\n    prolog: ['{prolog}']\n"
    )
    (scene.cli.cwd / "turnout.yaml").write_text(f"setups:\n  lab:\n    python: {python}\n    pip-packages: [gadget]\n")
    return scene


def use(lab: Scene, *options: str) -> str:
    return lab.submit("--setup", "lab", *options, "bash", "-c", USING)


def test_an_agent_killed_in_the_middle_of_an_installation(lab: Scene) -> None:
    """What it had started ends with it. The next agent takes nothing of it for whole, and does not wait for it."""
    lab.allow("wait")
    run = use(lab)
    (pip,) = wait_until(lambda: lab.pids("pips"), 20.0)
    kill(lab.agent())
    wait_until(lambda: not is_alive(pip), 10.0, "the installation ends with its agent")
    wait_until(lambda: len(lab.pids("pips")) == 2, 20.0, "another one begins")
    (lab.side / "wait").unlink()
    assert lab.wait_for(run)["state"] == "completed"
    assert len(lab.lines("made")) == 2


def test_an_installation_that_fails_leaves_nothing_that_is_taken_for_whole(lab: Scene) -> None:
    lab.allow("fail")
    view = lab.wait_for(use(lab))
    assert view["state"] == "failed" and "no such package" in view["message"]
    (lab.side / "fail").unlink()
    assert lab.wait_for(use(lab))["state"] == "completed"
    assert len(lab.lines("made")) == 2, "what was half made was made anew"
    assert lab.wait_for(use(lab))["state"] == "completed" and len(lab.lines("made")) == 2


def test_two_agents_and_many_runs_that_want_the_same_at_once(lab: Scene) -> None:
    lab.allow("wait")
    runs = [use(lab, "--target", target) for target in ("one", "two", "one", "two")]
    wait_until(lambda: len(lab.agents()) == 2 and lab.pids("pips"), 20.0)
    (lab.side / "wait").unlink()
    assert [lab.wait_for(run)["state"] for run in runs] == ["completed"] * 4
    assert len(lab.lines("made")) == len(lab.pids("pips")) == 1
    assert len({lab.output(run) for run in runs}) == 1, "all of them are in the same one"


def test_an_agent_killed_in_its_prolog(lab: Scene) -> None:
    """The next one begins anew, when nothing of the first is left."""
    lab.allow("hold")
    run = lab.submit("--target", "three", "true")
    (first,) = wait_until(lambda: lab.pids("prologs"), 20.0)
    kill(lab.agent())
    wait_until(lambda: not is_alive(first), 10.0, "it ends with its agent")
    wait_until(lambda: len(lab.pids("prologs")) == 2, 20.0)
    (lab.side / "hold").unlink()
    assert lab.wait_for(run)["state"] == "completed"
    assert len(lab.pids("prologs")) == 2


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_what_a_script_leaves_running_on_purpose_stays(shell: str, tmp_path: Path) -> None:
    """A leash ends what is unfinished, and nothing else; the script's own ``wait`` and input do not feel it."""
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; (sleep 0.05) & wait $!; read x || echo none; exit 3"
    with Leash() as leash:
        done = subprocess.Popen(
            [shell, "-c", f"{leash.line}\n{script}"], stdin=leash.stdin, stdout=subprocess.PIPE, start_new_session=True
        )
        assert done.wait(10) == 3
    assert done.stdout is not None and done.stdout.readline() == b"none\n"
    done.stdout.close()
    left = int((tmp_path / "pid").read_text())
    assert is_alive(left)
    kill(left)


def test_a_script_whose_starter_dies_dies(tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from turnout.agent.leash import Leash\n"
        "with Leash() as leash:\n"
        "    lines = [leash.line, f'(sleep 1000) & echo $! $$ > {sys.argv[1]}; sleep 1000']\n"
        "    subprocess.Popen(['sh', '-c', '\\n'.join(lines)], stdin=leash.stdin, start_new_session=True)\n"
        "    while not os.path.exists(sys.argv[1]) or not os.path.getsize(sys.argv[1]): pass\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path / "pids")]).returncode == -9
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(is_alive, pids)), 10.0, "all of it is gone")
