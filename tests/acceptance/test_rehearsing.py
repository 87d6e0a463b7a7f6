"""A dry run refuses what a submission would refuse; it starts no hub and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Cli, install_provider, processes_of

USAGE, NOT_FOUND = 2, 3


def dry(cli: Cli, *words: str) -> tuple[int, str]:
    done = cli("run", "--dry-run", *words, check=False)
    return done.returncode, done.stderr


def test_a_provider_that_is_not_installed(cli: Cli) -> None:
    (cli.cwd / "turnout.yaml").write_text("compute-targets: {mine: {service: cray}}\n")
    code, said = dry(cli, "--target", "mine", "true")
    assert code == NOT_FOUND and "no compute provider 'cray'" in said and "installed: local" in said
    assert dry(cli, "true")[0] == 0, "it is no target of this run"


def test_a_secret_that_is_nowhere(cli: Cli, tmp_path: Path) -> None:
    assert "turnout secret set TOKEN" in dry(cli, "--env", "T=secret:TOKEN", "true")[1]
    (cli.cwd / "turnout.yaml").write_text(
        "external-services: {account: {type: cray, key: secret:CLOUD_KEY}}\ncompute-targets: {x: {service: account}}\n"
    )
    env = install_provider(tmp_path / "packages", "cray")
    words = ("run", "--dry-run", "--target", "x", "true")
    done = cli(*words, env=env, check=False)
    assert done.returncode == NOT_FOUND and "turnout secret set CLOUD_KEY" in done.stderr
    cli(*words, env={**env, "TURNOUT_SECRET_CLOUD_KEY": "x"})


def test_a_share_is_looked_for_where_a_hub_runs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "cat.txt").write_text("cat\n")
    plan = cli.json("run", "--dry-run", "--data", "pets", "true")
    assert plan["notes"] == ["shares were not looked at: no hub is running"]
    assert "shares were not looked at" in cli("run", "--dry-run", "--data", "pets", "true").stdout
    assert not cli.home.exists() and not processes_of(cli.home), "nothing was started or made for it"
    cli("upload", str(tmp_path / "cat.txt"), "--share", "pets")
    assert cli.json("run", "--dry-run", "--data", "pets/cat.txt", "true")["notes"] == []
    assert dry(cli, "--data", "cats", "true")[1].startswith("turnout: no share 'cats'")
    code, said = dry(cli, "--model", "pets/dog.txt", "true")
    assert code == NOT_FOUND and "no 'dog.txt' in share 'pets'" in said
    (cli.cwd / "turnout.yaml").write_text("data: {share: nope}\n")
    assert dry(cli, "true")[0] == NOT_FOUND
    assert cli.json("list", "runs") == []


@pytest.mark.parametrize("words", [("--priority", "99999999", "true"), ("--tag", "1=x", "true"), ("--name", "..", "x")])
def test_what_the_hub_would_refuse(cli: Cli, words: tuple[str, ...]) -> None:
    assert dry(cli, *words)[0] == USAGE
