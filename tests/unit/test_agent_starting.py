"""What a run finds in its environment: its parameters, and the GPUs it may see."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from turnout.agent import record
from turnout.agent.attempt import Attempt
from turnout.agent.contained import contain
from turnout.agent.container_command import Runtime
from turnout.agent.gpus import Gpus
from turnout.agent.rundir import RunDir, RunDirs
from turnout.agent.stage import fill
from turnout.agent.starting import make_order
from turnout.wire import nni
from turnout.wire.gpus import GpuFacts
from turnout.wire.messages import ContainerOrder, Grant, JobOrder


def job(**more: Any) -> JobOrder:
    plain: dict[str, Any] = {
        "job": 1, "experiment": "e", "workspace": "w", "kind": "command", "script": None,
        "script_path": None, "before": None, "after": [], "env": {}, "seconds": None, "grace": 1.0, "memory": None,
    }  # fmt: skip
    return JobOrder(**{**plain, **more})


@pytest.fixture
def directory(tmp_path: Path) -> RunDir:
    (tmp_path / "runs").mkdir()
    made = RunDir(f"{tmp_path}/runs/7.1")
    made.make()
    made.complete()
    return made


def attempt(directory: RunDir, name: str = "run7", params: dict[str, Any] | None = None, **more: Any) -> Attempt:
    grant = Grant(7, 1, name, 1, ["x"], params or {}, 1.0, 0, 0, **more)
    return Attempt(grant, [], directory)


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "params", "order", "number"),
    [
        ("run7.3", {"x": 1}, {"search": True}, 2),
        ("run7.3", {}, {"search": True}, 2),
        ("run7", {"x": 1}, {}, 0),
        ("run7.2", {"x": 1}, {}, 1),
    ],
)
def test_a_run_with_parameters_finds_them_in_files(
    name: str, params: dict[str, Any], order: dict[str, Any], number: int, directory: RunDir
) -> None:
    """One of a search, and one that was submitted with some: as a rerun, or through NNI's interface."""
    made = attempt(directory, name, params)
    fill(directory, made.grant, job(**order), None, None, lambda: True)  # type: ignore[arg-type]
    env = make_order(made, job(**order), gpus="").env
    assert json.loads(Path(env["TURNOUT_PARAMS_FILE"]).read_text()) == params
    told = json.loads(Path(env["NNI_SYS_DIR"], nni.PARAMETERS).read_text())
    assert (told["parameters"], told["parameter_id"], env["NNI_TRIAL_SEQ_ID"]) == (params, number, str(number))


@pytest.mark.parametrize("more", [{}, {"params": {"x": 1}, "script": True}])
def test_a_run_without_and_a_parent_script_find_none(more: dict[str, Any], directory: RunDir) -> None:
    made = attempt(directory, **more)
    assert not any(key.startswith(("NNI_", "TURNOUT_PARAMS_FILE")) for key in make_order(made, job(), gpus="").env)


def params_after(tamper: Callable[[Path], object], dirs: RunDirs, params: dict[str, Any] | None) -> list[Path]:
    """A trial, what it does with each of its files of parameters, then a run in the same directory: the files there."""
    for number, mine in enumerate([{"x": "first" * 9}, params], 1):
        directory = dirs.of(number, 1)
        dirs.make(directory)
        fill(directory, attempt(directory, params=mine).grant, job(), None, None, lambda: True)  # type: ignore[arg-type]
        if number == 1:
            for name in os.listdir(directory.track):
                tamper(Path(directory.track, name))
            record.tell(directory.ctl, {"exit": {}})
            Path(directory.output).touch(0o600)
            assert dirs.put_away(directory, is_bare=True), "it is used again"
    return sorted(Path(directory.track).iterdir())


@pytest.fixture
def dirs(tmp_path: Path) -> RunDirs:
    made = RunDirs(str(tmp_path))
    made.prepare()
    return made


def test_a_directory_that_is_used_again_has_the_new_ones(dirs: RunDirs) -> None:
    nnis, ours = params_after(lambda path: None, dirs, {"x": 2})
    assert json.loads(ours.read_text()) == {"x": 2}
    assert json.loads(nnis.read_text())["parameters"] == {"x": 2}


def test_a_run_without_finds_none_of_the_trial_before_it(dirs: RunDirs) -> None:
    assert params_after(lambda path: None, dirs, None) == []


@pytest.mark.parametrize("how", ["open", "linked", "readable", "large"])
def test_no_trial_reads_those_of_the_next(how: str, dirs: RunDirs, tmp_path: Path) -> None:
    with ExitStack() as held:
        kept: list[Any] = []
        tamper: dict[str, Callable[[Path], object]] = {
            "open": lambda path: kept.append(held.enter_context(path.open())),
            "linked": lambda path: os.link(path, tmp_path / path.name),
            "readable": lambda path: path.chmod(0o644),
            "large": lambda path: path.write_bytes(bytes(1 << 20)),
        }
        found = params_after(tamper[how], dirs, {"x": 2})
        assert [path.stat().st_mode & 0o777 for path in found] == [0o600] * 2
        assert [path.stat().st_nlink for path in found] == [1] * 2
        assert all("first" in file.read() for file in kept)
        assert all("2" in path.read_text() for path in found)


# --- GPUs -------------------------------------------------------------------------------------------------------------

VISIBLE = "CUDA_VISIBLE_DEVICES"


def test_who_asks_for_none_sees_none(directory: RunDir) -> None:
    assert make_order(attempt(directory), job(), gpus="nvidia").env[VISIBLE] == ""


@pytest.mark.parametrize(
    ("ours", "env", "expected"), [(None, {}, None), ("2,3", {}, "2,3"), ("2,3", {VISIBLE: "2"}, None)]
)
def test_whose_gpus_are_not_managed_sees_what_its_submitter_or_we_may_see(
    ours: str | None, env: dict[str, str], expected: str | None, directory: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the submitter said is set for all runs of the job, and not once more."""
    monkeypatch.delenv(VISIBLE, raising=False)
    if ours is not None:
        monkeypatch.setenv(VISIBLE, ours)
    assert make_order(attempt(directory), job(sees_gpus=True, env=env), gpus="nvidia").env.get(VISIBLE) == expected


def test_in_a_container_it_is_given_all_of_them(directory: RunDir, tmp_path: Path) -> None:
    made = attempt(directory)
    made.runtime = Runtime("/usr/bin/podman", "podman")
    order = job(sees_gpus=True, container=ContainerOrder(image="i", options=[], program="podman", pull="", network=""))
    gpus = Gpus([GpuFacts(str(number), uuid=f"GPU-{number}") for number in range(2)])
    plain = make_order(made, order, gpus="nvidia")
    argv = contain(plain, made, order, {}, root=str(tmp_path), sdk=f"{tmp_path}/sdk", gpus=gpus).argv
    assert VISIBLE not in plain.env and {"nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1"} <= set(argv)
