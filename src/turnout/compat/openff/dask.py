"""Backends over Dask: on this machine, on a scheduler that exists, and on workers that are jobs of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from turnout.compat.openff.backend import WrongWorkers, whole_number
from turnout.compat.openff.executors import ExecutorBackend
from turnout.compat.openff.resources import ComputeResources, QueueWorkerResources, WrongResources, ours
from turnout.futures.engine import Engine


class DaskLocalCluster(ExecutorBackend):
    """Dask's workers on this machine, each a process."""

    def engine(self) -> Engine:
        from turnout.futures.dask import DaskLocal

        return DaskLocal(self._number_of_workers, self.needs)


class DaskExistingBackend(ExecutorBackend):
    """The workers of the scheduler at `address`, whoever started it; `stop` leaves them as they are. `security`: a
    `distributed.Security`, for TLS."""

    def __init__(
        self, address: str, resources_per_worker: ComputeResources | None = None, *, security: Any = None
    ) -> None:
        super().__init__(1, resources_per_worker)
        self._address = address
        self._security = security

    def engine(self) -> Engine:
        from turnout.futures.dask import DaskExisting

        return DaskExisting(self._address, self.needs, security=self._security)


class DaskQueueBackend(ExecutorBackend):
    """Each worker is a job of a scheduler, and makes one task at a time with all that the job has. There are as many as
    there are tasks, but at least and at most as many as is said; `adaptive_class` may decide otherwise, every
    `adaptive_interval`. `setup_script_commands` come before the worker in the job's script, `extra_script_options`
    into its head. The directory in which this is started has to be there for the jobs too.

    A subclass says which cluster of `dask_jobqueue` it is, and what that has to be told."""

    cluster: ClassVar[str]

    def __init__(
        self, minimum_number_of_workers: int = 1, maximum_number_of_workers: int = 1,
        resources_per_worker: ComputeResources | None = None, queue_name: str = "default",
        setup_script_commands: Sequence[str] | None = None, extra_script_options: Sequence[str] | None = None,
        adaptive_interval: str = "10000ms", disable_nanny_process: bool = False,
        adaptive_class: type[Any] | None = None,
    ) -> None:  # fmt: skip
        self._least = whole_number("minimum_number_of_workers", minimum_number_of_workers, least=0)
        most = whole_number("maximum_number_of_workers", maximum_number_of_workers)
        if most < self._least:
            raise WrongWorkers(
                f"at least {self._least} workers and at most {most} cannot be", hint="swap the two, or leave one away"
            )
        has = ours(resources_per_worker or QueueWorkerResources())
        if not isinstance(has, QueueWorkerResources):
            hint = "give QueueWorkerResources"
            raise WrongResources("resources_per_worker: a job needs to know its memory and time", hint=hint)
        super().__init__(most, has)
        self._has = has
        self._queue = queue_name
        self._commands = list(setup_script_commands or ())
        self._options = list(extra_script_options or ())
        self._interval = adaptive_interval
        self._has_nanny = not disable_nanny_process
        self._adaptive_class = adaptive_class
        self._jobs: Any = None

    def engine(self) -> Engine:
        from turnout.compat.openff.jobqueue import Jobs

        self._jobs = Jobs(self.needs, self.cluster, self._asked(), self._adaptive_class)
        self._jobs.range = self._least, self._number_of_workers, self._interval
        return self._jobs  # type: ignore[no-any-return]

    def job_script(self) -> str:
        """What a worker's job is, before the start and after it."""
        from turnout.compat.openff.jobqueue import job_script

        return self._jobs.script() if self.started else job_script(self.cluster, self._asked())

    def scale(self, number_of_workers: int) -> None:
        """Exactly so many from now on."""
        self._least = whole_number("number_of_workers", number_of_workers)
        super().scale(number_of_workers)

    def job_options(self) -> dict[str, Any]:
        """What a job of this scheduler is told beside what all are."""
        raise NotImplementedError

    def gpu_options(self) -> list[str]:
        """Options for GPUs; asked only if a worker has some."""
        return []

    def _asked(self) -> dict[str, Any]:
        gpus = self.gpu_options() if self._has.number_of_gpus else []
        return {
            "cores": 1, "processes": 1, "memory": f"{self._has.memory} B", "queue": self._queue,
            "walltime": _clock(self._has.seconds), "nanny": self._has_nanny,
            "job_script_prologue": [*_exports(self.needs.cpus), *self._commands],
            "job_extra_directives": [*gpus, *self._options], **self.job_options(),
        }  # fmt: skip


class DaskSLURMBackend(DaskQueueBackend):
    cluster = "SLURMCluster"

    def job_options(self) -> dict[str, Any]:
        return {"job_cpu": self.needs.cpus}

    def gpu_options(self) -> list[str]:
        return [f"--gres=gpu:{self._has.number_of_gpus}"]


class DaskPBSBackend(DaskQueueBackend):
    """`resource_line`: what to ask for after ``-l``, in place of what `resources_per_worker` says."""

    cluster = "PBSCluster"

    def __init__(
        self, minimum_number_of_workers: int = 1, maximum_number_of_workers: int = 1,
        resources_per_worker: ComputeResources | None = None, queue_name: str = "default",
        setup_script_commands: Sequence[str] | None = None, extra_script_options: Sequence[str] | None = None,
        adaptive_interval: str = "10000ms", disable_nanny_process: bool = False, resource_line: str | None = None,
        adaptive_class: type[Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            minimum_number_of_workers, maximum_number_of_workers, resources_per_worker, queue_name,
            setup_script_commands, extra_script_options, adaptive_interval, disable_nanny_process, adaptive_class,
        )  # fmt: skip
        self._resource_line = resource_line

    def job_options(self) -> dict[str, Any]:
        gpus = f":ngpus={self._has.number_of_gpus}" if self._has.number_of_gpus else ""
        asked = f"select=1:ncpus={self.needs.cpus}:mem={_megabytes(self._has.memory)}mb{gpus}"
        return {"resource_spec": self._resource_line or asked}


class DaskSGEBackend(DaskQueueBackend):
    """Threads are slots of the parallel environment ``smp``, and memory is asked for as ``h_vmem`` of each."""

    cluster = "SGECluster"

    def job_options(self) -> dict[str, Any]:
        per_slot = -(-self._has.memory // self.needs.cpus)
        return {"resource_spec": f"h_vmem={_megabytes(per_slot)}M"}

    def gpu_options(self) -> list[str]:
        return [f"-l gpu={self._has.number_of_gpus}"]

    def _asked(self) -> dict[str, Any]:
        asked = super()._asked()
        slots = [f"-pe smp {self.needs.cpus}"] if self.needs.cpus > 1 else []
        return {**asked, "job_extra_directives": [*slots, *asked["job_extra_directives"]]}


class DaskLSFBackend(DaskQueueBackend):
    cluster = "LSFCluster"

    def job_options(self) -> dict[str, Any]:
        minutes = -(-self._has.seconds // 60)
        walltime = f"{minutes // 60:02}:{minutes % 60:02}"  # LSF knows no seconds
        return {"ncpus": self.needs.cpus, "mem": self._has.memory, "walltime": walltime}

    def gpu_options(self) -> list[str]:
        return [f"-gpu num={self._has.number_of_gpus}:j_exclusive=yes"]


def _clock(seconds: int) -> str:
    """With seconds: two parts, some schedulers take for minutes and seconds."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _megabytes(size: int) -> int:
    return -(-size // (1 << 20))


def _exports(threads: int) -> list[str]:
    """Libraries start as many threads as the job has; and a task may start processes, which those of Dask's may not
    by themselves."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return [*(f"export {name}={threads}" for name in names), "export DASK_DISTRIBUTED__WORKER__DAEMON=False"]
