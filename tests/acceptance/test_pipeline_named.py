"""What is said of a step before its runs are made, and pipelines that are called by a name of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.test_pipelines import run, written
from tests.harness import Cli, wait_until


@dataclass
class Going:
    """A pipeline that waits until it `goes`; the runs of its step ``turn`` are not made before."""

    job: str
    place: Path

    def go(self) -> None:
        (self.place / "go").touch()


def submitted(user: Cli, project: Path, place: Path, *options: str) -> Going:
    steps = {
        "fetch": {"command": f"while [ ! -e {place}/go ]; do sleep 0.02; done; touch {{output}}", "outputs": "fetched"},
        "split": {"command": "echo one > parts/a; echo two > parts/b", "needs": "fetch", "outputs": "parts/*"},
        "turn": {"command": "rev {file}", "each": "parts/*", "needs": ["split", "fetch"]},
    }
    told = user.json("pipeline", "-d", written(project, yaml.safe_dump(steps)), *options)
    return Going(told["job"], place)


@pytest.fixture
def going(user: Cli, project: Path, tmp_path: Path) -> Iterator[Going]:
    made = submitted(user, project, tmp_path)
    yield made
    made.go()
    user("attach", made.job, check=False)


# --- a step whose runs are not made yet -------------------------------------------------------------------------------


def test_a_step_without_runs_waits(user: Cli, going: Going) -> None:
    view = user.json("show", f"{going.job}.turn")
    assert (view["state"], view["runs"], view["counts"]) == ("queued", 0, {})
    (turn,) = (each for each in user.json("show", going.job)["steps"] if each["name"] == "turn")
    assert (turn["state"], turn["is_late"]) == ("queued", True)
    why = user("why", f"{going.job}.turn").stdout
    assert " is queued." in why and "Its runs are made when fetch, split are over." in why and "0 runs" not in why
    going.go()
    assert user.json("attach", f"{going.job}.turn")["counts"] == {"completed": 2}


def test_it_is_found_by_its_name(user: Cli, project: Path, tmp_path: Path, going: Going) -> None:
    """Also when there are runs of an earlier pipeline that are called so."""
    assert user.json("why", "turn")["job"] == view_of(user, going, "turn")["name"]
    going.go()
    user.json("attach", going.job)
    assert user.json("why", "turn")["state"] == "completed"
    place = tmp_path / "again"
    place.mkdir()
    again = submitted(user, project, place)
    assert user.json("why", "turn")["job"] == view_of(user, again, "turn")["name"]
    assert user.json("list", "runs", "turn") == []
    again.go()
    assert user.json("attach", f"{again.job}.turn")["counts"] == {"completed": 2}


def view_of(user: Cli, going: Going, step: str) -> dict[str, Any]:
    found: dict[str, Any] = user.json("show", f"{going.job}.{step}")
    return found


def finished(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=30)
    return process.returncode, output.decode(), errors.decode()


def test_one_may_wait_for_it_from_the_beginning(user: Cli, going: Going) -> None:
    step = f"{going.job}.turn"
    attached, waiting = user.start("attach", step), user.start("attach", "--json", step)
    wait_until(lambda: user.json("show", step)["state"] == "queued")
    with pytest.raises(subprocess.TimeoutExpired):
        attached.wait(1.0)
    assert waiting.poll() is None
    going.go()
    code, output, errors = finished(attached)
    assert code == 0 and sorted(line.split(" | ")[1] for line in output.splitlines()) == ["eno", "owt"], errors
    assert "2 completed" in errors
    code, output, errors = finished(waiting)
    assert code == 0 and '"completed": 2' in output, errors


def test_it_is_over_when_it_is_given_up(user: Cli, going: Going) -> None:
    attached = user.start("attach", f"{going.job}.turn")
    with pytest.raises(subprocess.TimeoutExpired):
        attached.wait(1.0)
    user("cancel", "job", going.job)
    code, output, errors = finished(attached)
    assert (code, output) == (1, "") and "cancelled" in errors


# --- a name of its own ------------------------------------------------------------------------------------------------


def test_a_pipeline_is_called_by_its_name(user: Cli, project: Path) -> None:
    view = run(user, written(project, "{a: {command: 'echo a'}, b: {command: 'echo b', needs: a}}"), "--name", "mine")
    job = view["name"]
    assert user.json("show", "mine")["name"] == user.json("attach", "mine")["name"] == job
    assert user.json("why", "mine") == user.json("why", job)
    assert user.json("events", "mine") == user.json("events", job)
    assert user.json("list", "runs", "mine") == user.json("list", "runs", job)
    assert user("attach", "mine").stderr == user("attach", job).stderr
    assert user("show", "mine").stdout == user("show", job).stdout


def test_the_newest_of_a_name_is_meant(user: Cli, project: Path) -> None:
    user("run", "--name", "both", "echo", "first")
    view = run(user, written(project, "{a: {command: 'echo a'}}"), "--name", "both")
    assert user.json("show", "both")["name"] == user.json("why", "both")["job"] == view["name"]
    assert [each["label"] for each in user.json("list", "runs", "both")] == ["a"]
    user("run", "--name", "both", "echo", "last")
    assert user("logs", "both").stdout == "last\n"


def test_its_output_is_that_of_its_runs(user: Cli, project: Path) -> None:
    view = run(user, written(project, "{a: {command: 'echo a'}, b: {command: 'echo b', needs: a}}"), "--name", "tale")
    for name in ("tale", view["name"]):
        done = user("logs", name, check=False)
        assert done.returncode == 3 and f"{name} is a job, and no run" in done.stderr, done.stderr
        assert f"turnout list runs {view['name']}" in done.stderr


def test_a_name_that_nothing_has(user: Cli) -> None:
    for command in ("show", "why", "attach", "logs"):
        done = user(command, "nothing", check=False)
        assert done.returncode == 3 and "no run 'nothing'" in done.stderr
