"""Schedulers, through the provider of each: what all of them have in common. The daemons are real ones."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests import components, gridengine
from tests.batching import Site, is_alive
from tests.gridengine import running_gridengine
from tests.harness import wait_until
from tests.slurm import running_cluster
from turnout.plugin.batch import BatchProvider
from turnout.plugin.provider import Failure, Need, Phase
from turnout.providers.pbs import PbsProvider
from turnout.providers.sge import SgeProvider
from turnout.providers.slurm import SlurmProvider
from turnout.testing import pbs

pytestmark = [pytest.mark.timeout(120)]


_NAMES = ("slurm", "gridengine", "pbs", "torque")


@dataclass(frozen=True)
class Scheduler:
    provider: type[BatchProvider]
    hold: str
    settings: Mapping[str, object] = field(default_factory=dict)


_SCHEDULERS = {
    "slurm": Scheduler(SlurmProvider, "--hold"),
    "gridengine": Scheduler(SgeProvider, "-h"),
    "pbs": Scheduler(PbsProvider, "-h"),
    "torque": Scheduler(PbsProvider, "-h", {"family": "torque"}),
}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in _NAMES])
def scheduler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scheduler]:
    """Its daemons run, and its commands find them. There is no PBS to be had: its commands are ours."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if request.param == "slurm":
            components.slurm()
            environment = stack.enter_context(running_cluster()).environment
        elif request.param == "gridengine":
            components.gridengine()
            stack.enter_context(running_gridengine())
            environment = gridengine.ENVIRONMENT
        else:
            family = "torque" if request.param == "torque" else "pro"
            path = pbs.install(tmp_path_factory.mktemp("pbs"), family)
            environment = {"PATH": f"{path}:{os.environ['PATH']}"}
        for name, value in environment.items():
            patch.setenv(name, value)
        yield _SCHEDULERS[request.param]


@pytest.fixture
def site(scheduler: Scheduler, tmp_path: Path) -> Iterator[Site]:
    settings = {"directory": str(tmp_path / "shared"), "nodes_directory": str(tmp_path), **scheduler.settings}
    made = Site.of(scheduler.provider(settings), scheduler.hold)
    yield made
    made.provider.rest()


def test_one_launch_is_a_job_that_runs_the_program(site: Site) -> None:
    launch = site.launch(env={"SAID": 'it\'s "so"\n$HOME `x` é'}, payload="\u2603 'q'\n", stays=True)
    (handle,) = site.submit(launch)
    told = site.wait_started(launch)
    site.let_go([launch])
    assert told["order"]["payload"] == "\u2603 'q'\n" and told["environment"]["SAID"] == 'it\'s "so"\n$HOME `x` é'
    assert told["cwd"] == str(site.root)
    seen = site.wait_gone(handle)
    assert (seen.exit_code, seen.reason, seen.id) == (0, "", handle)
    assert (site.root / launch.directory / "agent.log").read_text() == f"hello from {launch.directory}\n"


def test_many_launches_of_equal_need_are_one_array(site: Site) -> None:
    launches = [site.launch(code=number % 3 + 1, number=number) for number in range(20)]
    handles = site.submit(*launches)
    assert len({handle.replace("[", "_").replace(".", "_").split("_")[0] for handle in handles}) == 1
    for launch, handle in zip(launches, handles, strict=True):
        assert site.wait_started(launch)["order"]["number"] == launches.index(launch)
        seen = site.wait_gone(handle)
        assert (seen.exit_code, seen.reason) == (launches.index(launch) % 3 + 1, "exit_code")


def test_one_that_the_site_refuses_takes_no_other_with_it(site: Site) -> None:
    good, bad = site.launch(), site.launch(need=Need(gpus=3))
    refusal, handle = site.provider.submit([bad, good])
    assert isinstance(refusal, Failure) and refusal.kind == "rejected" and refusal.message
    assert isinstance(handle, str)
    assert site.wait_gone(handle).exit_code == 0


def test_cancel_ends_it_and_may_be_repeated(site: Site) -> None:
    staying, waiting = site.launch(stays=True), site.launch(stays=True)
    handles = [*site.submit(staying), *site.but(raw_options=[site.hold]).submit(waiting)]
    pid = site.wait_started(staying)["pid"]
    assert site.look(handles[0]).phase is Phase.ACTIVE
    assert (seen := site.look(handles[1])).phase is Phase.PENDING and seen.detail
    site.provider.cancel(handles)
    site.provider.cancel(handles)
    assert site.wait_gone(handles[0]).reason == "cancelled" and site.was_warned(staying)
    assert site.wait_gone(handles[1]).reason in ("cancelled", "")
    site.provider.cancel(handles)
    wait_until(lambda: not is_alive(pid))


def test_what_is_unknown_is_gone_and_ending_it_is_no_error(site: Site) -> None:
    unknown = site.submit(site.launch())[0].replace("1", "8") + "9"
    assert site.provider.observe([unknown])[unknown].phase is Phase.GONE
    site.provider.cancel([unknown])
    assert site.provider.observe([]) == {}


def test_a_launch_is_found_by_its_token(site: Site) -> None:
    """Also one in the middle of an array, and by a provider that was not there when it was submitted."""
    launches = [site.launch(stays=True) for _ in range(3)]
    handles = site.submit(*launches)
    alone = site.launch(stays=True)
    (other,) = site.submit(alone)
    fresh = type(site.provider)(site.provider.settings)
    assert [fresh.find(launch.token) for launch in launches] == handles
    assert fresh.find(alone.token) == other and fresh.find("0" * 32) is None
    site.let_go([*launches, alone])
    for handle in [*handles, other]:
        site.wait_gone(handle)
    assert fresh.find(launches[1].token) == handles[1]


def test_a_launch_again_is_found_as_the_latest(site: Site) -> None:
    """An agent that died with runs in hand is started again under the same token."""
    launch = site.launch(code=7)
    (first,) = site.submit(launch)
    site.wait_gone(first)
    (second,) = site.submit(launch)
    assert second != first and site.provider.find(launch.token) == second
    site.wait_gone(second)


def test_nobody_else_can_read_an_order(site: Site) -> None:
    launch = site.launch(stays=True, secret="hunter2")
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    for path in [site.root, *site.root.rglob("orders/*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    assert (site.root / "orders" / f"{launch.token}.json").exists()
    site.let_go([launch])
    site.wait_gone(handle)
    wait_until(lambda: not list((site.root / "orders").iterdir()), what="an order is taken away after its agent left")


def test_of_an_agent_that_left_only_its_log_stays(site: Site) -> None:
    """Of one that failed, everything: people may want to look, and its time comes."""
    well, badly = site.launch(stays=True), site.launch(stays=True, code=3)
    handles = site.submit(well, badly)
    for launch in (well, badly):
        site.wait_started(launch)
        (site.root / launch.directory / "runs" / "spare").mkdir(parents=True)
        (site.root / launch.directory / "runs").chmod(0o500)
    site.let_go([well, badly])
    for handle in handles:
        site.wait_gone(handle)
    assert [path.name for path in (site.root / well.directory).iterdir()] == ["agent.log"]
    assert (site.root / badly.directory / "runs" / "spare").exists()


def test_a_job_that_began_again_elsewhere_keeps_its_directory(site: Site) -> None:
    launch = site.launch(stays=True)
    (handle,) = site.submit(launch)
    site.wait_started(launch)
    (site.root / launch.directory / "job").write_text("1 on another\n")
    site.let_go([launch])
    assert site.wait_gone(handle).exit_code == 0
    assert (site.root / launch.directory / "started").exists()


def test_a_place_is_cleared_when_no_job_is_there(site: Site) -> None:
    """Another target may have jobs in the same directory."""
    done, waiting = site.launch(), site.launch(stays=True)
    site.wait_gone(site.submit(done)[0])
    (handle,) = site.but(raw_options=[site.hold]).submit(waiting)
    with pytest.raises(Failure, match=f"1 jobs are still there: {re.escape(handle)}"):
        site.provider.clear()
    assert (site.root / "orders" / f"{waiting.token}.json").exists()
    site.provider.cancel([handle])
    site.wait_gone(handle)
    site.provider.clear()
    assert not site.root.exists()
    site.provider.clear()
    assert site.wait_gone(site.submit(site.launch())[0]).exit_code == 0


def test_the_record_of_a_job_outlives_that_of_the_scheduler(site: Site) -> None:
    launch = site.launch(code=3)
    (handle,) = site.submit(launch)
    site.wait_gone(handle)
    forgotten = "7777" + handle  # as if the scheduler had never heard of it
    os.rename(site.root / "ended" / handle, site.root / "ended" / forgotten)
    assert (seen := site.look(forgotten)).phase is Phase.GONE
    assert (seen.exit_code, seen.reason) == (3, "exit_code")


def test_a_job_without_python_says_so(site: Site) -> None:
    launch = replace(site.launch(), python="/nowhere/python3")
    (handle,) = site.submit(launch)
    seen = site.wait_gone(handle)
    assert seen.exit_code == 127 and "tried: /nowhere/python3" in _record(site, handle)


def _record(site: Site, handle: str) -> str:
    return (site.root / "ended" / handle).read_text()
