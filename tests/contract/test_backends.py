"""Every calculation backend keeps every promise of the contract."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import dask
import distributed
import pytest

from tests.harness import as_a_user, wait_until
from turnout.compat.openff import (
    CalculationBackend,
    CeleryBackend,
    ComputeResources,
    DaskExistingBackend,
    DaskLocalCluster,
    ParslBackend,
    ProcessBackend,
    RayBackend,
)
from turnout.compat.openff.executors import ExecutorBackend
from turnout.futures.dask_target import DaskOnTarget
from turnout.futures.engine import Engine
from turnout.testing import BackendContract

LATE = "Dask may begin a call before it hears that nobody wants it"


class TestProcess(BackendContract):
    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return ProcessBackend(number_of_workers, resources)


@pytest.mark.xdist_group("dask")
class TestDaskLocal(BackendContract):
    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return DaskLocalCluster(number_of_workers, resources)


@pytest.mark.xdist_group("dask")
class TestDaskExisting(BackendContract):
    """Of schedulers with one worker, and with two, that are there before and after."""

    owns = scales = limits_threads = clears = ends_tasks = "whoever started the workers does that"
    cancels = LATE
    clusters: dict[int, distributed.LocalCluster]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def existing(cls) -> Iterator[None]:
        with contextlib.ExitStack() as all_of_them, dask.config.set({"distributed.worker.daemon": False}):
            cls.clusters = {}
            for count in (1, 2):
                made = distributed.LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0")
                cls.clusters[count] = all_of_them.enter_context(made)
            yield
            cls.teardown_class()

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return DaskExistingBackend(self.clusters[number_of_workers].scheduler_address, resources)


class OnTarget(ExecutorBackend):
    """Dask's workers as runs of a target."""

    def engine(self) -> Engine:
        return DaskOnTarget("local", self._number_of_workers, self.needs)


@pytest.mark.slow
@pytest.mark.xdist_group("target")
class TestDaskOnTarget(BackendContract):
    several = "the runs share the processors of one machine"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def user(cls) -> Iterator[None]:
        with as_a_user():
            yield
            cls.teardown_class()

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return OnTarget(number_of_workers, resources)


@pytest.mark.slow
@pytest.mark.xdist_group("parsl")
class TestParsl(BackendContract):
    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return ParslBackend(number_of_workers, resources)


@pytest.mark.slow
@pytest.mark.xdist_group("celery")
class TestCelery(BackendContract):
    broker: str

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def redis(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        program = shutil.which("redis-server")
        assert program, "apt install redis-server"
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        where = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path_factory.mktemp("redis"))]
        server = subprocess.Popen([program, *where, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: _answers(port))
            cls.broker = f"redis://127.0.0.1:{port}/0"
            yield
            cls.teardown_class()
        finally:
            server.terminate()
            server.wait(20)

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return CeleryBackend(number_of_workers, resources, broker=self.broker)


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
class TestRay(BackendContract):
    several = "Ray knows one cluster for each process"

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return RayBackend(number_of_workers, resources)


def _answers(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


class Threads(CalculationBackend):
    """As the page on calculation backends tells one to write them, and no more."""

    def __init__(self, number_of_workers: int, resources_per_worker: ComputeResources) -> None:
        self.number = number_of_workers

    def start(self) -> None:
        self.pool = ThreadPoolExecutor(self.number)

    def stop(self) -> None:
        self.pool.shutdown(cancel_futures=True)

    def submit_task(self, function: Any, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.pool.submit(function, *args, **kwargs)


class TestAnotherOnes(BackendContract):
    """What the page promises of a class that is written from it; what it does not speak of, the class does not do."""

    isolates = ends_tasks = limits_threads = "it has threads"
    scales = awaits = resolves = tells_resources = names = releases = guards = "the page does not ask for it"

    def make_backend(self, number_of_workers: int, resources: ComputeResources) -> CalculationBackend:
        return Threads(number_of_workers, resources)

    @pytest.mark.skip("the standard library's futures have no such method")
    def test_a_callback_can_be_removed(self) -> None: ...
