"""The machines of ``machine_list`` as boxes: added once, chosen by what they have to do, their GPUs told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from turnout.compat.nni import TrainingService
from turnout.compat.nni.cluster import Machines
from turnout.compat.nni.machines import read_machines
from turnout.config import secrets
from turnout.errors import Denied, InvalidInput

LIST = '[{"ip": "10.0.0.1", "username": "me", "sshKeyPath": "/key"}, {"ip": "10.0.0.2", "port": 2222}]'


class Hub:
    """What a client would answer."""

    def __init__(self) -> None:
        self.added: list[tuple[str, str, dict[str, Any]]] = []
        self.told: dict[str, list[dict[str, Any]]] = {}

    def boxes(self) -> list[dict[str, Any]]:
        return [{"name": name} for name, _, _ in self.added]

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
        ("nni-10-0-0-1-22", "me@10.0.0.1", {"port": 22, "ssh_options": ["-i", "/key"]}),
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
    assert more[kind] == f"secret:NNI_A_22_{kind.upper()}" and secrets.resolve(more[kind]) == "hunter2"
    assert "hunter2" not in shown


def test_the_one_with_the_fewest_trials_is_chosen() -> None:
    made = machines(Hub())
    made.add(read_machines(LIST))
    one, two = "nni-10-0-0-1-22", "nni-10-0-0-2-2222"
    assert made.choose([]) == one
    assert made.choose([view("run1", one), view("run2", two, "completed")]) == two


def test_reserved_gpus_are_told() -> None:
    hub = Hub()
    made = machines(hub)
    made.add(read_machines(LIST))
    one = "nni-10-0-0-1-22"
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
    from turnout.compat.nni import HyperParameters, TrialJobApplicationForm

    async def main(form: TrialJobApplicationForm, command: str) -> None:
        service = TrainingService.on("local", command=command, client=Hub())  # type: ignore[arg-type]
        await service.submit_trial_job(form)

    with pytest.raises(InvalidInput, match="no command for trials") as caught:
        asyncio.run(main(TrialJobApplicationForm.of({}), ""))
    assert "trial_config" in caught.value.hint
    with pytest.raises(InvalidInput, match="no hyper parameters that can be read"):
        asyncio.run(main(TrialJobApplicationForm(hyper_parameters=HyperParameters("[1]")), "true"))
