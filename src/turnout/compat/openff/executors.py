"""Backends over `turnout.Executor`: the same tasks on every engine."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from turnout import Executor, Future
from turnout.compat.openff.backend import CalculationBackend, whole_number
from turnout.compat.openff.calling import NAME, call, protocols, takes_resources
from turnout.compat.openff.resources import ComputeResources, QueueWorkerResources
from turnout.futures.engine import Engine, Needs


class ExecutorBackend(CalculationBackend):
    """A subclass says with `engine` where its workers are.

    Tasks may be submitted from any thread, also from done-callbacks. One whose process dies is made again twice, then
    its future fails with the cause. `stop` ends the tasks that go on; those that were not begun are cancelled."""

    _executor: Executor | None = None

    def __init__(self, number_of_workers: int = 1, resources_per_worker: ComputeResources | None = None) -> None:
        super().__init__(number_of_workers, resources_per_worker)
        self._lock = threading.RLock()
        self._named: WeakValueDictionary[str, Future[Any]] = WeakValueDictionary()

    def engine(self) -> Engine | None:
        """A new one at each start; None = processes on this machine."""
        raise NotImplementedError

    @property
    def needs(self) -> Needs:
        """What a worker has, in our words."""
        has = self._resources_per_worker
        memory = has.memory if isinstance(has, QueueWorkerResources) else 0
        return Needs(max(1, has.number_of_threads), has.number_of_gpus, memory)

    def start(self) -> None:
        needs = self.needs
        resources = {"cpus": needs.cpus, "gpus": needs.gpus, "memory": needs.memory}
        executor = Executor(self.engine(), self._number_of_workers, resources)
        self._executor = executor.__enter__()

    def stop(self) -> None:
        executor, self._executor = self._executor, None
        self._named.clear()
        if executor is not None:
            executor.stop()

    def submit_task(
        self, function: Callable[..., Any], *args: Any, key: str | None = None, **kwargs: Any
    ) -> Future[Any]:
        """Futures among the arguments, however deep, are waited for, and the function gets their results; if it takes
        `available_resources`, it gets those too, unless the caller gave some. While the future of a `key` lives and was
        not released, the same key gives the same future. RuntimeError when the backend has not started."""
        executor = self._executor
        if executor is None:
            raise RuntimeError("The backend has not been started.")
        if NAME not in kwargs and takes_resources(function):
            function, args, kwargs = call, (function, self._resources_per_worker, protocols(), args, kwargs), {}
        if key is None:
            return _named(executor.submit(function, *args, **kwargs), f"task-{uuid.uuid4().hex}")
        with self._lock:
            known = self._named.get(key)
            if known is None or known.is_released or known.cancelled():
                known = self._named[key] = _named(executor.submit(function, *args, **kwargs), key)
            return known

    def scale(self, number_of_workers: int) -> None:
        self._number_of_workers = whole_number("number_of_workers", number_of_workers)
        if self._executor is not None:
            self._executor.scale(number_of_workers)


def _named(future: Future[Any], key: str) -> Future[Any]:
    future.key = key
    return future


class ProcessBackend(ExecutorBackend):
    """Processes on this machine, warm, each with threads and GPUs of its own."""

    def engine(self) -> None:
        return None


class ParslBackend(ExecutorBackend):
    """Workers of Parsl's HighThroughputExecutor: on this machine, or as a `parsl.Config` says, or a function that makes
    one, which a backend needs to start again."""

    def __init__(
        self, number_of_workers: int = 1, resources_per_worker: ComputeResources | None = None, *, config: Any = None
    ) -> None:
        super().__init__(number_of_workers, resources_per_worker)
        self._config = config

    def engine(self) -> Engine:
        from turnout.futures.parsl import ParslEngine

        return ParslEngine(self._number_of_workers, self.needs, config=self._config)


class CeleryBackend(ExecutorBackend):
    """Workers of Celery's, that take tasks from `broker` (``redis://localhost:6379/0``): on this machine, or those
    that others started with the same `queue` and `key`."""

    def __init__(
        self, number_of_workers: int = 1, resources_per_worker: ComputeResources | None = None, *, broker: str,
        queue: str | None = None, key: bytes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(number_of_workers, resources_per_worker)
        self._broker = broker
        self._queue = queue
        self._key = key

    def engine(self) -> Engine:
        from turnout.futures.celery import CeleryEngine

        workers = self._number_of_workers if self._queue is None else None
        return CeleryEngine(self._broker, self.needs, workers=workers, queue=self._queue, key=self._key)


class RayBackend(ExecutorBackend):
    """Workers of Ray's: on this machine, or of the cluster at `address`."""

    def __init__(
        self, number_of_workers: int = 1, resources_per_worker: ComputeResources | None = None, *,
        address: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(number_of_workers, resources_per_worker)
        self._address = address

    def engine(self) -> Engine:
        from turnout.futures.ray import RayEngine

        return RayEngine(self._number_of_workers, self.needs, address=self._address)
