"""What one ``turnout.log(loss=0.3, step=4)`` costs, against other ways to write the same number down.

``python benchmarks/log.py [CALLS]``. Each contender runs in a process of its own and writes real files, in rounds
that take turns, so that a busy moment of the machine hits all of them; the best round of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FLOOR = 6.0  # microseconds a call that turnout must stay under
ROUNDS = 3
SLOW_CALLS = 2_000  # for those who would need minutes

#: name -> (a module it needs, what runs before the clock, what is measured with the step in `i`)
CONTENDERS = {
    "turnout.log": ("turnout", "import turnout", "turnout.log(loss=0.3, step=i)"),
    "print JSON, flushed": (
        "json",
        "import json, time; f = open('print.jsonl', 'w')",
        "print(json.dumps({'t': time.time(), 's': i, 'm': {'loss': 0.3}}), file=f, flush=True)",
    ),
    "tensorboardX": (
        "tensorboardX",
        "from tensorboardX import SummaryWriter; w = SummaryWriter('tbx')",
        "w.add_scalar('loss', 0.3, i)",
    ),
    "mlflow": (
        "mlflow",
        "import mlflow; mlflow.set_tracking_uri('sqlite:///mlflow.db'); mlflow.start_run()",
        "mlflow.log_metric('loss', 0.3, step=i)",
    ),
}

_PROGRAM = """
import time
{setup}
def calls(numbers):
    for i in numbers:
        {call}
calls(range(100))
begin = time.perf_counter()
calls(range({count}))
print("RESULT", (time.perf_counter() - begin) / {count} * 1e6)
"""


def microseconds(name: str, count: int) -> float | None:
    """What one call takes, or None where the contender is not installed."""
    module, setup, call = CONTENDERS[name]
    source = str(Path(__file__).resolve().parents[1] / "src")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": source, "TURNOUT_SPOOL": folder}
        if subprocess.run([sys.executable, "-c", f"import {module}"], env=environment, capture_output=True).returncode:
            return None
        program = _PROGRAM.format(setup=setup, call=call, count=count)
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
    return float(done.stdout.rsplit("RESULT", 1)[1])


def main() -> int:
    """Prints the table; the exit code is 1 when turnout misses its floor."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    best: dict[str, float] = {}
    missing: list[str] = []
    for _ in range(ROUNDS):
        for name in [name for name in CONTENDERS if name not in missing]:
            taken = microseconds(name, min(count, SLOW_CALLS) if name == "mlflow" else count)
            if taken is None:
                missing.append(name)
            else:
                best[name] = min(taken, best.get(name, taken))
    ours = best["turnout.log"]
    print(f"log: {count:,} calls each, best of {ROUNDS} rounds")
    for name, taken in best.items():
        print(f"  {name:22} {taken:10.2f} µs/call   {taken / ours:8.2f} × turnout.log")
    for name in missing:
        print(f"  {name:22} not installed, skipped")
    print(f"  floor {FLOOR} µs/call: {'met' if ours < FLOOR else 'MISSED'}")
    return 0 if ours < FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
