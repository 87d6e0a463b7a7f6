"""A target whose provider cannot be made now, for a secret is missing or a package broken: that harms nothing else."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.harness import Cli, install_provider, wait_until

NOT_FOUND = 3
KEY = {"TURNOUT_SECRET_CLOUD_KEY": "x"}
#: Longer than a lease and what is added to it.
SILENCE = 5.0


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, str]:
    return install_provider(tmp_path / "packages", "cray")


@pytest.fixture
def owner(cli: Cli) -> Cli:
    """A user whose own settings have the target ``far``, which needs a secret."""
    cli.home.mkdir(parents=True)
    (cli.home / "config.yaml").write_text(
        "external-services: {account: {type: cray, key: secret:CLOUD_KEY}}\n"
        "compute-targets: {far: {service: account}}\n"
    )
    return cli


def replace_hub(cli: Cli, env: dict[str, str]) -> None:
    """It is killed; the next one is there for longer than a lease."""
    os.kill(cli.json("hub", "status")["pid"], signal.SIGKILL)
    cli("list", "runs", env=env)
    wait_until(lambda: cli.json("hub", "status", env=env)["uptime"] > SILENCE, 30.0)


def start_gated(cli: Cli, gate: Path, env: dict[str, str]) -> str:
    script = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    (name,) = cli.json("run", "-d", "--target", "far", "sh", "-c", script, env=env)["runs"]
    wait_until(lambda: cli.json("show", name, env=env)["state"] == "running", 30.0)
    return str(name)


def test_a_missing_secret_keeps_no_hub_from_starting(owner: Cli, packages: dict[str, str]) -> None:
    assert "goes on" in owner("run", "echo", "goes on", env=packages).stdout
    refused = owner("run", "--target", "far", "true", env=packages, check=False)
    assert refused.returncode == NOT_FOUND and "turnout secret set CLOUD_KEY" in refused.stderr
    assert "target far is not served: no secret 'CLOUD_KEY'" in (owner.home / "logs" / "hub.log").read_text()
    owner("secret", "set", "CLOUD_KEY", "--from-stdin", input="x")
    assert owner.json("run", "--wait", "--target", "far", "true", env=packages)["state"] == "completed"


def test_runs_outlive_a_hub_whose_successor_lacks_the_secret(
    owner: Cli, packages: dict[str, str], tmp_path: Path
) -> None:
    name = start_gated(owner, tmp_path / "go", {**packages, **KEY})
    replace_hub(owner, packages)
    (tmp_path / "go").touch()
    view = wait_until(lambda: owner.json("show", name)["state"] != "running" and owner.json("show", name), 30.0)
    assert (view["state"], view["attempts"]) == ("completed", 1)


def test_runs_outlive_an_upgrade_that_broke_their_provider(
    owner: Cli, packages: dict[str, str], tmp_path: Path
) -> None:
    env = {**packages, **KEY, "PYTHONDONTWRITEBYTECODE": "1"}
    name = start_gated(owner, tmp_path / "go", env)
    module = tmp_path / "packages" / "far.py"
    sound = module.read_text()
    module.write_text("import no_such_library_anywhere\n")
    replace_hub(owner, env)
    trouble = owner.json("list", "targets", env=env)
    assert "the provider 'cray' (far:Far) is broken" in str(trouble)
    (tmp_path / "go").touch()
    wait_until(lambda: owner.json("show", name, env=env)["state"] == "completed", 30.0)
    assert owner.json("show", name, env=env)["attempts"] == 1
    module.write_text(sound)
    assert owner.json("run", "--wait", "--target", "far", "true", env=env)["state"] == "completed"
