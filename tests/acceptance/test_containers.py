"""Runs in containers: the same in every respect, by real podman and real docker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import components, containers
from tests.containers import Engine
from tests.harness import Cli, wait_until

pytestmark = [pytest.mark.xdist_group("containers"), pytest.mark.timeout(150)]

SETTINGS = """\
compute-targets:
  box: {{service: local, max-runs: 4, docker: {entry}}}
  python:
    service: local
    docker: {{image: {image}, program: {program}, network: none, options: [{binds}]}}
  absent: {{service: local, docker: {absent}}}
  broken: {{service: local, docker: {broken}}}
  named: {{service: local, docker: {named}}}
  nowhere: {{service: local, docker: {{image: x, program: /nowhere/podman}}}}
setups:
  greet: {{activate: export GREETING=hello, docker: {entry}}}
  heavy: {{pip-packages: [numpy], docker: {entry}}}
  sulky: {{activate: exit 3, docker: {entry}}}
"""
#: The image has no Python: the machine's own is shown to it.
BINDS = [path for path in ("/usr", "/lib", "/lib64", "/etc/ld.so.cache") if os.path.exists(path)]


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    busybox: str = getattr(components, request.param)()
    with getattr(containers, request.param)(busybox) as made:
        yield made


#: What is the same for both is tried on one.
of_either = pytest.mark.parametrize("engine", ["podman"], indirect=True)


@pytest.fixture
def lab(cli: Cli, engine: Engine) -> Iterator[Cli]:
    """A user with targets whose runs are in containers. Nothing of those is left afterwards."""
    cli.home.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.format(
        entry=engine.entry(), absent=engine.entry(image="localhost/nope:1"), image=containers.IMAGE,
        broken=engine.entry(options="[--no-such-option]"), named=engine.entry(options="[--name, web]"),
        program=engine.program,
        binds=", ".join(f"-v, {path}:{path}:ro" for path in BINDS),
    )  # fmt: skip
    (cli.home / "config.yaml").write_text(settings)
    yield cli
    wait_until(lambda: engine.names() == [], what="no container is left")


def state(lab: Cli, run: str) -> str:
    return str(lab.json("show", run)["state"])


def start(lab: Cli, *command: str, options: tuple[str, ...] = ()) -> str:
    """A run that said that it began."""
    run = str(lab.json("run", "-d", "--target", "box", *options, *command)["runs"][0])
    wait_until(lambda: "began" in lab("logs", run).stdout, what=f"{run} begins")
    return run


def agent_pid(lab: Cli) -> int:
    return int(lab.json("hub", "status")["agents"][0]["pid"])


def supervisor_pid(lab: Cli, run: str) -> int:
    (running,) = [event for event in lab.json("events", run) if event["event"] == "running"]
    return int(running["data"]["pid"])


def test_output_exit_code_files_and_environment_are_as_without(lab: Cli) -> None:
    (lab.cwd / "data.txt").write_text("frozen\n")
    shell = (
        'cat data.txt; echo "$LINES|$TRAIL|"; pwd; echo "$TURNOUT_OUTPUT_DIR"; echo made > output/kept; '
        "echo to stderr >&2; ls /bin/busybox; exit 7"
    )
    variables = ["--env", "LINES=one\ntwo", "--env", "TRAIL=  'q' \"d\" $x #  ", "--env", "HOME=/elsewhere"]
    done = lab("run", "--wait", "--target", "box", *variables, "sh", "-c", f'{shell}; echo "$HOME"', check=False)
    assert done.returncode == 7
    lines = done.stdout.splitlines()
    lines.remove("to stderr")  # a container's two streams have no common order
    assert lines[:3] == ["frozen", "one", "two|  'q' \"d\" $x #  |"]
    assert lines[3].endswith("/work") and lines[4] == f"{lines[3]}/output"
    assert "/bin/busybox" in lines
    lab("extract", "run1", str(lab.cwd / "got"))
    kept = lab.cwd / "got/after/output/kept"
    assert kept.read_text() == "made\n" and kept.stat().st_uid == os.getuid()


@of_either
def test_the_variables_of_who_executes_it_can_be_the_runs_own(lab: Cli) -> None:
    variables = ["--env", "HOME=/elsewhere", "--env", "DOCKER_HOST=tcp://nobody:1", "--env", "TMPDIR=/tmp"]
    done = lab("run", "--target", "box", *variables, "sh", "-c", 'echo "$HOME $DOCKER_HOST $TMPDIR"')
    assert done.stdout == "/elsewhere tcp://nobody:1 /tmp\n"
    there = lab("run", "--target", "box", "sh", "-c", 'echo hi > "$HOME/x" && cat "$HOME/x"; echo "$PATH"').stdout
    assert there.startswith("hi\n/usr/local/sbin:"), "a home it can write, and the path of the image"


def command_lines() -> Iterator[bytes]:
    """Of all processes; some end while they are looked at."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


@of_either
def test_a_secret_is_on_no_command_line(lab: Cli) -> None:
    lab("secret", "set", "KEY", "--from-stdin", input="hunter2 and more")
    run = start(lab, "sh", "-c", 'echo "began $KEY"; sleep 100', options=("--env", "KEY=secret:KEY"))
    assert not any(b"hunter2" in line for line in command_lines())
    assert "****" in lab("logs", run).stdout
    lab("cancel", "run", run)


@of_either
def test_a_python_file_with_import_turnout(lab: Cli) -> None:
    (lab.cwd / "train.py").write_text(
        "import os, sys, turnout\nturnout.log(loss=0.25)\n"
        "(turnout.output_dir() / 'model').write_text('weights')\nprint(sys.argv[1:], turnout.params())\n"
    )
    view = lab.json("run", "--wait", "--target", "python", "train.py", "a b")
    assert view["state"] == "completed", lab("logs", "run1").stdout
    assert lab("logs", "run1").stdout.startswith("['a b']")
    assert lab.json("metrics", "run1")["loss"][0]["value"] == 0.25


@of_either
def test_a_script_and_a_setup(lab: Cli) -> None:
    (lab.cwd / "go.sh").write_text('echo "$GREETING $RUN_ARGS$ in $(pwd)"\n')
    done = lab("run", "--setup", "greet", "go.sh", "you", "two")
    assert done.stdout.startswith("hello you two in /") and done.stdout.endswith("/work\n")
    refused = lab("run", "--setup", "heavy", "true", check=False)
    assert refused.returncode == 2 and "--docker none" in refused.stderr


@of_either
def test_a_text_that_is_too_long_for_an_argument(lab: Cli) -> None:
    command = ["sh", "-euc", f': {"x" * 200_000}\necho $# "$@"; exit 7', "sh", "a b"]
    (lab.cwd / "long.yaml").write_text(json.dumps({"pipeline": {"steps": {"long": {"command": command}}}}))
    assert lab("pipeline", "--target", "box", "long.yaml", check=False).returncode == 1
    assert lab("logs", "long").stdout == "1 a b\n" and lab.json("show", "long")["exit_code"] == 7


@of_either
def test_a_setup_that_cannot_be_switched_on_is_told(lab: Cli) -> None:
    lab("run", "--setup", "sulky", "true")
    assert "the activate lines of setup sulky failed, exit code 3" in lab("why", "run1").stdout


def test_what_it_tells_of_itself_is_not_believed(lab: Cli, engine: Engine, tmp_path: Path) -> None:
    """What agent and supervisor wrote down is out of reach in there: nothing is executed or ended by it."""
    (lab.cwd / "forge.sh").write_text(
        f"""printf '#!/bin/sh\\ntouch {tmp_path}/executed\\n' > evil; chmod +x evil
cat output.txt && echo seen
printf '{{"container": ["%s/evil", "x"]}}\\n{{"exit": {{}}}}\\n' "$PWD" >> ../ctl/record
echo forged >> ../ctl/output; echo forged > ../ctl/stop.json; rm ../ctl/run.sh "$0"
echo began; sleep 1000
"""
    )
    run = start(lab, "sh", "forge.sh", options=("--retry", "never"))
    (directory,) = (lab.home / "nodes").glob("*/runs/1.1")
    assert b"evil" not in (directory / "ctl/record").read_bytes() and not (directory / "ctl/stop.json").exists()
    os.kill(supervisor_pid(lab, run), signal.SIGKILL)
    wait_until(lambda: state(lab, run) == "failed")
    assert engine.names() == [] and not (tmp_path / "executed").exists()
    assert "forged" not in lab("logs", run).stdout.splitlines() and "seen" in lab("logs", run).stdout


@of_either
def test_an_option_that_takes_its_name_is_refused(lab: Cli) -> None:
    refused = lab("run", "--target", "named", "true", check=False)
    assert refused.returncode == 2 and "docker: option --name is turnout's own" in refused.stderr


@of_either
def test_the_command_line_may_say_which_image_or_none(lab: Cli) -> None:
    assert lab("run", "--target", "absent", "--docker", containers.IMAGE, "ls", "/bin/busybox").returncode == 0
    assert " for containers" in lab("doctor", check=False).stdout
    here = lab("run", "--target", "absent", "--docker", "none", "sh", "-c", "ls -d /usr/bin").stdout
    assert here == "/usr/bin\n"


def test_cancel_ends_it(lab: Cli, engine: Engine) -> None:
    run = start(lab, "sh", "-c", "echo began; sleep 1000", options=("--grace", "1"))
    (name,) = engine.names()
    assert name.startswith("turnout-") and name.endswith("-1-1")
    lab("cancel", "run", run)
    wait_until(lambda: state(lab, run) == "cancelled")
    assert engine.names() == []


@of_either
def test_who_is_asked_to_end_can_say_goodbye(lab: Cli) -> None:
    run = start(lab, "sh", "-c", "trap 'echo bye; exit 3' TERM; echo began; while :; do sleep 0.1; done")
    lab("cancel", "run", run)
    wait_until(lambda: state(lab, run) == "cancelled")
    assert "bye" in lab("logs", run).stdout


@of_either
def test_a_signal_reaches_a_command_that_does_not_listen_for_it(lab: Cli) -> None:
    """The first process of a container is deaf to what it does not handle: there is another before it."""
    run = start(lab, "sh", "-c", "echo began; exec sleep 1000", options=("--grace", "60"))
    lab("cancel", "run", run)
    wait_until(lambda: state(lab, run) == "cancelled", 15.0)


def test_its_time_is_limited(lab: Cli, engine: Engine) -> None:
    done = lab("run", "--wait", "--target", "box", "--time", "2s", "--grace", "1", "sh", "-c", "sleep 60", check=False)
    assert done.returncode != 0 and lab.json("show", "run1")["reason"] == "timeout"
    assert engine.names() == []


def test_its_memory_is_limited(lab: Cli) -> None:
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1"]
    lab("run", "--target", "box", "--memory", "64M", "--cpus", "1", *command)
    view = lab.json("show", "run1")
    assert (view["state"], view["reason"]) == ("failed", "oom")


def test_an_exit_code_of_its_own_is_its_own(lab: Cli) -> None:
    for code in (125, 127):
        done = lab("run", "--wait", "--target", "box", "sh", "-c", f"exit {code}", check=False)
        assert done.returncode == code
    assert lab.json("show", "run1")["reason"] == "exit_code"
    assert "could not be started" not in lab("why", "run1").stdout


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("absent", ["no image localhost/nope:1 on this node", "pull localhost/nope:1", "turnout rerun run1"]),
        ("nowhere", ["no container on this node: there is no /nowhere/podman", "install podman"]),
        ("broken", ["its container could not be started", "no-such-option"]),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(lab: Cli, target: str, words: list[str]) -> None:
    lab("run", "--target", target, "true")
    assert state(lab, "run1") == "failed"
    told = lab("why", "run1").stdout
    assert "it could not be started" in told
    for word in words:
        assert word in told


def test_it_goes_on_when_its_agent_is_killed(lab: Cli, engine: Engine, tmp_path: Path) -> None:
    run = start(lab, "sh", "-c", "echo began; while [ ! -e output/go ]; do sleep 0.1; done; echo over; exit 4")
    before = agent_pid(lab)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: lab.json("hub", "status")["agents"] and agent_pid(lab) != before, what="another agent")
    (directory,) = (lab.home / "nodes").glob("*/runs/1.1")
    assert len(engine.names()) == 1
    (directory / "work" / "output" / "go").touch()
    wait_until(lambda: state(lab, run) == "failed")
    assert lab.json("show", run)["exit_code"] == 4 and lab("logs", run).stdout == "began\nover\n"


def test_it_is_ended_when_its_supervisor_is_killed(lab: Cli, engine: Engine) -> None:
    run = start(lab, "sh", "-c", "echo began; sleep 1000", options=("--retry", "never"))
    (name,) = engine.names()
    os.kill(supervisor_pid(lab, run), signal.SIGKILL)
    wait_until(lambda: state(lab, run) == "failed")
    assert name not in engine.names()


def test_it_is_ended_when_both_are_killed(lab: Cli, engine: Engine) -> None:
    run = start(lab, "sh", "-c", "echo began; sleep 1000", options=("--retry", "never"))
    (name,) = engine.names()
    supervisor = supervisor_pid(lab, run)
    os.kill(agent_pid(lab), signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: state(lab, run) == "failed", 40.0)
    wait_until(lambda: name not in engine.names())


def test_one_that_nobody_knows_is_ended_by_the_next_agent(lab: Cli, engine: Engine) -> None:
    """As if the machine had lost the run's directory, and kept its container."""
    run = start(lab, "sh", "-c", "echo began; sleep 1000")
    (name,) = engine.names()
    stray = name.rpartition("-1-1")[0] + "-99-1"
    label = engine("inspect", "--format", '{{index .Config.Labels "turnout"}}', name).strip()
    engine("run", "-d", "--name", stray, "--label", f"turnout={label}", "--network", "none", containers.IMAGE,
           "sleep", "1000")  # fmt: skip
    before = agent_pid(lab)
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: stray not in engine.names(), what="the stray is gone")
    assert name in engine.names(), "the one that is held goes on"
    lab("cancel", "run", run)
