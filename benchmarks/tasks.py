"""How many Python calls a second two workers make: of no length, of 1 ms, and with an array of 1 MB in and out.

``python -m benchmarks.tasks [CONTENDER…]``. Each contender has a process of its own; they take turns in rounds, and the
best round of each counts. ``submit`` asks for each call by itself and then for all results; ``map`` gives all inputs at
once. Whoever is not installed is left out.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.calls import WORKERS, a_millisecond, doubled, meet, nothing
from benchmarks.lab import Line, held, seconds

ROUNDS = 2
READY_LIMIT = 150.0  # ms
OVERHEAD_LIMIT = 10.0  # %
MEMORY_LIMIT = 50.0  # MB that a million calls may take
MILLION = 1_000_000

#: How a contender makes calls: all of a function for these inputs, to their results.
Way = Callable[[Callable[[Any], Any], Sequence[Any]], Any]


# --- the contenders: each gives its ways -----------------------------------------------------------------------------


@contextlib.contextmanager
def turnout(engine: Any = None) -> Iterator[dict[str, Way]]:
    from turnout import Executor

    with Executor(engine, workers=WORKERS) as made:
        yield _of_executor(made)


@contextlib.contextmanager
def process_pool_executor() -> Iterator[dict[str, Way]]:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as made:
        yield _of_executor(made)


@contextlib.contextmanager
def loky() -> Iterator[dict[str, Way]]:
    with importlib.import_module("loky").ProcessPoolExecutor(WORKERS) as made:
        yield _of_executor(made)


def _of_executor(made: Any) -> dict[str, Way]:
    return {
        "submit": lambda function, items: [
            each.result() for each in [made.submit(function, item) for item in items]
        ],
        "map": lambda function, items: list(made.map(function, items)),
    }  # fmt: skip


@contextlib.contextmanager
def multiprocessing_pool() -> Iterator[dict[str, Way]]:
    from multiprocessing import Pool

    with Pool(WORKERS) as pool:
        yield {
            "submit": lambda function, items: [
                each.get() for each in [pool.apply_async(function, (item,)) for item in items]
            ],
            "map": pool.map,
            "imap": lambda function, items: list(pool.imap(function, items)),
        }


@contextlib.contextmanager
def dask() -> Iterator[dict[str, Way]]:
    distributed = importlib.import_module("distributed")
    with distributed.Client(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, silence_logs=50) as client:
        yield {
            "submit": lambda function, items: client.gather(
                [client.submit(function, item, pure=False) for item in items]
            ),
            "map": lambda function, items: client.gather(client.map(function, items, pure=False)),
        }


@contextlib.contextmanager
def parsl() -> Iterator[dict[str, Way]]:
    library = importlib.import_module("parsl")
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.providers import LocalProvider

    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        provider = LocalProvider(  # type: ignore[no-untyped-call]
            init_blocks=1, max_blocks=1
        )
        workers = HighThroughputExecutor(
            max_workers_per_node=WORKERS, cores_per_worker=1e-6, provider=provider, encrypted=False
        )
        library.load(Config(executors=[workers], run_dir=folder, initialize_logging=False))
        try:
            yield {
                "submit": lambda function, items: [
                    each.result() for each in [workers.submit(function, {}, item) for item in items]
                ]
            }
        finally:
            library.dfk().cleanup()
            library.clear()


@contextlib.contextmanager
def ray() -> Iterator[dict[str, Way]]:
    library = importlib.import_module("ray")
    library.init(num_cpus=WORKERS, include_dashboard=False, logging_level="error", log_to_driver=False)

    def submit(function: Callable[[Any], Any], items: Sequence[Any]) -> Any:
        remote = library.remote(function)
        return library.get([remote.remote(item) for item in items])

    try:
        yield {"submit": submit}
    finally:
        library.shutdown()


@contextlib.contextmanager
def celery() -> Iterator[dict[str, Way]]:
    importlib.import_module("celery")
    with redis() as address:
        os.environ["BENCHMARK_REDIS"] = address
        code = "from benchmarks.tasks import celery_app; celery_app().worker_main("
        code += f"['worker', '--concurrency={WORKERS}', '--loglevel=CRITICAL', '--without-gossip', '--without-mingle'])"
        env = {**os.environ, "C_FORCE_ROOT": "1"}  # else root is refused when calls are pickles
        quiet = subprocess.DEVNULL
        worker = subprocess.Popen([sys.executable, "-c", code], stdout=quiet, stderr=quiet, env=env)
        call = celery_app().tasks["call"]
        try:
            yield {
                "submit": lambda function, items: [
                    each.get(60) for each in [call.delay(function, item) for item in items]
                ]
            }
        finally:
            worker.terminate()
            worker.wait()


def celery_app() -> Any:
    """The same in the worker and where calls are asked for."""
    address = os.environ["BENCHMARK_REDIS"]
    app: Any = importlib.import_module("celery").Celery("tasks", broker=address, backend=address)
    app.conf.update(
        task_serializer="pickle", result_serializer="pickle", accept_content=["pickle"], worker_prefetch_multiplier=64
    )
    app.task(_call, name="call")
    return app


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """The address of a Redis that keeps nothing on disk."""
    program = shutil.which("redis-server")
    if program is None:
        raise ImportError("there is no redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.01)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def turnout_over(module: str, name: str) -> Iterator[dict[str, Way]]:
    """Our layer over another's workers."""
    from turnout.futures.engine import Needs

    engine = getattr(importlib.import_module(f"turnout.futures.{module}"), name)
    with contextlib.ExitStack() as stack:
        if module == "celery":
            address = stack.enter_context(redis())
            yield stack.enter_context(turnout(engine(address, Needs(), workers=WORKERS)))
        else:
            yield stack.enter_context(turnout(engine(WORKERS, Needs())))


#: Under the name of each: how it is begun, and how many calls of no length are a fair measure of it.
CONTENDERS: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[dict[str, Way]]], int]] = {
    "turnout": (turnout, 20_000),
    "multiprocessing.Pool": (multiprocessing_pool, 20_000),
    "ProcessPoolExecutor": (process_pool_executor, 20_000),
    "loky": (loky, 20_000),
    "Dask": (dask, 2_000),
    "Parsl": (parsl, 1_000),
    "Ray": (ray, 2_000),
    "Celery": (celery, 1_000),
    "turnout over Dask": (lambda: turnout_over("dask", "DaskLocal"), 2_000),
    "turnout over Parsl": (lambda: turnout_over("parsl", "ParslEngine"), 1_000),
    "turnout over Ray": (lambda: turnout_over("ray", "RayEngine"), 2_000),
    "turnout over Celery": (lambda: turnout_over("celery", "CeleryEngine"), 1_000),
}
KINDS = ("no-op", "1 ms", "1 MB array")


def inputs(kind: str, count: int) -> tuple[Callable[[Any], Any], Sequence[Any]]:
    if kind == "no-op":
        return nothing, range(count)
    if kind == "1 ms":
        return a_millisecond, range(min(count, 1000))
    import numpy

    return doubled, [numpy.full(131_072, float(number)) for number in range(200)]


def contend(name: str) -> None:
    """Prints how many calls a second it makes, of each kind in each way. Exit code 3: it is not installed."""
    begin, count = CONTENDERS[name]
    rates: dict[str, float] = {}
    try:
        with begin() as ways:
            for kind in KINDS:
                function, items = inputs(kind, count)
                for way, make in ways.items():
                    make(function, items[:50])
                    rates[f"{kind}, {way}"] = len(items) / seconds(lambda: make(function, items))  # noqa: B023
    except ImportError as error:
        print(f"  {name} is left out: {error}", file=sys.stderr)
        sys.exit(3)
    print("RESULT", json.dumps(rates), flush=True)


def ready() -> float:
    """Milliseconds until all workers have answered."""
    from turnout import Executor

    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        with Executor(workers=WORKERS) as made:
            for each in [made.submit(meet, folder) for _ in range(WORKERS)]:
                each.result()
            return (time.perf_counter() - begin) * 1000


def million() -> None:
    """Prints the memory of this process, in MB, before a million calls, at most amid them, and after."""
    from turnout import Executor

    with Executor(workers=WORKERS) as made:
        assert sum(made.map(nothing, range(10_000))) == sum(range(10_000))
        before = most = _resident()
        begin, total = time.perf_counter(), 0
        for number, each in enumerate(made.map(nothing, range(MILLION))):
            total += each
            if number % 10_000 == 0:
                most = max(most, _resident())
        rate = MILLION / (time.perf_counter() - begin)
        assert total == sum(range(MILLION))
        print("RESULT", json.dumps({"before": before, "most": most, "after": _resident(), "rate": rate}), flush=True)


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


# --- who is ahead ----------------------------------------------------------------------------------------------------


def in_a_process(code: str) -> dict[str, float] | None:
    """What it printed as its result; None when it is not installed. A process of its own imports this module under its
    name, so that workers find what is called."""
    argv = [sys.executable, "-c", f"import benchmarks.tasks as tasks; {code}"]
    root = str(Path(__file__).resolve().parents[1])
    env = {**os.environ, "PYTHONPATH": root, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=600, check=False, env=env)
    if done.returncode == 3:
        return None
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            found: dict[str, float] = json.loads(line.removeprefix("RESULT"))
            return found
    print(f"  {code} failed with exit code {done.returncode}", file=sys.stderr)
    return None


def rounds(names: Sequence[str]) -> dict[str, dict[str, float]]:
    best: dict[str, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for name in names:
            for measure, rate in (in_a_process(f"tasks.contend({name!r})") or {}).items():
                mine = best.setdefault(name, {})
                mine[measure] = max(mine.get(measure, 0.0), rate)
    return best


def verdict(measure: str, name: str, ratio: float) -> str:
    """On a par is within a tenth: rounds differ by as much."""
    kind, way = measure.split(", ")
    if kind == "no-op" and name == "ProcessPoolExecutor":
        return held(ratio, 1.0 if way == "map" else 0.9, least=True)
    if kind == "1 MB array" or (kind == "no-op" and way == "imap"):
        return "goal met" if ratio > 1 else "goal not met"
    return ""


def compare(best: dict[str, dict[str, float]]) -> Iterator[Line]:
    others = {name: rates for name, rates in best.items() if not name.startswith("turnout")}
    for measure, rate in best.get("turnout", {}).items():
        yield Line(f"tasks: {measure}: turnout", rate, "calls/s")
        for name, rates in others.items():
            for theirs in dict.fromkeys((measure, measure.replace(", map", ", imap"))):
                if theirs in rates:
                    ratio = rate / rates[theirs]
                    against = f"turnout is {ratio:.2f} times that"
                    yield Line(
                        f"tasks: {theirs}: {name}", rates[theirs], "calls/s", against, verdict(theirs, name, ratio)
                    )


def overheads(best: dict[str, dict[str, float]]) -> Iterator[Line]:
    for name, rates in best.items():
        bare = best.get(name.removeprefix("turnout over "), {})
        for measure in rates if name.startswith("turnout over ") else ():
            if measure in bare:
                more = (bare[measure] / rates[measure] - 1) * 100
                against = f"{more:+.0f} % time (limit {OVERHEAD_LIMIT:.0f} %)"
                yield Line(f"tasks: {measure}: {name}", rates[measure], "calls/s", against, held(more, OVERHEAD_LIMIT))


def measure(names: Sequence[str]) -> Iterator[Line]:
    best = rounds(names)
    yield from compare(best)
    yield from overheads(best)
    if "turnout" not in best:
        return
    code = "import json; import turnout; print('RESULT', json.dumps({'ms': min(tasks.ready() for _ in range(5))}))"
    begun = in_a_process(code)
    if begun is not None:
        limit = f"limit {READY_LIMIT:.0f} ms"
        yield Line("tasks: both workers are ready", begun["ms"], "ms", limit, held(begun["ms"], READY_LIMIT))
    memory = in_a_process("tasks.million()")
    if memory is not None:
        more = memory["most"] - memory["before"]
        against = f"{memory['before']:.0f} MB before, {memory['after']:.0f} MB after"
        yield Line("tasks: a million through map", memory["rate"], "calls/s")
        yield Line("tasks: memory a million takes at most", more, "MB", against, held(more, MEMORY_LIMIT))


if __name__ == "__main__":
    for line in measure(sys.argv[1:] or list(CONTENDERS)):
        print(line, flush=True)
