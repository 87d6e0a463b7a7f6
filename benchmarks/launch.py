"""How many short runs a second: ``true``, fully recorded, against tools that record less.

``python -m benchmarks.launch [RUNS]``. xargs records nothing; GNU parallel writes a job log; HyperQueue keeps
output files. The contenders take turns in rounds and the best round of each counts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.lab import Line, fresh_home, held, job, warm
from turnout.client import Client

ROUNDS = 2
FLOOR = 1.5  # times GNU parallel
PROCESSORS = 2


def turnout(count: int) -> float:
    with fresh_home():
        client = Client()
        warm(client)
        begin = time.perf_counter()
        done = client.wait(client.submit(job([("true",)] * count))["job"])
        taken = time.perf_counter() - begin
        assert done["counts"] == {"completed": count}, done["counts"]
        return count / taken


def xargs(count: int) -> float:
    numbers = "\n".join(str(number) for number in range(count))
    begin = time.perf_counter()
    subprocess.run(["xargs", f"-P{PROCESSORS}", "-n1", "true"], input=numbers, text=True, check=True)
    return count / (time.perf_counter() - begin)


def gnu_parallel(count: int) -> float:
    numbers = "\n".join(str(number) for number in range(count))
    with tempfile.TemporaryDirectory() as folder:
        argv = ["parallel", "--will-cite", f"-j{PROCESSORS}", "--joblog", f"{folder}/log", "true"]
        begin = time.perf_counter()
        subprocess.run(argv, input=numbers, text=True, check=True)
        taken = time.perf_counter() - begin
        assert len(Path(f"{folder}/log").read_text().splitlines()) == count + 1
    return count / taken


_HYPERQUEUE = """
import sys, tempfile, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
count = int(sys.argv[1])
with tempfile.TemporaryDirectory() as folder, LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=2))
    client = cluster.client()
    def submit(n):
        job = Job(default_workdir=folder)
        for number in range(n):
            job.program(["true"], stdout=f"{folder}/{number}.out", stderr=f"{folder}/{number}.err")
        client.wait_for_jobs([client.submit(job)])
    submit(20)
    begin = time.perf_counter()
    submit(count)
    print("RESULT", count / (time.perf_counter() - begin))
"""


def hyperqueue(count: int) -> float:
    """Its wait looks once a second, so it gets five times as many: else the last look would count for too much."""
    argv = [sys.executable, "-c", _HYPERQUEUE, str(count * 5)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            return float(line.split()[1])
    raise RuntimeError(done.stderr[-500:])


CONTENDERS: dict[str, Callable[[int], float]] = {
    "turnout": turnout,
    "xargs -P2": xargs,
    "GNU parallel --joblog": gnu_parallel,
    "HyperQueue, output files": hyperqueue,
}


def measure(count: int = 2000) -> list[Line]:
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, contender in CONTENDERS.items():
            if name.startswith("GNU") and shutil.which("parallel") is None:
                continue
            try:
                best[name] = max(best.get(name, 0.0), contender(count))
            except (ImportError, RuntimeError) as error:
                print(f"  {name}: {error}", file=sys.stderr)
    ours = best["turnout"]
    lines = [Line("launch: turnout", ours, "runs/s")]
    for name, rate in best.items():
        if name != "turnout":
            verdict = ""
            if name.startswith("GNU"):
                verdict = held(ours / rate, FLOOR, least=True)
            elif name.startswith("Hyper"):
                verdict = "goal met" if ours > rate else "goal not met"
            lines.append(Line(f"launch: {name}", rate, "runs/s", f"turnout is {ours / rate:.2f} times that", verdict))
    return lines


if __name__ == "__main__":
    for line in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2000):
        print(line)
