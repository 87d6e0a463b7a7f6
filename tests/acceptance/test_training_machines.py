"""The machines of ``machine_list``: a real SSH server that takes a password, through NNI's interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout
from tests import components
from tests.harness import Cli, user_environment
from tests.sshd import PASSWORD, USER, Box, running_box
from turnout.compat.nni import TrainingService, TrialJobApplicationForm, TrialJobStatus

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(150)]


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    with running_box(components.sshd()) as made:
        yield made


def test_a_machine_with_a_password_is_added_and_has_trials(
    cli: Cli, box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in user_environment(cli.home).items():
        monkeypatch.setenv(name, value)
    machine = {"ip": "127.0.0.1", "port": box.port, "username": USER, "passwd": PASSWORD}
    options = ["-F", "none", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"]
    service = TrainingService.on(
        "local", command="id -un", code_directory=str(cli.cwd), accept=lambda key: True, ssh_options=options,
        client=turnout.Client(cli.home),
    )  # fmt: skip

    async def drive() -> tuple[str, str]:
        await service.set_cluster_metadata("machine_list", json.dumps([machine]))
        trial = await service.submit_trial_job(TrialJobApplicationForm.of({"x": 1}))
        while not (detail := await service.get_trial_job(trial.id)).status.is_final:
            await asyncio.sleep(0.05)
        assert detail.status is TrialJobStatus.SUCCEEDED
        return trial.id, await service.get_cluster_metadata("machine_list")

    run, shown = asyncio.run(drive())
    assert (
        cli("logs", run).stdout == f"{USER}\n" and cli.json("show", run)["target"] == f"nni-127-0-0-1-{box.port}-{USER}"
    )
    assert "sesame" not in shown + (cli.home / "config.yaml").read_text()
