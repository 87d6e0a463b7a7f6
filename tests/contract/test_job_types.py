"""Every job type keeps every promise of the contract: one that is written from Metapipe's document alone, those there
always are, a target, and the one that ``turnout provider new`` writes."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import SkipTest

import pytest

from tests import components, gridengine
from tests.contract.job_type import PBS_JOB
from tests.harness import as_a_user
from turnout.compat import aliases
from turnout.compat.metapipe import Command, Job, LocalJob, batch
from turnout.compat.metapipe.adapter import MetapipeJobProvider
from turnout.compat.metapipe.batch import PBSJob, SGEJob
from turnout.compat.metapipe.calling import Said
from turnout.compat.metapipe.states import State
from turnout.plugin.provider import Provider
from turnout.plugin.remote import Plugin
from turnout.testing import JobTypeContract, Lab, ProviderContract, pbs


def of_text(text: str) -> ModuleType:
    """A module of that text, which finds the import aliases."""
    aliases.install()
    spec = importlib.util.spec_from_loader("job_of_mine", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(text, vars(module))
    return module


def skeleton() -> str:
    """The module that ``turnout provider new`` writes."""
    text = (files("turnout") / "client" / "skeletons" / "job_type.py.txt").read_text()
    return text.replace("@Class@", "Yard").replace("@name@", "yard")


# A class of a module that is made of text has no type to mypy, and so has none that inherits from it.
# mypy: disable-error-code="misc"
Documented: Any = of_text(PBS_JOB).PBSJob
Yard: Any = of_text(skeleton()).YardJob


class OnPbs(JobTypeContract):
    """Where the commands of a PBS are on PATH."""

    family = "pro"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def commands(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            found = pbs.install(tmp_path_factory.mktemp("pbs") / cls.family, cls.family)
            patch.setenv("PATH", f"{found}:{os.environ['PATH']}")
            yield


class TestTheDocuments(OnPbs):
    def make_job(self, alias: str, command: Command) -> Any:
        return Documented(alias, command, [])


class TestPBSJob(OnPbs):
    def make_job(self, alias: str, command: Command) -> Any:
        return PBSJob(alias, command)


class TestPBSJobOnTorque(TestPBSJob):
    family = "torque"


@pytest.mark.xdist_group("gridengine")
@pytest.mark.timeout(200)
class TestSGEJob(JobTypeContract):
    """On a real Grid Engine."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def daemons(cls) -> Iterator[None]:
        components.gridengine()
        with gridengine.running_gridengine(), pytest.MonkeyPatch.context() as patch:
            for name, value in gridengine.ENVIRONMENT.items():
                patch.setenv(name, value)
            patch.setattr(batch, "_SKEW", 1.0)  # its numbers begin again with each start, which may be a moment ago
            yield

    def make_job(self, alias: str, command: Command) -> Any:
        return SGEJob(alias, command, queue="all.q")


@pytest.mark.xdist_group("target")
class TestLocalJob(JobTypeContract):
    """On the local target, with a hub of its own."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def user(cls) -> Iterator[None]:
        with as_a_user():
            yield

    def make_job(self, alias: str, command: Command) -> Any:
        return LocalJob(alias, command)


class TestTheSkeleton(JobTypeContract):
    def make_job(self, alias: str, command: Command) -> Any:
        return Yard(alias, command)


class TestAsAProvider(ProviderContract):
    """The provider that is made of it keeps the promises of providers."""

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        plugin = Plugin(
            path="yard_job.YardJob", target="yard", service="yard", settings=settings, definition={}, username="me",
            records=f"{settings['nodes_directory']}.records",
        )  # fmt: skip
        return MetapipeJobProvider.around(Yard, plugin)

    def make_lab(self) -> Lab:
        return Lab()


# --- what the kit is good for -----------------------------------------------------------------------------------------


class HasNoLook(Yard):
    is_error = Job.is_error


class KnowsNoAlias(Yard):
    def __init__(self, alias: str, command: Any) -> None:
        super().__init__("0", command)


class BeginsElsewhere(Yard):
    def make(self) -> None:
        Path(self.filename).write_text(self.command.eval())


class OneText(Yard):
    @property
    def cmd(self) -> Any:
        return f"bash {self.filename}"


class WantsMore(Yard):
    def submit(self, job: Any, queue: Any) -> None:
        super().submit()


class Waits(Yard):
    def submit(self) -> None:
        super().submit()
        self._process.wait()


class OneIdForAll(Yard):
    def submit(self) -> None:
        super().submit()
        self.id = "42"


class TwiceAtOnce(Yard):
    def submit(self) -> None:
        super().submit()
        subprocess.Popen(self.cmd, stdin=subprocess.DEVNULL)


class AllIsWell(Yard):
    def is_complete(self) -> bool:
        return self._exit_code() is not None

    def is_error(self) -> bool:
        return False


class SaysPerhaps(Yard):
    def is_error(self) -> Any:
        return self._exit_code()


class LastOneCounts(Yard):
    def submit(self) -> None:
        super().submit()
        type(self).last = self

    def _exit_code(self) -> Any:
        return Yard._exit_code(type(self).last)


class ForgetsAll(Yard):
    def submit(self) -> None:
        super().submit()
        self._seen = object()

    def is_running(self) -> bool:
        return hasattr(self, "_seen") and super().is_running()


class OnlySaysSo(Yard):
    """Metapipe's own types do it like this."""

    def submit(self) -> None:
        if self.attempts == 0:
            super().submit()
        else:
            self.attempts += 1


class NeverFails(Yard):
    def is_fail(self) -> bool:
        return False


class KillsNobody(Yard):
    def cancel(self) -> None:
        """It does nothing."""


#: a check -> who breaks it
MUTANTS: dict[str, Any] = {
    "it_has_what_a_job_type_needs": HasNoLook,
    "a_new_job_waits": KnowsNoAlias,
    "make_writes_its_script": BeginsElsewhere,
    "cmd_is_a_list_of_words": OneText,
    "submit_takes_the_job_or_nothing": WantsMore,
    "submitting_does_not_block": Waits,
    "each_job_keeps_its_id": OneIdForAll,
    "a_job_waits_runs_and_is_complete": TwiceAtOnce,
    "a_failing_job_is_in_error": AllIsWell,
    "a_look_is_yes_or_no": SaysPerhaps,
    "jobs_are_told_apart": LastOneCounts,
    "another_object_goes_on_with_it": ForgetsAll,
    "a_job_that_errored_is_submitted_again": OnlySaysSo,
    "it_fails_when_it_was_tried_often_enough": NeverFails,
    "a_cancelled_job_ends": KillsNobody,
}


class Broken(TestTheSkeleton):
    __test__ = False
    patience, prompt = 2.0, 1.0
    found: Any

    def make_job(self, alias: str, command: Command) -> Any:
        return self.found(alias, command)


def make(kit: JobTypeContract, check: str) -> None:
    kit.setup_method()
    try:
        getattr(kit, f"test_{check}")()
    finally:
        kit.teardown_method()


@pytest.mark.parametrize("check", sorted(MUTANTS))
def test_the_kit_sees_what_is_wrong(check: str) -> None:
    kit = Broken()
    kit.found = MUTANTS[check]
    with pytest.raises(AssertionError):
        make(kit, check)


def test_every_check_is_broken_by_somebody() -> None:
    checks = {name.removeprefix("test_") for name in vars(JobTypeContract) if name.startswith("test_")}
    assert checks == MUTANTS.keys()


class Bare(Job):
    """Has no id, no cancel, and knows in memory only how it is."""

    @property
    def cmd(self) -> list[str]:
        return [sys.executable, self.filename]

    def submit(self) -> None:
        self.make()
        self.attempts, self.waiting = self.attempts + 1, False

    def is_complete(self) -> bool:
        return not self.waiting


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("each_job_keeps_its_id", "no id"), ("a_cancelled_job_ends", "no cancel"),
        ("another_object_goes_on_with_it", "in memory"),
    ],
)  # fmt: skip
def test_what_a_job_type_need_not_have_is_skipped(check: str, said: str) -> None:
    kit = Broken()
    kit.found = Bare
    Broken.is_in_memory = True
    try:
        with pytest.raises(SkipTest, match=said):
            make(kit, check)
    finally:
        Broken.is_in_memory = False


def test_the_states_of_grid_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its commands tell them; what it has forgotten is in its accounting, a moment later."""
    said: dict[str, str] = {"qstat": "", "qacct": ""}
    monkeypatch.setattr(batch, "call", lambda argv: Said(said[argv[0]]))
    job = SGEJob("1.1", Command(alias="1.1", script="true\n"))
    job.id = "7"
    row = "{} 0.55500 metapipe.1 me {} 11/18/2026 20:15:52 all.q@n1 1\n"
    for letters, state in {"qw": State.QUEUED, "r": State.RUNNING, "Eqw": State.ERROR, "t": State.RUNNING}.items():
        said["qstat"] = f"job-ID prior name user state\n----\n{row.format(17, 'r')}{row.format(7, letters)}"
        assert job.state() is state
    said["qstat"] = row.format(17, "r")
    assert job.state() is State.SILENT
    record = "jobname      {}\nfailed       {}\nexit_status  {}    \n"
    said["qacct"] = record.format("another", 0, 0)
    assert job.state() is State.SILENT
    name = "metapipe.1.1.job"
    said["qacct"] = f"==========\n{record.format(name, '0    ', 0)}==========\n{record.format(name, '0    ', 3)}"
    assert (job.state(), job.exit_code, job.is_error()) == (State.ERROR, 3, True)
    job.exit_code = None
    said["qacct"] = record.format(name, "100 : assumedly after job", 0)
    assert job.is_error()
    job.exit_code = None
    said["qacct"] = record.format(name, 0, 0)
    assert job.is_complete()
