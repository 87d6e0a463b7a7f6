"""The machines of ``machine_list`` as boxes: added once, chosen by what they have to do, their GPUs told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from turnout.client.boxes import NewBox
from turnout.compat.nni import HyperParameters, TrainingService, TrialJobApplicationForm
from turnout.compat.nni.cluster import Machines
from turnout.compat.nni.machines import read_machines
from turnout.config import secrets
from turnout.errors import Conflict, Denied, InvalidInput
from turnout.model.spec import Resources

LIST = '[{"ip": "10.0.0.1", "username": "me", "sshKeyPath": "/key"}, {"ip": "10.0.0.2", "port": 2222}]'


class Hub:
    """What a client would answer."""

    def __init__(self) -> None:
        self.added: list[tuple[str, str, dict[str, Any]]] = []
        self.told: dict[str, list[dict[str, Any]]] = {}

    def boxes(self) -> list[dict[str, Any]]:
        made = [NewBox(name=name, address=address, **more) for name, address, more in self.added]
        return [{"name": each.name, "address": each.address, "settings": each.entry()} for each in made]

    def add_box(self, name: str, address: str, *, accept: Any, **more: Any) -> None:
        if not accept("key"):
            raise Denied("the key was not accepted")
        self.added.append((name, address, more))

    def events(self, name: str) -> list[dict[str, Any]]:
        return self.told.get(name, [])


def machines(hub: Hub, accepts: bool = True) -> Machines:
    return Machines(hub, lambda _: accepts)  # type: ignore[arg-type]


def view(name: str, target: str, state: str = "running") -> dict[str, Any]:
    return {"name": name, "target": target, "state": state, "reason": None, "tags": {}}


def test_each_becomes_a_box_once() -> None:
    hub = Hub()
    made = machines(hub)
    assert not made
    shown = made.add(read_machines(LIST))
    made.add(read_machines(LIST))
    assert made and hub.added == [
        ("nni-10-0-0-1-22-me", "me@10.0.0.1", {"port": 22, "ssh_options": ["-i", "/key"]}),
        ("nni-10-0-0-2-2222", "10.0.0.2", {"port": 2222, "ssh_options": []}),
    ]
    assert [each["ip"] for each in json.loads(shown)] == ["10.0.0.1", "10.0.0.2"]


def test_no_key_is_believed_that_nobody_accepts() -> None:
    with pytest.raises(Denied):
        machines(Hub(), accepts=False).add(read_machines(LIST))


@pytest.mark.parametrize(("key", "kind"), [("passwd", "password"), ("passphrase", "passphrase")])
def test_what_opens_a_machine_is_kept_as_a_secret(
    key: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path))
    hub = Hub()
    shown = machines(hub).add(read_machines(f'[{{"ip": "a", "username": "me", "{key}": "hunter2"}}]'))
    ((_, _, more),) = hub.added
    assert more[kind] == f"secret:NNI_A_22_ME_{kind.upper()}" and secrets.resolve(more[kind]) == "hunter2"
    assert "hunter2" not in shown


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNOUT_HOME", str(tmp_path))
    return tmp_path


def listed(**more: object) -> str:
    return json.dumps([{"ip": "a", "username": "me", "passwd": "hunter2", **more}])


def test_a_box_that_is_refused_leaves_no_secret(home: Path) -> None:
    with pytest.raises(Denied):
        machines(Hub(), accepts=False).add(read_machines(listed()))
    assert secrets.known() == []


def test_another_password_takes_the_place_of_the_one_before(home: Path) -> None:
    hub = Hub()
    machines(hub).add(read_machines(listed()))
    machines(hub).add(read_machines(listed(passwd="swordfish")))
    ((_, _, more),) = hub.added
    assert secrets.resolve(more["password"]) == "swordfish"


def test_two_users_of_one_machine_have_a_box_each(home: Path) -> None:
    hub = Hub()
    made = machines(hub)
    made.add(read_machines(listed()))
    made.add(read_machines(listed(username="you", passwd="swordfish")))
    assert [(name, address) for name, address, _ in hub.added] == [("nni-a-22-me", "me@a"), ("nni-a-22-you", "you@a")]
    assert [secrets.resolve(more["password"]) for _, _, more in hub.added] == ["hunter2", "swordfish"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"sshKeyPath": "/other"}, "another ssh-options"),
        ({"passphrase": "x"}, "another passphrase"),
        ({"gpuIndices": [1]}, "another gpu-indices"),
        ({"ip": "a+"}, "another address"),
    ],
)
def test_a_box_of_that_name_that_is_another_is_told(change: dict[str, object], what: str, home: Path) -> None:
    """Rather than used as it is. What would have opened it is not kept."""
    hub = Hub()
    machines(hub).add(read_machines(listed(sshKeyPath="/key", gpuIndices="0")))
    with pytest.raises(Conflict, match=f"the box nni-a-22-me is there, with {what}") as caught:
        machines(hub).add(read_machines(listed(**{"sshKeyPath": "/key", "gpuIndices": "0", "passwd": "x", **change})))
    assert "turnout box remove nni-a-22-me" in caught.value.hint
    assert secrets.resolve("NNI_A_22_ME_PASSWORD") == "hunter2" and len(hub.added) == 1


def test_how_the_gpus_of_a_machine_are_used_is_said_of_its_box() -> None:
    hub = Hub()
    text = '[{"ip": "a", "gpuIndices": "0,2", "maxTrialNumPerGpu": 3, "useActiveGpu": true}]'
    shown = machines(hub).add(read_machines(text))
    ((_, _, more),) = hub.added
    assert (more["gpu_indices"], more["max_runs_per_gpu"], more["avoid_foreign_gpus"]) == ([0, 2], 3, False)
    assert json.loads(shown)[0]["gpuIndices"] == [0, 2]
    machines(hub).add(read_machines(text))
    assert len(hub.added) == 1


@pytest.mark.parametrize(
    "change", [{"gpuIndices": "x"}, {"maxTrialNumPerGpu": 0}, {"useActiveGpu": 1}, {"passwd": 5}, {"port": 1e999}]
)
def test_a_value_that_cannot_be_is_told_with_its_machine(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="machine 1 of machine_list: "):
        read_machines(json.dumps([{"ip": "a", **change}]))


@pytest.mark.parametrize(
    ("configs", "asked"),
    [
        ([{"gpuNum": 2, "cpuNum": 4, "memoryMB": 8192}], Resources(gpus=2, cpus=4, memory=8 << 30)),
        ([{"gpuNum": 1}, {"cpuNum": 2}], Resources(gpus=1, cpus=2)),
        ([{"gpuNum": 1, "cpuNum": 2}, {"gpuNum": 0, "cpuNum": 0}], Resources(gpus=0)),
        ([{"gpuNum": 1}, {"gpuNum": None}], Resources(gpus=1)),
    ],
)
def test_what_a_trial_needs_is_what_was_written_last(configs: list[dict[str, Any]], asked: Resources) -> None:
    class Asking(Hub):
        def runs(self, *_: object, **__: object) -> list[Any]:
            return []

        def submit_command(self, *_: object, **wishes: Any) -> None:
            self.told["wishes"] = [wishes]
            raise Conflict("it is not submitted")

    hub = Asking()

    async def main() -> None:
        service = TrainingService.on("local", command="true", client=hub)  # type: ignore[arg-type]
        for config in configs:
            await service.set_cluster_metadata("trial_config", json.dumps(config))
        with pytest.raises(Conflict):
            await service.submit_trial_job(TrialJobApplicationForm.of({"x": 1}))

    asyncio.run(main())
    assert hub.told["wishes"][0]["resources"] == asked


@pytest.mark.parametrize(
    "config", ['{"gpuNum": -1}', '{"cpuNum": "x"}', '{"memoryMB": 1e999}', "[", pytest.param("[" * 10_000, id="deep")]
)
def test_a_trial_config_that_cannot_be_is_told(config: str) -> None:
    async def main() -> None:
        service = TrainingService.on("local", client=Hub())  # type: ignore[arg-type]
        await service.set_cluster_metadata("trial_config", config)

    with pytest.raises(InvalidInput, match="trial_config cannot be read"):
        asyncio.run(main())


def test_the_one_with_the_fewest_trials_is_chosen() -> None:
    made = machines(Hub())
    made.add(read_machines(LIST))
    one, two = "nni-10-0-0-1-22-me", "nni-10-0-0-2-2222"
    assert made.choose([]) == one
    assert made.choose([view("run1", one), view("run2", two, "completed")]) == two


def test_reserved_gpus_are_told() -> None:
    hub = Hub()
    made = machines(hub)
    made.add(read_machines(LIST))
    one = "nni-10-0-0-1-22-me"
    hub.told["run1"] = [{"event": "started", "data": {}}, {"event": "running", "data": {"pid": 7, "gpus": ["0", "2"]}}]
    first, second = made.reserved([view("run1", one), view("run2", one, "completed"), view("run3", one)])
    assert first.gpu_reservation == {0: "run1", 2: "run1"} and second.gpu_reservation == {}


def test_what_was_set_is_shown_without_secrets() -> None:
    async def main() -> str:
        service = TrainingService.on("local", accept=lambda _: True, client=Hub())  # type: ignore[arg-type]
        await service.set_cluster_metadata("machine_list", LIST)
        await service.set_cluster_metadata("trial_config", '{"command": "true", "codeDir": ".", "gpuNum": 2}')
        with pytest.raises(InvalidInput, match="trial_config cannot be read"):
            await service.set_cluster_metadata("trial_config", "[]")
        assert await service.get_cluster_metadata("nothing") == ""
        return await service.get_cluster_metadata("machine_list")

    assert json.loads(asyncio.run(main()))[0] == {
        "ip": "10.0.0.1", "port": 22, "username": "me", "sshKeyPath": "/key",
    }  # fmt: skip


def test_a_service_without_a_command_says_how_to_give_one() -> None:
    async def main(form: TrialJobApplicationForm, command: str) -> None:
        service = TrainingService.on("local", command=command, client=Hub())  # type: ignore[arg-type]
        await service.submit_trial_job(form)

    with pytest.raises(InvalidInput, match="no command for trials") as caught:
        asyncio.run(main(TrialJobApplicationForm.of({}), ""))
    assert "trial_config" in caught.value.hint
    with pytest.raises(InvalidInput, match="no hyper parameters that can be read"):
        asyncio.run(main(TrialJobApplicationForm(hyper_parameters=HyperParameters("[1]")), "true"))
