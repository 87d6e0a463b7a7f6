"""What the benchmarks share: a turnout of their own, a stopwatch, lines of one table."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from turnout.client import Client
from turnout.model.spec import CommandKind, JobSpec, RunSpec

TURNOUT = [sys.executable, "-m", "turnout.cli"]


@dataclass(frozen=True)
class Line:
    """One measurement: `value` with its unit, and how it stands against what it is held to."""

    name: str
    value: float
    unit: str
    against: str = ""
    verdict: str = ""

    def __str__(self) -> str:
        return f"  {self.name:<46} {self.value:>12,.4g} {self.unit:<8} {self.against:<34} {self.verdict}"


def held(value: float, limit: float, *, least: bool = False) -> str:
    return "ok" if (value >= limit if least else value <= limit) else "MISSED"


@contextlib.contextmanager
def fresh_home(**settings: str) -> Iterator[Path]:
    """A state directory that nobody used before, in the environment of this process; its hub is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="tb"))
    before = dict(os.environ)
    os.environ.update({"TURNOUT_HOME": str(folder / "home"), "XDG_RUNTIME_DIR": "", **settings})
    work = folder / "work"
    work.mkdir()
    os.chdir(work)
    try:
        yield folder
    finally:
        subprocess.run([*TURNOUT, "cancel", "all"], capture_output=True)
        subprocess.run([*TURNOUT, "hub", "stop"], capture_output=True)
        os.environ.clear()
        os.environ.update(before)
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


def job(argvs: list[tuple[str, ...]], *, concurrent: int | None = None) -> JobSpec:
    """A job of these commands, without files, with an environment of usual size."""
    env = {name: value for name, value in os.environ.items() if name.isidentifier() and "\n" not in value}
    runs = tuple(RunSpec(argv=argv) for argv in argvs)
    return JobSpec(kind=CommandKind.COMMAND, display=argvs[0], runs=runs, inherited_env=env, concurrent=concurrent)


def warm(client: Client) -> None:
    """Starts hub and agent, and lets them see a few runs."""
    client.wait(client.submit(job([("true",)] * 50))["job"])


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def median(work: Callable[[], object], times: int) -> float:
    return statistics.median(seconds(work) for _ in range(times))
