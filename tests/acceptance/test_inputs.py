"""Data and model of a run: a read-only view, a copy of its own, or a directory that is there already."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, wait_until

LOOK = """
import json, os
def tree(top):
    found = {}
    for folder, folders, names in os.walk(top):
        for name in [*folders, *names]:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = oct(os.stat(path).st_mode & 0o777)
    return found
told = {}
for name in ("DATA", "MODEL"):
    path = os.environ.get(f"TURNOUT_{name}_DIR")
    assert path == os.environ.get(f"XT_{name}_DIR")
    if path:
        told[name] = {"path": path, "files": tree(path), "mode": oct(os.stat(path).st_mode & 0o777)}
print(json.dumps(told))
"""


@pytest.fixture
def pets(cli: Cli, tmp_path: Path) -> Path:
    """The share ``pets``, and the directory it was uploaded from. One run at a time is executed."""
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.yaml").write_text("compute-targets: {local: {max-runs: 1}}\n")
    data = tmp_path / "corpus"
    (data / "train").mkdir(parents=True)
    (data / "train" / "a.csv").write_text("1,2\n")
    (data / "labels.txt").write_text("cat\ndog\n")
    (data / "tool.sh").write_text("#!/bin/sh\necho tool\n")
    (data / "tool.sh").chmod(0o755)
    cli("upload", str(data), "--share", "pets")
    (cli.cwd / "look.py").write_text(LOOK)
    return data


def look(cli: Cli, *options: str) -> dict[str, Any]:
    """What a run with these options found."""
    return dict(json.loads(cli("run", *options, "look.py").stdout.splitlines()[-1]))


def test_a_mounted_share_is_a_read_only_view_made_once(cli: Cli, pets: Path) -> None:
    found = look(cli, "--data", "pets")
    assert found["DATA"]["files"] == {
        "train": "0o555",
        "train/a.csv": "0o444",
        "labels.txt": "0o444",
        "tool.sh": "0o555",
    }
    assert found["DATA"]["mode"] == "0o555"
    again = look(cli, "--data", "pets", "--model", "pets/train")
    assert again["DATA"]["path"] == found["DATA"]["path"]
    assert again["MODEL"]["files"] == {"a.csv": "0o444"}
    told = [event["data"] for event in cli.json("events", "run2") if event["event"] == "download_before"]
    assert told[0]["data"] == {"action": "mount", "files": 3, "found": True}


def test_a_downloaded_share_is_a_copy_of_the_runs_own(cli: Cli, pets: Path) -> None:
    found = look(cli, "--data", "pets/labels.txt", "--data-action", "download")
    assert found["DATA"]["files"] == {"labels.txt": "0o444"}
    (cli.cwd / "change.sh").write_text(
        "echo fish >> $TURNOUT_MODEL_DIR/labels.txt; mkdir $TURNOUT_MODEL_DIR/new; cat $TURNOUT_MODEL_DIR/labels.txt\n"
    )
    for _ in range(2):  # what one run changes, the next does not see
        done = cli("run", "--model", "pets", "--model-action", "download", "--model-writable", "change.sh")
        assert done.stdout.splitlines()[-3:] == ["cat", "dog", "fish"]
    wait_until(lambda: not list((cli.home / "nodes").glob("*/runs/*")), 20, "copies go with their runs")


def test_a_job_keeps_what_it_was_bound_to(cli: Cli, pets: Path) -> None:
    """Changed or deleted, the share is what it was for a job that was submitted before."""
    (cli.cwd / "read.sh").write_text("while [ ! -e $1/go ]; do sleep 0.05; done; cat $TURNOUT_DATA_DIR/labels.txt\n")
    gate = cli.cwd.parent / "gate"
    gate.mkdir()
    cli("run", "-d", "--data", "pets", "--retry", "1", "read.sh", str(gate))
    cli("run", "-d", "--data", "pets/labels.txt", "read.sh", str(gate))  # waits for the first
    (pets / "labels.txt").write_text("nothing\n")
    cli("upload", str(pets / "labels.txt"), "--share", "pets")
    cli("delete", "share", "pets")
    (gate / "go").touch()
    for run in ("run1", "run2"):
        wait_until(lambda run=run: cli.json("show", run)["state"] == "completed", 30)  # type: ignore[misc]
        assert cli("logs", run).stdout == "cat\ndog\n"
    cli("rerun", "run1")
    wait_until(lambda: cli.json("show", "run3")["state"] == "completed", 30)
    assert cli("logs", "run3").stdout == "cat\ndog\n", "and when it is run again, too"


def test_a_view_that_a_run_spoiled_is_made_anew(cli: Cli, pets: Path) -> None:
    path = Path(look(cli, "--data", "pets")["DATA"]["path"])
    victim = path / "labels.txt"
    victim.chmod(0o644)
    victim.write_text("spoiled!")  # of the same length
    found = cli("run", "--data", "pets", "bash", "-c", "cat $TURNOUT_DATA_DIR/labels.txt")
    assert found.stdout.splitlines()[-2:] == ["cat", "dog"]


def test_a_view_that_is_half_made_is_not_believed(cli: Cli, pets: Path) -> None:
    """As a kill in the middle leaves it: without its mark."""
    path = Path(look(cli, "--data", "pets")["DATA"]["path"])
    (path.parent / "made").unlink()
    path.chmod(0o755)
    (path / "labels.txt").unlink()
    found = look(cli, "--data", "pets")
    assert "labels.txt" in found["DATA"]["files"]


def test_without_a_share_a_directory_of_this_machine_is_named(cli: Cli, pets: Path) -> None:
    found = look(cli, "--data-local", str(pets))
    assert found["DATA"]["path"] == str(pets)
    (cli.cwd / "turnout.yaml").write_text(
        f"data:\n  local: {pets}\nmodel:\n  share: pets\n  path: train\n  action: mount\n"
    )
    found = look(cli)
    assert found["DATA"]["path"] == str(pets) and found["MODEL"]["files"] == {"a.csv": "0o444"}


def test_a_share_of_the_settings_is_mounted_unless_they_say_otherwise(cli: Cli, pets: Path) -> None:
    (cli.cwd / "turnout.yaml").write_text("data: {share: pets}\n")
    assert "labels.txt" in look(cli)["DATA"]["files"]
    assert cli.json("run", "--dry-run", "true")["data"]["action"] == "mount"
    assert look(cli, "--data-local", str(pets))["DATA"]["path"] == str(pets), "a directory named here wins"
    (cli.cwd / "turnout.yaml").write_text("data: {share: pets, action: none}\n")
    assert cli.json("run", "--dry-run", "true")["data"] is None
    assert "labels.txt" in look(cli, "--data", "pets")["DATA"]["files"], "a share named here is wanted"


@pytest.mark.parametrize("kind", ["data", "model"])
def test_none_means_nothing(cli: Cli, pets: Path, kind: str) -> None:
    tell = f"echo [$TURNOUT_{kind.upper()}_DIR]"
    assert cli("run", f"--{kind}", "pets", f"--{kind}-action", "none", "sh", "-c", tell).stdout == "[]\n"
    assert cli("run", f"--{kind}", "pets", "sh", "-c", tell).stdout != "[]\n"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--data", "cats"), 3, "no share 'cats'"),
        (("--data", "pets/nowhere"), 3, "no 'nowhere' in share 'pets'"),
        (("--data-action", "mount"), 2, "data: action mount needs a share"),
        (("--model", "pets", "--model-writable"), 2, "cannot be writable"),
        (("--data-local", "/nowhere/at/all"), 2, "/nowhere/at/all is no directory"),
    ],
)
def test_what_cannot_be_had_is_told_before_anything_is_submitted(
    cli: Cli, pets: Path, options: tuple[str, ...], code: int, said: str
) -> None:
    done = cli("run", *options, "look.py", check=False)
    assert done.returncode == code and said in done.stderr
    assert cli.json("list", "runs") == []


def test_a_directory_that_went_away_fails_its_run_with_a_reason(cli: Cli, pets: Path, tmp_path: Path) -> None:
    (tmp_path / "soon-gone").mkdir()
    cli("run", "-d", "bash", "-c", "while [ -e $0 ]; do sleep 0.05; done", str(tmp_path / "soon-gone"))
    cli("run", "-d", "--data-local", str(tmp_path / "soon-gone"), "look.py")
    (tmp_path / "soon-gone").rmdir()
    wait_until(lambda: cli.json("show", "run2")["state"] == "failed", 30)
    assert "soon-gone, which is no directory on this node" in cli.json("show", "run2")["message"]


def test_links_stay_links_and_nothing_is_written_through_them(cli: Cli, pets: Path) -> None:
    os.symlink("labels.txt", pets / "names")
    cli("upload", str(pets), "--share", "pets")
    path = Path(look(cli, "--data", "pets")["DATA"]["path"])
    assert os.readlink(path / "names") == "labels.txt"
    assert stat.S_IMODE((path / "labels.txt").stat().st_mode) == 0o444
