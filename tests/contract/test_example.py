"""The provider in examples/, as anybody's package: installed, found, checked, and used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Cli

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "turnout-provider-nice"

pytestmark = pytest.mark.xdist_group("example provider")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which the installed package is found. What pip needs to build it, it fetches."""
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run([*argv, "--target", str(folder), str(EXAMPLE)], capture_output=True, text=True, timeout=110)
    if done.returncode != 0 and not os.environ.get("CI"):
        pytest.skip(f"it cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": str(folder)}


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLE), "tests"]
    env = {**os.environ, **installed}
    done = subprocess.run(argv, cwd=EXAMPLE, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout


def test_turnout_finds_and_uses_it(installed: dict[str, str], cli: Cli) -> None:
    (nice,) = [each for each in cli.json("provider", "list", env=installed) if each["name"] == "nice"]
    assert (nice["package"], nice["version"]) == ("turnout-provider-nice", "1.0")
    (cli.cwd / "turnout.yaml").write_text("compute-targets: {background: {service: nice, level: 7}}\n")
    assert cli("config", "check", env=installed).returncode == 0
    done = cli("run", "--target", "background", "sh", "-c", "echo niceness $(nice)", env=installed)
    assert "niceness 7" in done.stdout


def test_a_key_it_does_not_take_is_refused(installed: dict[str, str], cli: Cli) -> None:
    (cli.cwd / "turnout.yaml").write_text("compute-targets: {background: {service: nice, levle: 7}}\n")
    done = cli("config", "check", env=installed, check=False)
    assert done.returncode == 2 and "level" in done.stdout
