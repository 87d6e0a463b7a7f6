"""``turnout box`` and ``turnout ssh``, and what ``turnout doctor`` says of a box. The box is a real SSH server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import components
from tests.harness import Cli, at_terminal, wait_until
from tests.sshd import USER, Box, running_box
from turnout.plugin.transport import transport

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with running_box(components.sshd()) as made:
        yield made


@pytest.fixture
def words(box: Box, tmp_path: Path) -> list[str]:
    """For ``box add``: how to get there, by a known_hosts of this test's own, which is empty."""
    options = ["-F", "none", "-i", str(box.folder / "key"), "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"]
    return [f"{USER}@127.0.0.1", f"--port={box.port}", *(f"--ssh-option={each}" for each in options)]


def fingerprint(box: Box) -> str:
    told = subprocess.run(["ssh-keygen", "-lf", box.folder / "host.pub"], capture_output=True, text=True, check=True)
    return told.stdout.split()[1]


def is_at_home(cli: Cli, box: Box) -> bool:
    """Whether this user's hub has a directory there; others may have theirs."""
    told = {"nodes_directory": str(cli.home / "nodes"), "address": f"{USER}@127.0.0.1", "port": box.port}
    return Path(box.home, transport(told, "boxes").root.removeprefix("~/")).exists()


def test_a_box_is_added_used_and_removed(cli: Cli, box: Box, words: list[str], tmp_path: Path) -> None:
    cli.home.mkdir(parents=True)
    (cli.home / "config.yaml").write_text("# mine\ngeneral: {experiment: e}  # keep\n")
    added = cli.json("box", "add", "far", *words, "--max-runs=3", "--yes")
    assert added["key"] == {"type": "ED25519", "fingerprint": fingerprint(box), "host": f"[127.0.0.1]:{box.port}"}
    assert {each["level"] for each in added["findings"]} <= {"ok", "warning"}
    said = " ".join(each["what"] for each in added["findings"])
    assert "Python 3." in said and "MB free" in said and "clock" in said
    known = (tmp_path / "known_hosts").read_text()
    assert known.startswith(f"[127.0.0.1]:{box.port} ssh-ed25519 ") and known.count("\n") == 1
    text = (cli.home / "config.yaml").read_text()
    assert text.startswith("# mine\ngeneral: {experiment: e}  # keep\nboxes:\n  far: {address: ")

    assert cli("run", "--wait", "--target", "far", "id", "-un").stdout == f"{USER}\n"
    (row,) = cli.json("box", "list")
    assert (row["name"], row["max_runs"], row["agents"], row["free"], row["trouble"]) == ("far", 3, 1, 3, "")
    assert is_at_home(cli, box)

    removed = cli.json("box", "remove", "far")
    assert (removed["cleared"], removed["cancelled"]) == (True, 0)
    assert not is_at_home(cli, box)
    assert (cli.home / "config.yaml").read_text() == "# mine\ngeneral: {experiment: e}  # keep\n"
    assert cli("run", "--target", "far", "true", check=False).returncode == 3


def test_the_key_is_shown_and_asked_for(cli: Cli, box: Box, words: list[str], tmp_path: Path) -> None:
    """No means no, and where nobody can be asked nothing is believed."""
    shown = at_terminal(cli, "n\n", "box", "add", "far", *words)
    assert fingerprint(box) in shown and "ED25519" in shown and "was not accepted" in shown
    refused = cli("box", "add", "far", *words, check=False)
    assert refused.returncode == 2 and "--yes" in refused.stderr
    wrong = cli("box", "add", "far", *words, "--fingerprint=SHA256:other", check=False)
    assert wrong.returncode == 2 and fingerprint(box) in wrong.stderr
    assert not (tmp_path / "known_hosts").exists() and not (cli.home / "config.yaml").exists()
    shown = at_terminal(cli, "yes\n", "box", "add", "far", *words)
    assert "turnout run --target far" in shown
    again = cli.json("box", "add", "near", *words, f"--fingerprint={fingerprint(box)}")
    assert again["name"] == "near"
    assert (tmp_path / "known_hosts").read_text().count("\n") == 1


def test_a_key_that_changed_is_refused(cli: Cli, box: Box, words: list[str], tmp_path: Path) -> None:
    """With both fingerprints, and what to do."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    other = (tmp_path / "other.pub").read_text().rsplit(" ", 1)[0]
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{box.port} {other}\n")
    told = subprocess.run(["ssh-keygen", "-lf", tmp_path / "other.pub"], capture_output=True, text=True, check=True)
    done = cli("box", "add", "far", *words, "--yes", check=False)
    assert done.returncode == 5
    assert fingerprint(box) in done.stderr and told.stdout.split()[1] in done.stderr
    assert "ssh-keygen -R" in done.stderr
    assert not (cli.home / "config.yaml").exists()


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("-far", "host"), ("far", "-oProxyCommand=touch /tmp/x"), ("far", "a b"), ("far", "a;b"), ("far", "$(id)"),
        ("far", "u@-x"), ("run1", "host"), ("local", "host"), ("far", ""), ("far", "ssh://h"),
    ],
)  # fmt: skip
def test_names_and_addresses_that_could_be_something_else_are_refused(cli: Cli, name: str, address: str) -> None:
    done = cli("box", "add", "--yes", "--", name, address, check=False)
    assert done.returncode in (2, 4) and not (cli.home / "config.yaml").exists()


def test_a_machine_that_does_not_work_is_not_added(cli: Cli, box: Box, words: list[str]) -> None:
    """What is wrong is told with what to do."""
    silent = cli("box", "add", "far", f"{USER}@127.0.0.1", "--port=1", "--yes", check=False)
    assert silent.returncode == 6 and "Connection refused" in silent.stderr
    shut_out = [word.replace("/key", "/host") for word in words]
    denied = cli("box", "add", "far", *shut_out, "--yes", check=False)
    assert denied.returncode == 7 and "Permission denied" in denied.stderr and "ssh-copy-id" in denied.stderr
    pythonless = cli("box", "add", "far", *words, "--python=/no/python", check=False)
    assert pythonless.returncode == 7 and "no Python" in pythonless.stderr
    assert not (cli.home / "config.yaml").exists()


def test_a_box_with_runs_is_removed_only_by_force(cli: Cli, box: Box, words: list[str]) -> None:
    cli("box", "add", "far", *words, "--yes")
    assert is_at_home(cli, box)
    name = cli.json("run", "-d", "--target", "far", "sleep", "4141")["runs"][0]
    wait_until(lambda: cli.json("show", name)["state"] == "running", 60.0)
    refused = cli("box", "remove", "far", check=False)
    assert refused.returncode == 4 and "--force" in refused.stderr
    assert cli.json("box", "list")[0]["free"] is not None
    done = cli.json("box", "remove", "--force", "far")
    assert (done["cancelled"], done["cleared"]) == (1, True)
    assert cli.json("show", name)["state"] == "cancelled"
    assert not os.popen("pgrep -f '^sleep 414[1]'").read()
    assert not is_at_home(cli, box)


def test_a_box_of_the_project_is_removed_there(cli: Cli, box: Box) -> None:
    (cli.cwd / "turnout.yaml").write_text(f"boxes:\n  far: {box.entry()}\n")
    done = cli("box", "remove", "far", check=False)
    assert done.returncode == 4 and "turnout.yaml:2" in done.stderr


def test_a_command_that_the_users_ssh_gives_there_is_in_no_way(cli: Cli, words: list[str]) -> None:
    words = [*words, "--ssh-option=-o", "--ssh-option=RemoteCommand=echo mine"]
    assert cli.json("box", "add", "far", *words, "--yes")["key"]
    assert cli("ssh", "far", "id -un").stdout == f"{USER}\n"
    assert cli("run", "--wait", "--target", "far", "id", "-un").stdout == f"{USER}\n"


def test_ssh_goes_there(cli: Cli, box: Box) -> None:
    """As a login, with one line for the shell there, or with a program and its arguments as they are."""
    (cli.cwd / "turnout.yaml").write_text(
        f"boxes:\n  far: {box.entry()}\n  here: {{address: localhost}}\ncompute-targets: {{lab: {{service: pool}}}}\n"
    )
    assert cli("ssh", "far", "echo $HOME; exit 3", check=False).stdout == f"{box.home}\n"
    assert cli("ssh", "far", "echo $HOME; exit 3", check=False).returncode == 3
    assert cli("ssh", "far", "--", "printf", "%s|", "a b", "$HOME", "it's").stdout == "a b|$HOME|it's|"
    assert cli("ssh", "far", input="id -un\n").stdout == f"{USER}\n"
    assert cli("ssh", "far#1", "--", "id", "-un").stdout == f"{USER}\n"
    assert cli("ssh", "here", "--", "echo", "a  b").stdout == "a  b\n"
    told = cli.json("ssh", "far", "echo hi")
    assert (told["exit_code"], told["stdout"]) == (0, "hi\n")
    assert "far" in cli("ssh", "lab", check=False).stderr
    assert cli("ssh", "nowhere", check=False).returncode == 3


def test_doctor_of_a_box(cli: Cli, box: Box) -> None:
    cli.home.mkdir(parents=True)
    gone = box.entry().replace(str(box.port), "1")
    (cli.home / "config.yaml").write_text(f"boxes:\n  far: {box.entry()}\n  gone: {gone}\n")
    well = cli("doctor", "far").stdout
    for what in ("ssh here is OpenSSH", "Linux", "host key", "Python 3", "clock", "MB free"):
        assert what in well
    told = cli("box", "doctor", check=False)
    assert told.returncode == 1 and "Connection refused" in told.stdout and "try it yourself: ssh" in told.stdout
    found = cli.json("doctor", "far")
    assert {each["target"] for each in found} == {"far"} and set(found[0]) == {"level", "what", "hint", "target"}
    assert cli("doctor", "nowhere", check=False).returncode == 3
    everything = cli("doctor", check=False)
    assert everything.returncode == 1 and "hub" in everything.stdout and "far answers" not in everything.stderr
