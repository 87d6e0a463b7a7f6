"""Where the trials of an experiment's file of NNI run, and with which GPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.test_nni_experiments import V1, changed, folder, read
from turnout.client.search_file import from_mapping
from turnout.model.spec import Resources

__all__ = ["folder"]


def test_gpus_are_shared_as_written(folder: Path) -> None:
    service = {"platform": "local", "useActiveGpu": True, "maxTrialNumberPerGpu": 2, "gpuIndices": "0,2"}
    found = read(changed(trialGpuNumber=1, trainingService=service), folder)
    assert (found["gpus"], found["max-runs-per-gpu"], found["avoid-foreign-gpus"]) == (1, 2, False)
    assert found["gpu-indices"] == [0, 2]


def test_without_a_number_gpus_are_not_managed(folder: Path) -> None:
    """As NNI, which then leaves CUDA_VISIBLE_DEVICES alone; 0 hides them all."""
    found = read(changed(trainingService={"platform": "local", "gpuIndices": [1]}), folder)
    assert found["gpus"] == "unmanaged" and "gpu-indices" not in found
    assert any("trialGpuNumber: it is not written" in note for note in found["notes"])
    assert any("trainingService.gpuIndices: it has no meaning" in note for note in found["notes"])
    assert asked(changed(), folder) == Resources(sees_gpus=True)
    assert asked(changed(trialGpuNumber=0), folder) == Resources(gpus=0)


def asked(content: dict[str, Any], folder: Path) -> Resources:
    """What runs ask for, once the file's search is read as one of ours."""
    found = {key: value for key, value in read(content, folder).items() if key != "notes"}
    return from_mapping(found, folder).wish.resources


def test_machines_are_boxes(folder: Path) -> None:
    machines = [{"host": "a.lab", "user": "ada"}, {"host": "b.lab", "user": "ada", "port": 2222, "password": "x123"}]
    found = read(changed(trainingService={"platform": "remote", "machineList": machines}), folder)
    assert found["target"] == "a.lab,b.lab"
    command = "turnout box add --port 2222 --password-secret NNI_B_LAB_PASSWORD b.lab ada@b.lab"
    assert any(command in note for note in found["notes"])
    assert any("`turnout secret set NNI_B_LAB_PASSWORD`" in note for note in found["notes"])
    assert "x123" not in json.dumps(found)


def test_machines_on_one_host_are_told_apart(folder: Path) -> None:
    machines = [
        {"host": "a", "user": "ada"}, {"host": "a", "user": "ada", "port": 2222}, {"host": "a", "user": "eve"},
        {"host": "a", "user": "ada", "port": 22}, {"host": "a", "user": "eve", "port": 2222},
    ]  # fmt: skip
    found = read(changed(trainingService={"platform": "remote", "machineList": machines}), folder)
    assert found["target"] == "a,a-2222,a-22,eve@a-2222"
    assert any("`turnout box add --port 2222 a-2222 ada@a`" in note for note in found["notes"])


def with_machines(*machines: dict[str, Any]) -> dict[str, Any]:
    listed = [{"host": f"m{number}", "user": "ada", **each} for number, each in enumerate(machines, 1)]
    return changed(trialGpuNumber=1, trainingService={"platform": "remote", "machineList": listed})


def test_gpus_of_machines_that_all_say_the_same(folder: Path) -> None:
    same = {"gpuIndices": [0, 1], "maxTrialNumberPerGpu": 2, "useActiveGpu": True}
    found = read(with_machines(same, same), folder)
    assert (found["max-runs-per-gpu"], found["avoid-foreign-gpus"], found["gpu-indices"]) == (2, False, [0, 1])


def test_gpus_of_machines_that_differ_are_said_to_be_each_machines_own(folder: Path) -> None:
    found = read(with_machines({"gpuIndices": [0]}, {"gpuIndices": "1,2", "useActiveGpu": True}), folder)
    assert not found.keys() & {"max-runs-per-gpu", "avoid-foreign-gpus", "gpu-indices"}
    told = "\n".join(found["notes"])
    assert "machineList[0].gpuIndices: it is not the same for all machines: write `gpu-indices: [0]` for m1" in told
    assert "write `gpu-indices: [1, 2]` for m2" in told and "write `avoid-foreign-gpus: false` for m2" in told


def test_machines_of_version_1(folder: Path) -> None:
    machines = [{"ip": "10.1.1.1", "username": "ada", "sshKeyPath": "~/.ssh/lab"}]
    found = read(changed(V1, trainingServicePlatform="remote", machineList=machines), folder)
    assert found["target"] == "10.1.1.1" and "--ssh-option=~/.ssh/lab" in " ".join(found["notes"])
