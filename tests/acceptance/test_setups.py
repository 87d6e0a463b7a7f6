"""Setups: what a run needs is installed once per node, then found by every run that asks for the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, processes_of, wait_until
from turnout.testing.conda import make_channel, make_package

#: A real pip that reaches nothing but the directory of our own packages.
Shop = dict[str, str]


def make_wheel(directory: Path, name: str, version: str, text: str) -> None:
    """A package of one module that has `text`."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shelf = tmp_path / "shop"
    shelf.mkdir()
    make_wheel(shelf, "gadget", "1.5", "VALUE = 'one and a half'\n")
    make_wheel(shelf, "gadget", "2.0", "VALUE = 'two'\n")
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}


@pytest.fixture
def project(cli: Cli) -> Callable[[str], None]:
    def write(setups: str) -> None:
        (cli.cwd / "turnout.yaml").write_text(f"setups:\n{setups}")
        (cli.cwd / "use.py").write_text("import gadget, sys\nprint(gadget.VALUE, sys.prefix)\n")

    return write


def setup_event(cli: Cli, run: str) -> dict[str, Any]:
    (event,) = (event for event in cli.json("events", run) if event["event"] == "setup")
    return dict(event["data"])


def test_packages_are_installed_once_and_found_by_every_run(
    cli: Cli, shop: Shop, project: Callable[[str], None]
) -> None:
    project("  lab:\n    pip-packages: [gadget==1.5]\n")
    first = cli("run", "--setup", "lab", "use.py", env=shop, timeout=120)
    assert "one and a half" in first.stdout
    made = setup_event(cli, "run1")
    assert made["setup"] == "lab" and made["found"] is False and made["seconds"] > 0
    second = cli(
        "run", "--setup", "lab", "python", "-c", "import gadget, sys; print(gadget.VALUE, sys.prefix)", env=shop
    )
    assert second.stdout.split()[-1] == first.stdout.split()[-1], "the same environment"
    assert setup_event(cli, "run2")["found"] is True
    names = [event["event"] for event in cli.json("events", "run2")]
    assert names[names.index("download_before") :][:3] == ["download_before", "setup", "running"]


def test_many_runs_at_once_wait_for_the_one_that_makes_it(cli: Cli, shop: Shop, project: Callable[[str], None]) -> None:
    project("  lab:\n    pip-packages: [gadget]\n")
    job = cli.json("run", "--setup", "lab", "--runs", "4", "use.py", env=shop)["job"]
    wait_until(lambda: cli.json("show", job)["state"] == "completed", 120)
    found = [setup_event(cli, f"run1.{child}")["found"] for child in (1, 2, 3, 4)]
    assert sorted(found) == [False, True, True, True]


def test_the_activate_lines_come_first(cli: Cli, project: Callable[[str], None]) -> None:
    project('  lab:\n    activate: export GREETING="good morning"\n')
    (cli.cwd / "go.sh").write_text("echo $GREETING $RUN_ARGS$\n")
    assert cli("run", "--setup", "lab", "go.sh", "to you").stdout.splitlines()[-1] == "good morning to you"
    project("  lab:\n    activate: module-that-is-not-there\n")
    assert cli("run", "--setup", "lab", "--wait", "go.sh", check=False).returncode == 127
    assert "activate lines of setup lab failed" in cli("logs", "run2").stdout
    assert "could not be started" in (why := cli("why", "run2").stdout) and "activate lines of setup lab failed" in why
    project("  lab:\n    activate: exit 9\n")
    assert cli("run", "--wait", "--setup", "lab", "true", check=False).returncode == 9
    assert "activate lines of setup lab failed, exit code 9" in cli("why", "run3").stdout


def test_a_package_that_does_not_exist_fails_the_run_with_what_pip_said(
    cli: Cli, shop: Shop, project: Callable[[str], None], tmp_path: Path
) -> None:
    project("  lab:\n    pip-packages: [doohickey]\n")
    (cli.cwd / "use.py").write_text("import doohickey; print(doohickey.VALUE)\n")
    cli("run", "--setup", "lab", "--wait", "use.py", env=shop, check=False, timeout=120)
    view = cli.json("show", "run1")
    assert view["state"] == "failed" and view["attempts"] == 1
    assert "setup lab could not be made" in view["message"]
    assert "No matching distribution found for doohickey" in view["message"]
    assert "doohickey" in cli("why", "run1").stdout
    make_wheel(tmp_path / "shop", "doohickey", "1", "VALUE = 'there now'\n")
    assert "there now" in cli("run", "--setup", "lab", "use.py", env=shop, timeout=120).stdout


def test_what_was_half_made_when_the_agent_was_killed_is_not_believed(
    cli: Cli, shop: Shop, project: Callable[[str], None], tmp_path: Path
) -> None:
    """What the dead agent had started ends with it, however long it would have taken."""
    project(f"  lab:\n    activate: '[ -e {tmp_path}/open ] || sleep 1000'\n    pip-packages: [gadget]\n")
    cli("run", "--setup", "lab", "-d", "use.py", env=shop)
    shelf = cli.home / "cache" / "setups"
    wait_until(lambda: _runs(cli.home, b"sleep"), 30, "it is being made")
    (tmp_path / "open").touch()
    (agent,) = cli.json("hub", "status")["agents"]
    os.kill(agent["pid"], signal.SIGKILL)
    assert not list(shelf.glob("*/made"))
    wait_until(lambda: not _runs(cli.home, b"sleep"), 10)
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed", 120)
    assert list(shelf.glob("*/made"))


def test_cancelling_a_run_ends_its_installation(
    cli: Cli, shop: Shop, project: Callable[[str], None], tmp_path: Path
) -> None:
    project("  lab:\n    activate: sleep 1000\n    pip-packages: [gadget]\n")
    cli("run", "--setup", "lab", "-d", "use.py", env=shop)
    wait_until(lambda: _runs(cli.home, b"sleep"), 30, "it is being made")
    cli("cancel", "run", "run1")
    wait_until(lambda: cli.json("show", "run1")["state"] == "cancelled", 30)
    wait_until(lambda: not _runs(cli.home, b"sleep"), 10, "nothing of it is left")


def _runs(home: Path, program: bytes) -> bool:
    """Whether that program runs there, as what a setup starts."""
    for pid in processes_of(home):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == program:
                return True
        except OSError:
            continue  # ended meanwhile
    return False


def test_the_version_installed_here_is_the_one_installed_there(
    cli: Cli, shop: Shop, project: Callable[[str], None], tmp_path: Path
) -> None:
    subprocess.run(["python3", "-m", "venv", str(tmp_path / "mine")], check=True)
    bin_dir = tmp_path / "mine" / "bin"
    subprocess.run([bin_dir / "pip", "install", "-q", "gadget==1.5"], check=True, env={**os.environ, **shop})
    active = {**shop, "VIRTUAL_ENV": str(tmp_path / "mine"), "PATH": f"{bin_dir}:{os.environ['PATH']}"}
    project("  lab:\n    pip-packages: ['gadget==*']\n")
    done = cli("run", "--setup", "lab", "use.py", env=active, timeout=120)
    assert "one and a half" in done.stdout and str(cli.home) in done.stdout
    project("  lab:\n    pip-packages: ['doohickey==*']\n")
    refused = cli("run", "--setup", "lab", "use.py", env=active, check=False)
    assert refused.returncode == 2 and "doohickey==* means the version installed here" in refused.stderr


def test_a_setup_that_is_not_there_is_told_at_once(cli: Cli, project: Callable[[str], None]) -> None:
    project("  laboratory:\n    python: '3.11'\n")
    done = cli("run", "--setup", "labratory", "use.py", check=False)
    assert done.returncode == 3 and "did you mean 'laboratory'?" in done.stderr
    assert cli.json("list", "runs") == []


def test_conda_packages_without_conda_are_a_clear_failure(cli: Cli, project: Callable[[str], None]) -> None:
    project("  lab:\n    conda-packages: [numpy]\n")
    bare = {"PATH": "/usr/bin:/bin"}
    cli("run", "--setup", "lab", "--wait", "echo", "hello", env=bare, check=False)
    assert "there is no conda, mamba or micromamba" in cli.json("show", "run1")["message"]


def test_an_index_that_needs_a_secret(cli: Cli, shop: Shop, project: Callable[[str], None]) -> None:
    """pip gets it; what pip says of it when it fails is covered."""
    project("  lab:\n    pip-packages: [gadget]\n  bad:\n    pip-packages: [nosuch]\n")
    env = {**shop, "TURNOUT_SECRET_SHOP": shop["PIP_FIND_LINKS"], "PIP_FIND_LINKS": ""}
    links = ("--env", "PIP_FIND_LINKS=secret:SHOP")
    assert "two" in cli("run", "--setup", "lab", *links, "use.py", env=env, timeout=120).stdout
    done = cli("run", "--wait", "--setup", "bad", *links, "use.py", env=env, timeout=120, check=False)
    why = cli("why", "run2").stdout
    assert done.returncode != 0 and "nosuch" in why
    assert "Looking in links: ****" in why and shop["PIP_FIND_LINKS"] not in why


@pytest.fixture
def conda(tmp_path: Path) -> dict[str, str]:
    """Real packages of conda in a channel of our own, and a `conda` that installs them."""
    channel, programs = tmp_path / "channel", tmp_path / "bin"
    records = [make_package(channel, "gadget", version, {"bin/gadget": f"#!/bin/sh\necho gadget {version}\n".encode()})
               for version in ("1.5", "2.0")]  # fmt: skip
    programs.mkdir()
    (programs / "conda").write_text(f'#!/bin/sh\nexec {sys.executable} -m turnout.testing.conda "$@"\n')
    (programs / "conda").chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    return {"CONDA_CHANNELS": make_channel(channel, records), "PATH": path, "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}


def test_packages_of_conda(cli: Cli, conda: dict[str, str], project: Callable[[str], None]) -> None:
    project("  lab:\n    conda-packages: [gadget=1.5]\n  new:\n    conda-packages: ['gadget>=1.5']\n")
    shell = ("sh", "-c", 'gadget; echo "$CONDA_PREFIX"')
    first, second = (cli("run", "--wait", "--setup", "lab", *shell, env=conda, timeout=120).stdout for _ in range(2))
    assert first.startswith("gadget 1.5\n") and first == second, "made once"
    assert [setup_event(cli, run)["found"] for run in ("run1", "run2")] == [False, True]
    assert cli("run", "--wait", "--setup", "new", "gadget", env=conda, timeout=120).stdout == "gadget 2.0\n"


def test_a_package_that_conda_does_not_have(cli: Cli, conda: dict[str, str], project: Callable[[str], None]) -> None:
    project("  lab:\n    conda-packages: [nosuch]\n")
    assert cli("run", "--wait", "--setup", "lab", "true", env=conda, timeout=120, check=False).returncode != 0
    assert "No candidates were found for nosuch" in cli("why", "run1").stdout
