"""The scripts that schedulers get, to the letter: 4 processors with 2 GB each, for 5 hours and 59 minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from turnout.plugin.batch import Batch, BatchProvider
from turnout.plugin.batch_units import clock, megabytes
from turnout.plugin.provider import Failure, Launch, Need
from turnout.providers.pbs import PbsProvider
from turnout.providers.sge import SgeProvider
from turnout.providers.slurm import SlurmProvider

GOLDEN = Path(__file__).parent / "golden"
NEED = Need(cpus=4, memory=4 * (2 << 30), seconds=5 * 3600 + 59 * 60)
LAUNCH = Launch("0123456789abcdef" * 2, "node", "nodes/1", (), b"{}", need=NEED)
SAID = {"raw-options": ["-m n"], "setup-lines": ["module load python/3.12"]}


def provider(name: str, **more: object) -> BatchProvider:
    made: dict[str, BatchProvider] = {
        "slurm": SlurmProvider({"partition": "long", "account": "lab", "qos": "high", "constraint": "avx", **more}),
        "sge": SgeProvider({"queue": "long.q", "project": "lab", **more}),
        "pbs": PbsProvider({"queue": "workq", "account": "lab", **more}),
        "torque": PbsProvider({"queue": "batch", "account": "lab", "family": "torque", **more}),
    }
    return made[name]


def batch(scheduler: BatchProvider, *launches: Launch) -> Batch:
    return Batch(scheduler.name_of(launches[0].token), "/shared/my jobs", launches)


@pytest.mark.parametrize("name", ["slurm", "sge", "pbs", "torque"])
def test_the_script_of_one_agent(name: str) -> None:
    scheduler = provider(name, **SAID)
    assert scheduler.render(batch(scheduler, LAUNCH)) == (GOLDEN / f"{name}.sh").read_text()


@pytest.mark.parametrize(
    ("name", "line"),
    [("slurm", "#SBATCH --array=1-3"), ("sge", "#$ -t 1-3"), ("pbs", "#PBS -J 1-3"), ("torque", "#PBS -t 1-3")],
)
def test_several_are_an_array(name: str, line: str) -> None:
    scheduler = provider(name)
    script = scheduler.render(batch(scheduler, LAUNCH, LAUNCH, LAUNCH))
    assert line in script.splitlines()
    one = set(scheduler.render(batch(scheduler, LAUNCH)).splitlines())
    rerun = {"#PBS -r y"} if name == "pbs" else set()  # it takes no other arrays
    assert set(script.splitlines()) - one == {line} | rerun


@pytest.mark.parametrize("name", ["slurm", "sge", "pbs", "torque"])
def test_nothing_is_asked_for_that_nobody_needs(name: str) -> None:
    scheduler = provider(name)
    script = scheduler.render(batch(scheduler, replace(LAUNCH, need=Need())))
    for word in ("mem", "h_vmem", "gpu", "time=", "h_rt", "cpus-per-task", "-pe"):
        assert word not in script


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("slurm", "#SBATCH --gpus-per-node=2"),
        ("sge", "#$ -l gpu=2"),
        ("pbs", "#PBS -l select=1:ncpus=1:ngpus=2"),
        ("torque", "#PBS -l nodes=1:ppn=1:gpus=2"),
    ],
)
def test_gpus(name: str, line: str) -> None:
    scheduler = provider(name)
    assert line in scheduler.render(batch(scheduler, replace(LAUNCH, need=Need(gpus=2)))).splitlines()


@pytest.mark.parametrize("name", ["slurm", "sge", "pbs", "torque"])
@pytest.mark.parametrize("said", [{"raw-options": ["-m n\nrm -rf ~"]}, {"account": "lab\nid", "project": "lab\nid"}])
def test_no_option_becomes_a_command(name: str, said: dict[str, object]) -> None:
    scheduler = provider(name, **said)
    with pytest.raises(Failure, match="several lines") as failed:
        scheduler.render(batch(scheduler, LAUNCH))
    assert failed.value.kind == "rejected"


def test_sizes_and_times_are_rounded_up() -> None:
    assert (megabytes(1), megabytes(1 << 20), megabytes((1 << 20) + 1)) == (1, 1, 2)
    assert (clock(1), clock(60), clock(61), clock(90 * 3600)) == ("00:01:00", "00:01:00", "00:02:00", "90:00:00")


@pytest.mark.parametrize("name", ["slurm", "sge", "pbs", "torque"])
def test_a_token_is_in_the_name_of_its_job(name: str) -> None:
    assert LAUNCH.token[:12] in provider(name).name_of(LAUNCH.token)


@pytest.mark.parametrize(
    ("seconds", "slurm", "sge"),
    [(3600.0, "@120", "00:58:00"), (600.0, "@30", "00:09:30"), (60.0, "@3", "00:00:57"), (90.0, "@4", "00:01:26")],
)
def test_who_has_little_time_is_warned_late(seconds: float, slurm: str, sge: str) -> None:
    need = Need(seconds=seconds)
    scripts = [each.render(batch(each, replace(LAUNCH, need=need))) for each in (provider("slurm"), provider("sge"))]
    assert f"--signal=B:TERM{slurm}\n" in scripts[0] and f"s_rt={sge}\n" in scripts[1]
