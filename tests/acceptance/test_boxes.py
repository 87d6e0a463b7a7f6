"""Boxes: other machines, over SSH. The one here is a real server whose user has nothing of ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components
from tests.harness import Cli, wait_until
from tests.sshd import PASSWORD, USER, Box, running_box

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with running_box(components.sshd()) as made:
        yield made


@pytest.fixture
def lab(cli: Cli, box: Box) -> Cli:
    """A user with the box ``far`` in the settings."""
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry()}\n")
    return cli


def test_a_run_over_there(lab: Cli, box: Box) -> None:
    (lab.cwd / "train.py").write_text(
        "import os, sys, turnout\n"
        "turnout.log(loss=0.5)\n"
        "(turnout.output_dir() / 'model').write_text('weights')\n"
        "print(os.environ['USER'], os.getcwd(), sys.argv[1:], os.path.exists('train.py'))\n"
    )
    view = lab.json("run", "--wait", "--target", "far", "train.py", "a b")
    assert (view["state"], view["target"], view["node"]) == ("completed", "far", "far")
    told = lab("logs", "run1").stdout
    assert told.startswith(f"{USER} {box.home}/.turnout/boxes/") and told.endswith("['a b'] True\n")
    assert lab.json("metrics", "run1")["loss"][0]["value"] == 0.5
    lab("extract", "run1", str(lab.cwd / "got"))
    assert (lab.cwd / "got/after/output/model").read_text() == "weights"
    names = [event["event"] for event in lab.json("events", "run1")]
    assert names[:6] == ["created", "capture_before", "queued", "started", "download_before", "running"]


def test_a_password_that_is_a_secret_opens_it(cli: Cli, box: Box) -> None:
    """It is in no argument, no file of ours but the one of secrets, and nothing that is shown."""
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry_with_password()}\n")
    cli("secret", "set", "BOX", "--from-stdin", input=PASSWORD + "\n")
    shell = 'echo "$USER"; ps -eo args | grep -c "open sesam[e]"; true'
    assert cli("run", "--wait", "--target", "far", "sh", "-c", shell).stdout == f"{USER}\n0\n"
    assert "sesame" not in cli("config", "show").stdout
    found = [path for path in cli.home.rglob("*") if path.is_file() and b"open sesame" in path.read_bytes()]
    assert [path.name for path in found] == ["secrets.json"]


def test_a_box_is_added_with_a_password_that_is_a_secret(cli: Cli, box: Box, tmp_path: Path) -> None:
    options = ["-F", "none", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"]
    words = ["box", "add", f"--port={box.port}", *(f"--ssh-option={each}" for each in options), "--yes"]
    unknown = cli(*words, "--password-secret", "BOX", "far", f"{USER}@127.0.0.1", check=False)
    assert unknown.returncode != 0 and "turnout secret set BOX" in unknown.stderr
    cli("secret", "set", "BOX", "--from-stdin", input=PASSWORD + "\n")
    cli(*words, "--password-secret", "BOX", "far", f"{USER}@127.0.0.1")
    assert cli.json("box", "list")[0]["settings"]["password"] == "secret:BOX"
    assert cli("run", "--wait", "--target", "far", "id", "-un").stdout == f"{USER}\n"


def test_a_box_is_added_with_a_key_that_a_secret_opens(cli: Cli, box: Box, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "open up", "-f", str(key)], check=True)
    with (box.folder / "authorized_keys").open("a") as file:
        file.write(key.with_suffix(".pub").read_text())
    options = ["-F", "none", "-i", str(key), "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"]
    cli("secret", "set", "KEY", "--from-stdin", input="open up\n")
    words = ["box", "add", f"--port={box.port}", *(f"--ssh-option={each}" for each in options), "--yes"]
    cli(*words, "--passphrase-secret", "KEY", "far", f"{USER}@127.0.0.1")
    assert cli("run", "--wait", "--target", "far", "id", "-un").stdout == f"{USER}\n"


def test_a_wrong_password_is_said_to_be_refused(cli: Cli, box: Box) -> None:
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry_with_password()}\n")
    cli("secret", "set", "BOX", "--from-stdin", input="wrong\n")
    done = cli("doctor", "far", check=False)
    assert done.returncode != 0 and "Permission denied" in done.stdout + done.stderr


def test_what_it_gets_of_the_environment(lab: Cli, box: Box) -> None:
    """Its own home and path, and what was said; nothing of this shell, and no secret in a list of processes."""
    env = {"MINE": "m", "HUSH": "h", "TURNOUT_SECRET_KEY": "hunter2 and more"}
    shell = 'echo "$HOME|$MINE|$HUSH|$PATH"; ps -eo args | grep -c "hunter2 an[d]"; echo "$KEY"'
    done = lab(
        "run", "--wait", "--target", "far", "--env", "MINE", "--env", "KEY=secret:KEY", "sh", "-c", shell, env=env
    )
    first, count, secret = done.stdout.splitlines()
    assert first.startswith(f"{box.home}|m||") and str(Path.home()) + "/.pyenv" not in first
    assert (count, secret) == ("0", "****************")


def test_a_python_file_gets_the_default_environment_of_over_there(lab: Cli, box: Box) -> None:
    """A venv in that user's home, not the one that is active here."""
    login = ["su", USER, "-c"]
    subprocess.run([*login, "/usr/bin/python3 -m venv --without-pip ~/envs/lab"], cwd="/", check=True)
    (lab.cwd / "turnout.yaml").write_text("general: {default-env: ~/envs/lab}\n")
    (lab.cwd / "where.py").write_text("import sys; print(sys.prefix)\n")
    assert lab("run", "--wait", "--target", "far", "where.py").stdout == f"{box.home}/envs/lab\n"


def test_it_goes_on_when_connections_break(lab: Cli, box: Box, tmp_path: Path) -> None:
    """Neither run nor agent notices; all of the output arrives, once."""
    go = Path("/tmp") / f"turnout-go-{os.getpid()}"
    go.unlink(missing_ok=True)
    shell = f"n=0; while [ ! -e {go} ]; do echo $n; n=$((n+1)); sleep 0.02; done; echo end $n"
    name = lab.json("run", "-d", "--target", "far", "sh", "-c", shell)["runs"][0]
    wait_until(lambda: "5\n" in lab("logs", name).stdout, 60.0)
    for _ in range(3):
        seen = len(lab("logs", name).stdout)
        box.drop_connections()
        wait_until(lambda seen=seen: len(lab("logs", name).stdout) > seen, 60.0)  # type: ignore[misc]
    lab("hub", "stop")
    go.touch()
    wait_until(lambda: lab.json("show", name)["state"] == "completed", 60.0)
    go.unlink()
    *lines, last = lab("logs", name).stdout.splitlines()
    assert lines == [str(n) for n in range(len(lines))] and last == f"end {len(lines)}"
    assert lab.json("show", name)["attempts"] == 1


def test_cancel_ends_everything_over_there(lab: Cli) -> None:
    name = lab.json("run", "-d", "--target", "far", "sh", "-c", "sleep 4242 & setsid sleep 4343 & wait")["runs"][0]
    wait_until(lambda: lab.json("show", name)["state"] == "running", 60.0)
    lab("cancel", "run", name)
    wait_until(lambda: lab.json("show", name)["state"] == "cancelled", 60.0)
    assert not os.popen("pgrep -f '^sleep 4[23]4[23]'").read()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (("known_hosts", "nobody"), "Host key verification failed"),
        (("/key", "/host"), "Permission denied"),
        (("127.0.0.1", "box.invalid"), "Could not resolve hostname"),
    ],
)
def test_a_box_that_cannot_be_reached_is_told(cli: Cli, box: Box, change: tuple[str, str], what: str) -> None:
    """And harms nothing else."""
    cli.home.mkdir(parents=True, exist_ok=True)
    (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry().replace(*change)}\n")
    name = cli.json("run", "-d", "--target", "far", "true")["runs"][0]
    wait_until(lambda: what in cli("why", name).stdout, 60.0)
    assert cli("run", "--wait", "echo", "here").stdout == "here\n"
    cli("cancel", "all")
