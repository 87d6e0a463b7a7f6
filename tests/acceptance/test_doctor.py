"""``turnout doctor`` where something is broken: it is told, a provider with its traceback, and harms nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cli, install_provider

BROKEN = {
    "import": "import no_such_module\n",
    "constructor": (
        "from turnout.providers.local import LocalProvider\n"
        "class Far(LocalProvider):\n"
        "    Settings = None\n"
        "    def __init__(self, settings):\n"
        "        raise RuntimeError('half built')\n"
    ),
    "check": (
        "from turnout.providers.local import LocalProvider\n"
        "class Far(LocalProvider):\n"
        "    Settings = None\n"
        "    def check(self):\n"
        "        return {}['nothing']\n"
    ),
}
TOLD = {"import": "no_such_module", "constructor": "RuntimeError: half built", "check": "KeyError: 'nothing'"}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_provider_is_told_with_its_traceback(cli: Cli, tmp_path: Path, how: str) -> None:
    env = install_provider(tmp_path / "packages", "far")
    (tmp_path / "packages/far.py").write_text(BROKEN[how])
    cli.home.mkdir(parents=True)
    (cli.home / "config.yaml").write_text("compute-targets: {bad: {service: far}}\n")
    done = cli("doctor", "bad", check=False, env=env)
    assert done.returncode == 1
    assert "Traceback" in done.stdout and TOLD[how] in done.stdout and "far.py" in done.stdout
    whole = cli.json("doctor", "local", env=env)
    assert {each["level"] for each in whole} == {"ok"}
    assert cli("run", "--wait", "echo", "well", env=env).stdout == "well\n"


def test_all_targets_are_looked_at(cli: Cli) -> None:
    found = cli.json("doctor")
    assert any(each["target"] == "local" for each in found)


def test_settings_that_are_wrong_are_told_and_the_rest_is_looked_at(cli: Cli) -> None:
    (cli.cwd / "turnout.yaml").write_text("genral: {}\n")
    done = cli("doctor", check=False)
    assert done.returncode == 1 and "turnout.yaml:1" in done.stdout and "Python" in done.stdout


def test_keys_that_a_provider_does_not_take_are_told_with_their_line(cli: Cli) -> None:
    (cli.cwd / "turnout.yaml").write_text(
        "compute-targets:\n  one: {service: local, max-rnus: 1}\n  one2: {service: local}\n"
    )
    for names in ((), ("one",)):
        done = cli("doctor", *names, check=False)
        assert done.returncode == 1 and "turnout.yaml:2: unknown key 'max-rnus' in compute-targets.one" in done.stdout
    assert cli("doctor", "one2").returncode == 0
