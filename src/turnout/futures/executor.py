"""`Executor`: Python functions, called on warm workers here or elsewhere."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from types import TracebackType
from typing import Any, TypeVar

from turnout.errors import InvalidInput
from turnout.futures.engine import Engine, Needs, Terms
from turnout.futures.future import Future
from turnout.futures.mapping import Mapped
from turnout.futures.pool import Pool, Submitted
from turnout.futures.record import Record
from turnout.model.measures import parse_seconds, parse_size

T = TypeVar("T")


class Executor(futures.Executor):
    """Calls functions on `workers` workers, each of which has `resources` (``{"cpus": 2, "memory": "4G", "gpus": 1}``)
    for the one call it is at. They are processes on this machine, unless `target` says where else: the name of a target
    of turnout, on which Dask's workers are started; an engine of `turnout.futures`; or a calculation backend.

    A call whose process dies is made again `retries` times; one that takes longer than `timeout` seconds is ended.
    Each worker first calls `initializer`; so many `workers_per_gpu` share a GPU. With `record`, what came of the calls
    is kept in the end as a job, under that name if it is one.
    """

    def __init__(
        self, target: Any = None, workers: int | None = None,
        resources: Mapping[str, Any] | None = None, *, retries: int = 2, timeout: float | str | None = None,
        initializer: Callable[..., Any] | None = None, initargs: tuple[Any, ...] = (), workers_per_gpu: int = 1,
        record: bool | str = False,
    ) -> None:  # fmt: skip
        count = workers if workers is not None else len(os.sched_getaffinity(0))
        if count < 1:
            raise InvalidInput(f"workers: {count} cannot be", hint="give at least 1")
        needs = _needs(resources or {}, Needs())
        self._terms = Terms(None, _seconds(timeout), _count("retries", retries))
        self._needs = needs
        kept = Record(record if isinstance(record, str) else "functions") if record else None
        if target is None or target == "local":
            from turnout.futures.local.crew import Crew

            first = None if initializer is None else _First(initializer, initargs)
            self._pool = Pool(Crew(count, needs, per_gpu=workers_per_gpu, first=first), count, kept)
            return
        if initializer is not None:
            raise InvalidInput("initializer: only workers of this machine take one", hint="leave out the target")
        self._pool = Pool(_engine(target, count, needs), count, kept)

    def options(self, *, retries: int | None = None, timeout: float | str | None = None, **resources: Any) -> Executor:
        """The same executor, for calls on other terms: ``executor.options(timeout=60, gpus=1).submit(…)``."""
        other = copy.copy(self)
        other._terms = Terms(
            _needs(resources, self._terms.needs or self._needs) if resources else self._terms.needs,
            self._terms.seconds if timeout is None else _seconds(timeout),
            self._terms.retries if retries is None else _count("retries", retries),
        )
        return other

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Calls it as soon as a worker is free. Futures among the arguments, however deep, are waited for, and the
        function gets their results."""
        future: Future[T] = Future()
        self._pool.submit(Submitted(fn, args, kwargs, self._terms, future, self._pool))
        return future

    def map(
        self, fn: Callable[..., T], /, *iterables: Iterable[Any], timeout: float | None = None,
        chunksize: int | None = None, buffersize: int | None = None, ordered: bool = True, progress: bool = False,
    ) -> Iterator[T]:  # fmt: skip
        """What `fn` returns for each; in the order of the input, or as it comes. Many short calls make one message to a
        worker: so many that it takes some milliseconds, unless `chunksize` says how many. Of an input whose length is
        not known, at most `buffersize` items are taken before their results are."""
        for name, given in (("chunksize", chunksize), ("buffersize", buffersize)):
            if given is not None and given < 1:
                raise ValueError(f"{name} must be >= 1")
        self._pool.start()
        mapped = Mapped(self._pool, fn, iterables, self._terms, chunksize, buffersize, is_ordered=ordered)
        return mapped.results(timeout, progress=progress)

    def scale(self, workers: int) -> None:
        """So many from now on; who is at a call makes it first."""
        self._pool.engine.scale(_count("workers", workers, least=1))
        self._pool.workers = workers

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.close(wait=wait, cancel=cancel_futures)

    def stop(self) -> None:
        """Ends all workers now, whatever they are at: what was begun fails, and what was not is cancelled."""
        self._pool.stop()

    def __enter__(self) -> Executor:
        self._pool.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits for all calls; when somebody pressed Ctrl-C, for none."""
        if kind is not None and not issubclass(kind, Exception):
            self.stop()
        else:
            self.shutdown()


def _engine(target: Any, workers: int, needs: Needs) -> Engine:
    """What makes the calls: an engine as it is, a target of ours by its name, or a backend with ``submit_task``."""
    if isinstance(target, Engine):
        return target
    if isinstance(target, str):
        from turnout.futures.dask_target import DaskOnTarget

        return DaskOnTarget(target, workers, needs)
    if hasattr(target, "submit_task"):
        from turnout.futures.backend import BackendEngine

        return BackendEngine(target, needs)
    hint = f"workers={target}" if isinstance(target, int) else "give the name of a target, an engine, or a backend"
    raise InvalidInput(f"target: {target!r} cannot make calls", hint=hint)


class _First:
    """The initializer with its arguments; by a class of ours, so that workers need no more than its name."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args

    def __call__(self) -> None:
        self._function(*self._args)


def _needs(given: Mapping[str, Any], usual: Needs) -> Needs:
    unknown = sorted(set(given) - {"cpus", "gpus", "memory"})
    if unknown:
        raise InvalidInput(f"unknown resource {unknown[0]!r}", hint="known: cpus, gpus, memory")
    memory = given.get("memory", usual.memory)
    try:
        size = parse_size(memory) if isinstance(memory, str) else _count("memory", memory)
    except ValueError as error:
        raise InvalidInput(f"memory: {error}", hint="write it as 500M or 4G") from error
    return Needs(
        _count("cpus", given.get("cpus", usual.cpus), least=1), _count("gpus", given.get("gpus", usual.gpus)), size
    )


def _count(name: str, given: Any, least: int = 0) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InvalidInput(f"{name}: {given!r} cannot be", hint=f"give a whole number, at least {least}")
    return given


def _seconds(given: float | str | None) -> float | None:
    if given is None:
        return None
    try:
        seconds = parse_seconds(given) if isinstance(given, str) else float(given)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"timeout: {error}", hint="give seconds, or a time such as 90s or 15m") from error
    if not seconds > 0:
        raise InvalidInput(f"timeout: {given!r} cannot be", hint="give more than 0 seconds")
    return seconds
