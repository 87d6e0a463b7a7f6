"""OpenFF's resources and backends without workers: values, bad ones, scripts of jobs, and classes of one's own."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import dask_jobqueue  # noqa: F401  # which adds to the settings of Dask, and not while a test changes some
import pytest

from turnout.compat.openff import (
    CalculationBackend,
    ComputeResources,
    DaskLSFBackend,
    DaskPBSBackend,
    DaskSGEBackend,
    DaskSLURMBackend,
    ProcessBackend,
    QueueWorkerResources,
)
from turnout.compat.openff.calling import takes_resources
from turnout.compat.openff.resources import ours
from turnout.errors import InvalidInput

PROTOCOLS = """
from openff.evaluator.workflow import plugins
from turnout.compat.openff import ProcessBackend

class Double:
    def execute(self, number):
        return 2 * number

plugins.registered_workflow_protocols["Double"] = Double

def execute(name, number, available_resources):
    from openff.evaluator.workflow.plugins import registered_workflow_protocols as known
    return known[name]().execute(number)

with ProcessBackend(1) as backend:
    print("Double", backend.submit_task(execute, "Double", 21).result(timeout=30))
"""

GPU = ComputeResources(4, 2, ComputeResources.GPUToolkit.CUDA, ComputeResources.GPUPrecision.double)
QUEUED = QueueWorkerResources(
    number_of_threads=4, number_of_gpus=1, preferred_gpu_precision="double", per_thread_memory_limit="2G",
    wallclock_time_limit="05:59",
)  # fmt: skip


class Bytes:
    """Stands for a quantity of pint's: all that is asked of one."""

    def __init__(self, number: float, unit: str) -> None:
        self._number, self._unit = number, unit

    def m_as(self, unit: str) -> float:
        if self._unit == "second":
            raise TypeError("Cannot convert from 'second' to 'byte'")
        return self._number * {"gigabyte": 1e9, "byte": 1.0}[self._unit]


class TestValues:
    @pytest.mark.parametrize("value", [ComputeResources(), GPU, QueueWorkerResources(), QUEUED], ids=repr)
    def test_they_come_back_equal(self, value: ComputeResources) -> None:
        for back in (
            pickle.loads(pickle.dumps(value)),
            type(value).from_dict(value.to_dict()),
            type(value).parse_json(value.json()),
        ):
            assert back == value and hash(back) == hash(value) and repr(back) == repr(value)

    @pytest.mark.parametrize(
        "other",
        [
            ComputeResources(3, 2, "CUDA", "double"), ComputeResources(4, 1, "CUDA", "double"),
            ComputeResources(4, 2, "OpenCL", "double"), ComputeResources(4, 2, "CUDA", "single"), QUEUED, None, "x",
        ],
    )  # fmt: skip
    def test_others_are_not_equal(self, other: object) -> None:
        assert other != GPU

    def test_the_same_in_other_words_is_equal(self) -> None:
        one = QueueWorkerResources(per_thread_memory_limit="1K", wallclock_time_limit="01:00")
        assert one == QueueWorkerResources(per_thread_memory_limit=1024, wallclock_time_limit="01:00:00")
        assert ComputeResources(4, 2, "CUDA", "double") == GPU

    def test_memory_counts_for_each_thread(self) -> None:
        assert QUEUED.memory == 4 * 2 * 1024**3 and QUEUED.seconds == 5 * 3600 + 59 * 60
        quantity = QueueWorkerResources(2, per_thread_memory_limit=Bytes(1.5, "gigabyte"))
        assert quantity.memory == 3_000_000_000

    def test_what_a_user_gave_is_told(self) -> None:
        assert QUEUED.per_thread_memory_limit == "2G" and QUEUED.wallclock_time_limit == "05:59"
        assert QUEUED.preferred_gpu_precision is ComputeResources.GPUPrecision.double

    def test_a_worker_knows_its_gpus(self) -> None:
        there = GPU.on_worker()
        assert there.gpu_device_indices == "0,1" and there == GPU and GPU.gpu_device_indices is None
        assert ComputeResources().on_worker().gpu_device_indices is None


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ComputeResources(-1), "number_of_threads: -1"),
        (lambda: ComputeResources(1.5), "number_of_threads: 1.5"),  # type: ignore[arg-type]
        (lambda: ComputeResources(True), "number_of_threads: True"),
        (lambda: ComputeResources(1, -1), "number_of_gpus: -1"),
        (lambda: ComputeResources(0, 0), "both 0"),
        (lambda: ComputeResources(1, 1, None), "preferred_gpu_toolkit: one has to be said"),
        (lambda: ComputeResources(1, 1, "Metal"), "preferred_gpu_toolkit: 'Metal'"),
        (lambda: ComputeResources(1, 1, "CUDA", "half"), "preferred_gpu_precision: 'half'"),
        (lambda: QueueWorkerResources(per_thread_memory_limit=0), "per_thread_memory_limit: 0"),
        (lambda: QueueWorkerResources(per_thread_memory_limit="much"), "per_thread_memory_limit: 'much'"),
        (lambda: QueueWorkerResources(per_thread_memory_limit=None), "per_thread_memory_limit: None"),
        (lambda: QueueWorkerResources(per_thread_memory_limit=Bytes(1, "second")), "Cannot convert"),
        (lambda: QueueWorkerResources(wallclock_time_limit="99:99"), "wallclock_time_limit: '99:99'"),
        (lambda: QueueWorkerResources(wallclock_time_limit="01:00junk"), "wallclock_time_limit: '01:00junk'"),
        (lambda: QueueWorkerResources(wallclock_time_limit="00:00"), "wallclock_time_limit: '00:00'"),
        (lambda: QueueWorkerResources(wallclock_time_limit=60), "wallclock_time_limit: 60"),  # type: ignore[arg-type]
        (lambda: ComputeResources.from_dict({"threads": 1}), "ComputeResources has no threads"),
        (lambda: ComputeResources.parse_json("[1]"), r"an object is needed"),
        (lambda: ComputeResources.parse_json("{"), r"no JSON"),
        (lambda: ProcessBackend(0), "number_of_workers: 0"),
        (lambda: ProcessBackend(1.0), "number_of_workers: 1.0"),  # type: ignore[arg-type]
        (lambda: DaskSLURMBackend(3, 2), "at least 3 workers and at most 2"),
        (lambda: DaskSLURMBackend(resources_per_worker=ComputeResources()), "memory and time"),
    ],
)
def test_what_cannot_be_is_told(make: Callable[[], object], why: str) -> None:
    for kind in (ValueError, InvalidInput):
        with pytest.raises(kind, match=why):
            make()


HEADS = {
    DaskSLURMBackend: [
        "#SBATCH -J dask-worker", "#SBATCH -p work", "#SBATCH -n 1", "#SBATCH --cpus-per-task=4", "#SBATCH --mem=8G",
        "#SBATCH -t 05:59:00", "#SBATCH --gres=gpu:1", "#SBATCH --one", "#SBATCH --two",
    ],
    DaskPBSBackend: [
        "#PBS -N dask-worker", "#PBS -q work", "#PBS -l select=1:ncpus=4:mem=8192mb:ngpus=1",
        "#PBS -l walltime=05:59:00", "#PBS --one", "#PBS --two",
    ],
    DaskSGEBackend: [
        "#$ -N dask-worker", "#$ -q work", "#$ -l h_vmem=2048M", "#$ -l h_rt=05:59:00", "#$ -cwd", "#$ -j y",
        "#$ -pe smp 4", "#$ -l gpu=1", "#$ --one", "#$ --two",
    ],
    DaskLSFBackend: [
        "#BSUB -J dask-worker", "#BSUB -q work", "#BSUB -n 4", '#BSUB -R "span[hosts=1]"', "#BSUB -M 8589935",
        "#BSUB -W 05:59", "#BSUB -gpu num=1:j_exclusive=yes", "#BSUB --one", "#BSUB --two",
    ],
}  # fmt: skip
BODY = [
    "export OMP_NUM_THREADS=4", "export MKL_NUM_THREADS=4", "export OPENBLAS_NUM_THREADS=4",
    "export DASK_DISTRIBUTED__WORKER__DAEMON=False", "module load first", "module load second",
]  # fmt: skip


class TestScripts:
    @pytest.mark.parametrize("kind", HEADS, ids=lambda kind: kind.__name__)
    def test_of_a_job(self, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """4 threads, a GPU, 2 GB for each thread, 5 hours and 59 minutes: so much is asked for, of each scheduler."""
        monkeypatch.setenv("LSF_ENVDIR", "/nonexistent")
        worker = f"{sys.executable} -m distributed.cli.dask_worker tls://SCHEDULER:8786 --name worker --nthreads 1"
        worker += " --memory-limit 8.00GiB --nanny --death-timeout 60"
        backend = kind(
            resources_per_worker=QUEUED, queue_name="work", setup_script_commands=["module load first", BODY[-1]],
            extra_script_options=["--one", "--two"],
        )  # fmt: skip
        for _ in range(2):
            assert backend.job_script().splitlines() == ["#!/usr/bin/env bash", "", *HEADS[kind], *BODY, worker]

    def test_the_settings_of_dask_stay_what_they_are(self) -> None:
        mine = {"job-extra-directives": ["--mine"], "job-script-prologue": ["module load mine"]}
        with dask.config.set({"jobqueue.slurm": {**dask.config.get("jobqueue.slurm", {}), **mine}}):
            first = DaskSLURMBackend(setup_script_commands=["one"], extra_script_options=["--one"]).job_script()
            second = DaskSLURMBackend(setup_script_commands=["two"], extra_script_options=["--two"]).job_script()
            assert dask.config.get("jobqueue.slurm.job-extra-directives") == ["--mine"]
        assert "#SBATCH --mine\n#SBATCH --one\n" in first and "module load mine\n" in first
        assert "one" not in second.replace("--nodes", "") and "#SBATCH --two\n" in second

    def test_the_rest_of_what_can_be_said(self) -> None:
        resources = QueueWorkerResources(wallclock_time_limit="120:00:30")
        line = DaskPBSBackend(resources_per_worker=resources, resource_line="nodes=1:ppn=8").job_script()
        assert "#PBS -l nodes=1:ppn=8\n" in line and "-l select" not in line and "walltime=120:00:30" in line
        assert "-W 120:01" in DaskLSFBackend(resources_per_worker=resources).job_script()
        plain = DaskSLURMBackend(disable_nanny_process=True).job_script()
        assert " --no-nanny" in plain and " --nanny" not in plain and "--gres" not in plain


class Own(CalculationBackend):
    """Calls nothing of what it inherits."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.error: Exception | None = None

    def start(self) -> None:
        self.said.append("start")
        if self.error:
            raise self.error

    def stop(self) -> None:
        self.said.append("stop")

    def submit_task(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


class Below(Own):
    """Calls all of it, and wants to be told on the way."""

    def start(self) -> None:
        super().start()
        CalculationBackend.start(self)
        assert self.started
        self.said.append("more")

    def stop(self) -> None:
        super().stop()
        self.said.append("no more")


class Aside:
    """Says how to start, and knows nothing of backends."""

    def start(self) -> None:
        super().start()  # type: ignore[misc]


class Mixed(Aside, Own):
    pass


def has_started(backend: CalculationBackend) -> bool:
    return backend.started


class TestClassesOfOnesOwn:
    @pytest.mark.parametrize("kind", [Own, Below, Mixed])
    def test_it_is_known_whether_one_has_started(self, kind: type[Own]) -> None:
        backend = kind()
        assert not has_started(backend)
        backend.stop()
        assert not backend.said
        for _ in range(2):
            with backend as given:
                assert given is backend and has_started(backend)
                with pytest.raises(RuntimeError, match="already been started"):
                    backend.start()
                assert backend.submit_task(abs, -1) == 1
            assert not has_started(backend)
            backend.stop()
        assert backend.said.count("start") == backend.said.count("stop") == 2

    @pytest.mark.parametrize("kind", [Own, Below, Mixed])
    def test_one_that_cannot_start_has_not(self, kind: type[Own]) -> None:
        backend = kind()
        backend.error = OSError("no workers")
        with pytest.raises(OSError, match="no workers"):
            backend.start()
        assert not has_started(backend)
        backend.stop()
        backend.error = None
        backend.start()
        assert has_started(backend) and [said for said in backend.said if "more" not in said] == [
            "start",
            "stop",
            "start",
        ]

    def test_one_that_is_forgotten_is_stopped(self) -> None:
        backend = Own()
        backend.start()
        said = backend.said
        del backend
        gc.collect()
        assert said == ["start", "stop"]

    @pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
    def test_whatever_goes_wrong_then_is_not_raised(self) -> None:
        class Broken(Own):
            def stop(self) -> None:
                raise OSError("gone")

        backend = Broken()
        backend.start()
        del backend
        Broken.__new__(Broken)  # its constructor never ran
        gc.collect()

    def test_one_that_lacks_a_method_cannot_be_made(self) -> None:
        class Less(CalculationBackend):
            def start(self) -> None: ...

        with pytest.raises(TypeError, match="stop"):
            Less()  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (lambda available_resources: None, True),
        (lambda *, available_resources=None: None, True),
        (lambda **kwargs: None, True),
        (lambda x: None, False),
        (lambda available_resources, /: None, False),
        (abs, False),
        (dict, False),
    ],
)
def test_who_takes_resources(function: Callable[..., Any], takes: bool) -> None:
    assert takes_resources(function) is takes


def test_what_is_wrapped_has_to_take_them_too() -> None:
    import functools

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def outer(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return outer

    assert not takes_resources(wrapped(lambda x: x)) and takes_resources(wrapped(lambda x, available_resources: x))


class TestTheirs:
    """Programs may have resources from OpenFF's own package, and its code is given ours."""

    def test_their_names_are_found_by_ours(self) -> None:
        class GPUToolkit(Enum):
            CUDA = "CUDA"
            auto = "auto"

        assert GPUToolkit(ComputeResources.GPUToolkit.CUDA) is GPUToolkit.CUDA

    def test_their_resources_are_taken(self) -> None:
        theirs = SimpleNamespace(
            number_of_threads=2, number_of_gpus=0, preferred_gpu_toolkit="auto", preferred_gpu_precision="mixed"
        )
        assert ours(theirs) == ComputeResources(number_of_threads=2)
        theirs.per_thread_memory_limit, theirs.wallclock_time_limit = "2 GB", "02:00"
        assert isinstance(ours(theirs), QueueWorkerResources)
        with pytest.raises(InvalidInput, match="cannot be"):
            ours(SimpleNamespace(threads=2))

    def test_a_worker_knows_the_protocols_of_the_program(self, tmp_path: Path) -> None:
        folder = tmp_path / "openff" / "evaluator" / "workflow"
        folder.mkdir(parents=True)
        (folder / "plugins.py").write_text("registered_workflow_protocols = {}\n")
        (tmp_path / "script.py").write_text(PROTOCOLS)
        done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stdout == "Double 42\n", done.stderr


def test_no_engine_is_loaded_by_the_names() -> None:
    program = (
        "import sys, turnout.compat.openff as o\n"
        "o.DaskLocalCluster(), o.DaskSLURMBackend(), o.ParslBackend(), o.RayBackend(), o.CeleryBackend(broker='x')\n"
        "print(sorted({'dask', 'distributed', 'parsl', 'ray', 'celery'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
