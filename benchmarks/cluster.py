"""Many short runs through two nodes of a real Slurm, against this machine without it, and against Slurm's own arrays.

``python -m benchmarks.cluster [RUNS]``, as root, with Slurm installed (``scripts/test-deps slurm``). All nodes of the
cluster are on this machine, so whatever Slurm does costs the runs their processors as well. The contenders take turns
and the best round of each counts. And how long a look at thousands of native jobs takes, and how many commands it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.lab import Line, fresh_home, held, job
from tests.harness import wait_until
from tests.slurm import Cluster, running_cluster
from turnout.client import Client
from turnout.providers.slurm import SlurmProvider

ROUNDS = 2
LIMIT = 1.5  # times the local target's time
NATIVE = 5000
_CONFIG = """\
compute-targets:
  cluster: {service: slurm, allocations: 2, idle: 10m, poll-interval: 1s, directory: %s}
"""


def turnout(cluster: Cluster, target: str, count: int) -> float:
    with fresh_home(**cluster.environment) as folder:
        (folder / "home").mkdir(mode=0o700)
        (folder / "home" / "config.yaml").write_text(_CONFIG % (folder / "shared"))
        client = Client()

        def run(runs: int) -> None:
            done = client.wait(client.submit(replace(job([("true",)] * runs), target=target))["job"])
            assert done["counts"] == {"completed": runs}, done["counts"]

        nodes = 2 if target == "cluster" else 1
        run(50)
        wait_until(lambda: run(50) or sum(node["state"] == "up" for node in client.nodes()) == nodes, 60.0)
        begin = time.perf_counter()
        run(count)
        return time.perf_counter() - begin


def arrays(cluster: Cluster, count: int) -> float:
    """What Slurm needs for as many tasks by itself."""
    env = {**os.environ, **cluster.environment}
    begin = time.perf_counter()
    argv = ["sbatch", "--parsable", f"--array=1-{count}", "--output=/dev/null", "--wrap=true"]
    job_id = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, cwd="/").stdout.strip()
    wait_until(lambda: not cluster("squeue", "-h", "-j", job_id).strip(), 300.0)
    return time.perf_counter() - begin


def look(cluster: Cluster) -> tuple[float, int]:
    """Seconds and native commands of one look at thousands of jobs."""
    env = {**os.environ, **cluster.environment}
    argv = ["sbatch", "--parsable", "--hold", f"--array=1-{NATIVE}", "--output=/dev/null", "--wrap=true"]
    number = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, cwd="/").stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        counted = _counting(Path(folder), env)
        before = dict(os.environ)
        os.environ.update({**cluster.environment, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
        try:
            provider = SlurmProvider({"directory": f"{folder}/shared", "nodes_directory": folder})
            handles = [f"{number}_{task}" for task in range(1, NATIVE + 1)]
            begin = time.perf_counter()
            seen = provider.observe(handles)
            taken = time.perf_counter() - begin
        finally:
            os.environ.clear()
            os.environ.update(before)
        calls = len(counted.read_text().splitlines())
    cluster("scancel", number)
    assert len(seen) == NATIVE and {each.phase.value for each in seen.values()} == {"pending"}
    return taken, calls


def _counting(folder: Path, env: dict[str, str]) -> Path:
    """Commands of Slurm that leave a line each time they are called."""
    (folder / "bin").mkdir()
    log = folder / "calls"
    for name in ("squeue", "sacct", "scontrol"):
        real = subprocess.run(["which", name], env=env, capture_output=True, text=True, check=True).stdout.strip()
        wrapper = folder / "bin" / name
        wrapper.write_text(f'#!/bin/sh\necho {name} >> {log}\nexec {real} "$@"\n')
        wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    return log


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    if os.geteuid() != 0 or shutil.which("sbatch") is None:
        print("cluster: left out, for it needs Slurm and root (scripts/test-deps slurm)")
        return
    with running_cluster(nodes=2) as cluster:
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name in ("local", "cluster"):
                best[name] = min(turnout(cluster, name, count), best.get(name, 1e9))
        native = arrays(cluster, count)
        seconds, calls = look(cluster)
    ratio = best["cluster"] / best["local"]
    print(f"cluster: {count:,} runs of true")
    print(Line("on this machine", best["local"], "s"))
    print(Line("through 2 nodes of Slurm", best["cluster"], "s", f"{ratio:.2f} x (limit {LIMIT})", held(ratio, LIMIT)))
    print(Line("Slurm's own array", native, "s", f"{native / best['cluster']:.1f} x ours"))
    print(Line(f"look at {NATIVE:,} native jobs", seconds, "s"))
    print(Line("  native commands", calls, "", "limit 1", held(calls, 1)))


if __name__ == "__main__":
    main()
