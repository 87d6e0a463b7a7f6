"""What a run of a pipeline costs: 2,000 of ``true`` in a chain of fans; and how long plans of 100,000 take.

``python -m benchmarks.pipeline [STAGES]``. A stage is a run that gathers and 99 that wait for it; the next waits for
all of these. Each contender is timed as a whole command, from the shell's start of the process to its end, and none has
files to bring to its runs. Snakemake is in a Python of its own (TURNOUT_BENCH_SNAKEMAKE names the program) and gets a
greedy scheduler, touched files instead of written ones, no waiting for them, and no record of what was done. GNU make
gets targets without files, and starts no shell. The contenders take turns in rounds and the best round of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.lab import TURNOUT, Line, fresh_home, held, job, seconds, warm
from turnout.client import Client
from turnout.pipeline import metapipe, native

ROUNDS = 2
PROCESSORS = 2
FAN = 99
DEAREST = 1.5  # times a run of `launch`
AHEAD_OF_SNAKEMAKE = 5.0
PLANNED = 100_000
PLAN = 3.0  # seconds
Cost = Callable[[int], float]
SINGLE = "turnout, a step for each run"


def launch(stages: int) -> float:
    """Milliseconds for a plain run."""
    count = stages * (FAN + 1)
    with fresh_home():
        client = Client()
        warm(client)
        taken = seconds(lambda: client.wait(client.submit(job([("true",)] * count))["job"]))
    return taken / count * 1000


def turnout(stages: int) -> float:
    return _ours(chain(stages, FAN), stages)


def turnout_single(stages: int) -> float:
    """As many steps as runs."""
    return _ours(singles(stages, FAN), stages)


def _ours(steps: dict[str, Any], stages: int) -> float:
    with fresh_home() as folder:
        warm(Client())
        (folder / "work" / "code").mkdir()
        (folder / "work" / "pipeline.yaml").write_text(_as_yaml(steps) + "code: code\n")
        return _each([*TURNOUT, "pipeline", "pipeline.yaml"], folder / "work", stages)


def chain(stages: int, fan: int) -> dict[str, Any]:
    """Two steps for each stage: one run, and those that wait for it."""
    steps: dict[str, Any] = {}
    for stage in range(stages):
        needs = {"needs": f"fan{stage - 1}"} if stage else {}
        steps[f"gather{stage}"] = {"command": ["true"], **needs}
        steps[f"fan{stage}"] = {"command": ["true"], "needs": f"gather{stage}", "matrix": {"n": list(range(fan))}}
    return steps


def singles(stages: int, fan: int) -> dict[str, Any]:
    """The same graph with a step for each run."""
    steps: dict[str, Any] = {}
    for stage in range(stages):
        needs = {"needs": [f"fan{stage - 1}_{number}" for number in range(fan)]} if stage else {}
        steps[f"gather{stage}"] = {"command": ["true"], **needs}
        for number in range(fan):
            steps[f"fan{stage}_{number}"] = {"command": ["true"], "needs": f"gather{stage}"}
    return steps


_SNAKEFILE = """
STAGES, FAN = {stages}, {fan}
def before(found):
    return [f"fan/{{int(found.stage) - 1}}.{{n}}" for n in range(FAN)] if int(found.stage) else []
rule all:
    input: [f"fan/{{STAGES - 1}}.{{n}}" for n in range(FAN)]
rule gather:
    input: before
    output: touch("gather/{{stage}}")
    shell: "true"
rule fan:
    input: "gather/{{stage}}"
    output: touch("fan/{{stage}}.{{n}}")
    shell: "true"
"""
_LEAST = (
    "--quiet", "all", "--scheduler", "greedy", "--nolock", "--latency-wait", "0", "--drop-metadata",
    "--rerun-triggers", "mtime",
)  # fmt: skip


def snakemake(stages: int) -> float:
    ours = Path(__file__).parents[1] / ".venv" / "snakemake" / "bin" / "snakemake"  # `make bench` puts it there
    program = os.environ.get("TURNOUT_BENCH_SNAKEMAKE", str(ours))
    if not Path(program).exists():
        raise RuntimeError("there is none (TURNOUT_BENCH_SNAKEMAKE names the program)")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Snakefile").write_text(_SNAKEFILE.format(stages=stages, fan=FAN))
        taken = _each([program, "--cores", str(PROCESSORS), *_LEAST], Path(folder), stages)
        assert len(list((Path(folder) / "fan").iterdir())) == stages * FAN
    return taken


def gnu_make(stages: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Makefile").write_text("\n".join(_rules(stages)) + "\n")
        return _each(["make", "-s", f"-j{PROCESSORS}", "all"], Path(folder), stages)


def _rules(stages: int) -> Iterator[str]:
    names = [" ".join(f"fan{stage}.{number}" for number in range(FAN)) for stage in range(stages)]
    gathers = " ".join(f"gather{stage}" for stage in range(stages))
    yield f"all: {names[-1]}"
    yield f".PHONY: all {gathers} {' '.join(names)}"
    for stage, fan in enumerate(names):
        yield f"gather{stage}: {names[stage - 1] if stage else ''}\n\ttrue"
        yield f"{fan}: gather{stage}\n\ttrue"


def _each(argv: list[str], folder: Path, stages: int) -> float:
    """Milliseconds of a whole command for each of its runs."""

    def work() -> None:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900, cwd=folder)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])

    return seconds(work) / (stages * (FAN + 1)) * 1000


CONTENDERS: dict[str, Cost] = {
    "launch": launch,
    "turnout": turnout,
    SINGLE: turnout_single,
    "Snakemake": snakemake,
    "GNU make -j2, keeps nothing": gnu_make,
}


def measure(stages: int = 20) -> list[Line]:
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, contender in CONTENDERS.items():
            try:
                best[name] = min(best.get(name, float("inf")), contender(stages))
            except (RuntimeError, FileNotFoundError) as error:
                print(f"  pipeline: {name}: {error}", file=sys.stderr)
    return [*_compared(best), *planning()]


def _compared(best: dict[str, float]) -> list[Line]:
    ours, plain = best["turnout"], best["launch"]
    found = [Line("pipeline: a run of launch", plain, "ms")]
    for name, cost in best.items():
        if name.startswith("turnout"):
            ratio = cost / plain
            against = f"{ratio:.2f} times a run (limit {DEAREST:g})"
            found.append(Line(f"pipeline: {name}", cost, "ms", against, held(ratio, DEAREST)))
        elif name != "launch":
            times, single = cost / ours, cost / best[SINGLE]
            verdict = held(single, AHEAD_OF_SNAKEMAKE, least=True) if name == "Snakemake" else _goal(single > 1)
            against = f"{times:.3g} and {single:.3g} times ours"
            found.append(Line(f"pipeline: {name}", cost, "ms", against, verdict))
    return found


def _goal(is_met: bool) -> str:
    return "goal met" if is_met else "goal not met"


# --- plans ------------------------------------------------------------------------------------------------------------


def planning() -> list[Line]:
    """Seconds for plans of 100,000 runs, and steps: of what was read already, and as whole commands that show them."""
    third = PLANNED // 3
    files = [f"in/{number:06}.txt" for number in range(third)]
    commands = metapipe.parse(METAPIPE, "pipeline.mp")
    graphs = {"a matrix, files": matrix(PLANNED), "a chain of fans": chain(100, PLANNED // 100 - 1)}
    lines = []
    for name, steps in graphs.items():
        read = native.read({"steps": steps}, "pipeline.yaml")
        lines.append(_planned(f"{PLANNED:,} runs, {name}", partial(native.plan, read, _nothing)))
        lines.append(_planned("the same, `pipeline --dry-run`", partial(_shown, _as_yaml(steps))))
    single = singles(PLANNED // (FAN + 1), FAN)
    read = native.read({"steps": single}, "pipeline.yaml")
    lines.append(_planned(f"{PLANNED:,} steps of a run each", partial(native.plan, read, _nothing)))
    text = _as_yaml(single)
    taken = seconds(partial(_shown, text))
    size = f"a file of {len(text) / 1e6:.1f} MB"
    lines.append(Line("pipeline: plan, the same, `pipeline --dry-run`", taken, "s", size))
    lines.append(_planned(f"{PLANNED:,} runs, Metapipe", partial(metapipe.plan, commands, lambda pattern: files)))
    return lines


def matrix(runs: int) -> dict[str, Any]:
    """Half of the runs make a file each, the others are each done to one of these, and a last one to all."""
    return {
        "make": {
            "matrix": {"a": list(range(10)), "b": list(range(runs // 20))},
            "command": "./make {a} {b} > {output}", "outputs": "made/{a}/{b}.txt",
        },
        "use": {"each": "make", "command": "./use -a {a} {input} > {output}", "outputs": "used/{a}/{b}.txt"},
        "sum": {"collect": "use", "command": "./sum used > {output}", "outputs": "sum.txt"},
    }  # fmt: skip


METAPIPE = """[COMMANDS]
./make {in/*.txt||} > {o}
./use {1.*||} > {o.txt}
./sum {2.*||} > {o}
cat {3.*} > {o}
"""


def _nothing(pattern: str) -> list[str]:
    return []


def _planned(what: str, work: Callable[[], object]) -> Line:
    taken = min(seconds(work) for _ in range(ROUNDS))
    return Line(f"pipeline: plan, {what}", taken, "s", f"limit {PLAN:g} s", held(taken, PLAN))


def _shown(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pipeline.yaml").write_text(text)
        argv = [*TURNOUT, "pipeline", "--dry-run", "pipeline.yaml"]
        subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, check=True)


def _as_yaml(steps: dict[str, Any]) -> str:
    """Lists in a line, as people write them."""
    return yaml.safe_dump({"pipeline": {"steps": steps}}, default_flow_style=None, sort_keys=False, width=1 << 30)


if __name__ == "__main__":
    for line in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        print(line)
