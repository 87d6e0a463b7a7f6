"""Code for OpenFF's calculation backends: as it is, with our classes, on a real cluster, with classes of its own."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import components, gridengine
from tests.harness import Cli, wait_until
from tests.slurm import Cluster, running_cluster
from turnout import Executor, WorkerDied
from turnout.compat.openff import (
    CalculationBackend,
    ComputeResources,
    DaskPBSBackend,
    DaskSGEBackend,
    DaskSLURMBackend,
    ProcessBackend,
    QueueWorkerResources,
)
from turnout.testing import pbs

pytestmark = pytest.mark.timeout(150)

SCRIPT = """
from {package} import ComputeResources
from {package}.dask import DaskLocalCluster

def square(x, available_resources):
    return x * x, available_resources.number_of_threads

resources = ComputeResources(number_of_threads=1)
with DaskLocalCluster(number_of_workers=1, resources_per_worker=resources) as backend:
    print([backend.submit_task(square, x).result() for x in range(3)], backend.started)
"""


@pytest.mark.parametrize("package", ["openff.evaluator.backends", "propertyestimator.backends"])
def test_a_script_runs_as_it_is(cli: Cli, package: str) -> None:
    (cli.cwd / "old.py").write_text(SCRIPT.format(package=package))
    assert cli("exec", "old.py").stdout == "[(0, 1), (1, 1), (4, 1)] True\n"


class Layer:
    """What OpenFF's server does with a backend: tasks of tasks, the next ones from the callback of the last."""

    def __init__(self, backend: CalculationBackend) -> None:
        assert backend.started
        self._backend = backend
        self.found: futures.Future[list[Any]] = futures.Future()

    def schedule(self, batches: list[list[int]]) -> None:
        first, *later = batches
        protocols = [self._backend.submit_task(Layer.execute, f"protocol {each}", each) for each in first]
        gathered = self._backend.submit_task(Layer.gather, protocols, {"nested": protocols[:1]}, safe_exceptions=False)
        last = self._backend.submit_task(Layer.return_args, first, gathered)
        last.add_done_callback(lambda done: self._next(done, later))

    def _next(self, done: Any, later: list[list[int]]) -> None:
        try:
            result = list(done.result())
            done.release()
            if later:
                self.schedule(later)
            else:
                self.found.set_result(result)
        except BaseException as error:
            self.found.set_exception(error)

    @staticmethod
    def execute(name: str, number: int, available_resources: ComputeResources) -> tuple[str, int]:
        assert available_resources.number_of_threads == 2
        return name, number * available_resources.number_of_threads

    @staticmethod
    def gather(results: list[tuple[str, int]], more: dict[str, Any], safe_exceptions: bool, **kwargs: Any) -> int:
        assert more["nested"] == results[:1] and list(kwargs) == ["available_resources"]
        return sum(number for _, number in results)

    @staticmethod
    def return_args(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return args


def test_a_server_drives_it() -> None:
    with ProcessBackend(2, ComputeResources(number_of_threads=2)) as backend:
        layer = Layer(backend)
        layer.schedule([[1, 2, 3], [4, 5]])
        assert layer.found.result(60) == [[4, 5], 18]


class AsyncioBackend(CalculationBackend):
    """Of asyncio's own futures: a loop in a thread, and a thread for each task."""

    def __init__(self, number_of_workers: int, resources_per_worker: ComputeResources) -> None:
        self.resources = resources_per_worker

    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def submit_task(self, function: Any, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.loop.create_future()
        self.loop.call_soon_threadsafe(self._begin, future, function, args, kwargs)
        return future

    def _begin(self, future: asyncio.Future[Any], function: Any, args: Any, kwargs: Any) -> None:
        def call() -> None:
            try:
                result = function(*args, **kwargs, available_resources=self.resources)
                self.loop.call_soon_threadsafe(future.set_result, result)
            except Exception as error:
                self.loop.call_soon_threadsafe(future.set_exception, error)

        self.loop.run_in_executor(None, call)


class TestAClassOfOnesOwn:
    """One that was written from OpenFF's page alone is taken wherever ours are."""

    def test_an_executor_takes_it(self) -> None:
        backend = AsyncioBackend(2, ComputeResources())
        with Executor(target=backend, workers=2) as executor:
            assert backend.started
            first = executor.submit(pow, 2, 5)
            assert executor.submit(sum, [first, 1]).result(30) == 33
            assert list(executor.map(abs, range(-50, 0))) == list(range(50, 0, -1))
            with pytest.raises(ZeroDivisionError) as caught:
                executor.submit(divmod, 1, 0).result(30)
            assert "Traceback" in str(caught.value.__cause__)
            assert executor.submit(lambda x: x + 1, 1).result(30) == 2
        assert not backend.started

    def test_one_that_runs_is_left_running(self) -> None:
        with ProcessBackend(1) as backend:
            with Executor(target=backend, workers=1) as executor:
                assert executor.submit(os.getpid).result(30) != os.getpid()
            assert backend.started and backend.submit_task(abs, -1).result(30) == 1

    def test_what_becomes_of_its_tasks_is_told(self) -> None:
        with ProcessBackend(1) as backend, Executor(target=backend, workers=1) as executor:
            with pytest.raises(WorkerDied):
                executor.submit(os._exit, 1).result(60)
            array = np.arange(200_000)
            assert (executor.submit(np.add, array, 1).result(30) == array + 1).all()


def stay(begun: str, until: str, variable: str) -> str | None:
    """In which job, once it may end."""
    Path(begun).touch()
    wait_until(Path(until).exists, 60.0)
    return os.environ.get(variable)


def expect_two_jobs(
    backend: CalculationBackend, folder: Path, variable: str, live: Callable[[], Iterable[str]]
) -> None:
    """Two tasks at a time are in two jobs, and both are `live` meanwhile."""
    go, begun = folder / "go", [folder / "a", folder / "b"]
    both = [backend.submit_task(stay, str(each), str(go), variable) for each in begun]
    wait_until(lambda: all(each.exists() for each in begun), 100.0)
    there = set(live())
    go.touch()
    assert len(there) == 2 and {each.result(60) for each in both} == there


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    components.slurm()
    with running_cluster() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", made.environment["SLURM_CONF"])
        yield made


def where() -> tuple[str | None, str | None]:
    return os.environ.get("SLURM_JOB_ID"), os.environ.get("OMP_NUM_THREADS")


@pytest.mark.xdist_group("slurm")
def test_on_slurm(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are jobs: as many as there are tasks, at least 1 and at most 2, and none in the end."""
    monkeypatch.chdir(tmp_path)
    resources = QueueWorkerResources(
        number_of_threads=2, per_thread_memory_limit="200M", wallclock_time_limit="00:10:00"
    )
    backend = DaskSLURMBackend(1, 2, resources, queue_name="p", adaptive_interval="100ms")
    before = backend.job_script()
    with backend:
        head = [line for line in backend.job_script().splitlines() if line.startswith("#SBATCH")]
        assert head == [line for line in before.splitlines() if line.startswith("#SBATCH")]
        job, threads = backend.submit_task(where).result(100)
        assert job in cluster.jobs() and threads == "2"
        expect_two_jobs(backend, tmp_path, "SLURM_JOB_ID", cluster.jobs)
        with pytest.raises(ZeroDivisionError):
            backend.submit_task(divmod, 1, 0).result(60)
    wait_until(lambda: not cluster.jobs(), 30.0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".turnout")]


@pytest.fixture(scope="module")
def grid() -> Iterator[None]:
    components.gridengine()
    with gridengine.running_gridengine(), pytest.MonkeyPatch.context() as patch:
        for name, value in gridengine.ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


def jobs_of_grid() -> dict[str, str]:
    """By number, all that Grid Engine says of each."""
    numbers = [line.split()[0] for line in gridengine.call("qstat").splitlines()[2:]]
    return {number: gridengine.call("qstat", "-j", number) for number in numbers}


def limits(available_resources: ComputeResources) -> dict[str, Any]:
    """What the job has, as it sees it itself."""
    names = ("JOB_ID", "NSLOTS", "OMP_NUM_THREADS", "FROM_SETUP")
    memory = resource.getrlimit(resource.RLIMIT_AS)[1]
    told = {"threads": available_resources.number_of_threads, "memory": memory}
    return {**told, **{name: os.environ.get(name) for name in names}}


@pytest.mark.xdist_group("gridengine")
def test_on_grid_engine(grid: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same there; and the job has what was asked for."""
    monkeypatch.chdir(tmp_path)
    resources = QueueWorkerResources(number_of_threads=2, per_thread_memory_limit="700M", wallclock_time_limit="00:10")
    commands = ["export FROM_SETUP=word", "cd /"]
    backend = DaskSGEBackend(1, 2, resources, "all.q", commands, ["-p -7"], adaptive_interval="100ms")
    with backend:
        found = backend.submit_task(limits).result(100)
        job = found.pop("JOB_ID")
        assert found == {
            "threads": 2, "memory": 2 * 700 << 20, "NSLOTS": "2", "OMP_NUM_THREADS": "2", "FROM_SETUP": "word",
        }  # fmt: skip
        assert backend.submit_task(os.getcwd).result(60) == "/"
        lines = [line.split() for line in jobs_of_grid()[job].splitlines()]
        assert ["hard", "resource_list:", "h_vmem=700M,h_rt=600"] in lines and ["priority:", "-7"] in lines
        expect_two_jobs(backend, tmp_path, "JOB_ID", jobs_of_grid)
        with pytest.raises(ZeroDivisionError):
            backend.submit_task(divmod, 1, 0).result(60)
    wait_until(lambda: not gridengine.call("qstat"), 30.0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".turnout")]


def of_pbs(available_resources: ComputeResources) -> tuple[int, str | None, str | None]:
    return available_resources.number_of_threads, os.environ.get("PBS_JOBID"), os.environ.get("FROM_SETUP")


@pytest.mark.parametrize(
    ("family", "queue", "line"), [("pro", "workq", None), ("torque", "batch", "nodes=1:ppn=2,mem=400mb")]
)
def test_on_pbs(family: str, queue: str, line: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server can be had here: its commands are ours, which take and refuse what the real ones do, and run jobs."""
    monkeypatch.setenv("PATH", f"{pbs.install(tmp_path / 'pbs', family)}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    resources = QueueWorkerResources(number_of_threads=2, per_thread_memory_limit="200M", wallclock_time_limit="00:10")
    commands = ["export FROM_SETUP=word"]
    backend = DaskPBSBackend(1, 2, resources, queue, commands, adaptive_interval="100ms", resource_line=line)
    with backend:
        threads, job, word = backend.submit_task(of_pbs).result(60)
        assert (threads, word) == (2, "word") and job in running_on_pbs()
        expect_two_jobs(backend, tmp_path, "PBS_JOBID", running_on_pbs)
    wait_until(lambda: not running_on_pbs(), 30.0)


def running_on_pbs() -> set[str]:
    said = subprocess.run(["qstat", "-f"], capture_output=True, text=True, check=True).stdout
    return {each.split()[0] for each in said.split("Job Id: ")[1:] if "job_state = R" in each}
