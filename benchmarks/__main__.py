"""All benchmarks, one after the other: ``make bench``, or ``python -m benchmarks [--write FILE]``."""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("launch", "hub", "snapshot", "log", "config", "archive", "cluster", "boxes", "tasks", "search", "pipeline")
_PAGE = """# Benchmarks

What `make bench` printed. All contenders run in one go on the same machine, taking turns; ratios are what to look at,
for absolute figures differ from machine to machine. *limit* and *floor* are what turnout must keep; a *goal* is what
it is after.

Machine: {cpus} processors, {system}, Python {python}.

```
{output}```

| line | what it measures |
|---|---|
| launch | 2,000 runs of `true` on this machine, each with its directory, events, output and exit record, on disk |
| submit | one job of 10,000 distinct runs until it is acknowledged, which means written and synced |
| latency | whole commands, from the shell's start of the process to its end |
| list runs | the hub's answer for 50 runs out of a million |
| log | one `turnout.log(loss=…, step=…)` call; and points from a run's process to the hub's disk, end to end |
| memory | proportional set size (PSS): shared pages are counted once |
| config check | `turnout config check` of a thousand lines, from the shell's start of the process to its end |
| snapshot | 20,000 files: the first capture with all content stored durably; an unchanged second one |
| cluster | 1,000 runs of `true` through two nodes of a real Slurm on this machine; a look at 5,000 jobs |
| boxes | 50 boxes with an idle agent each, over SSH: processor time of the hub and of its ssh programs |
| archive | a workspace of 10,000 runs with events, metrics, output and files into one checked file, and out of it |
| tasks | Python calls on two workers, from the first that is asked for to the last result |
| search | 500 runs of `true` with parameters of their own, to the last's end; and one ask and tell of a sampler |
| pipeline | 2,000 runs of `true` in 20 fans, of 40 steps or one each, whole commands; plans of 100,000 |
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path, help="also write the page with the table")
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    compileall.compile_dir(str(root / "src"), quiet=2)  # as pip does when it installs: what is timed is no compiler
    output, failed = "", False
    for name in options.programs:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"], cwd=root, stdout=subprocess.PIPE, text=True, check=False
        )
        print(done.stdout, end="", flush=True)
        output += done.stdout
        failed = failed or done.returncode != 0 or "MISSED" in done.stdout
    if options.write:
        page = _PAGE.format(
            cpus=os.cpu_count(), system=platform.system(), python=platform.python_version(), output=output
        )
        options.write.write_text(page)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
