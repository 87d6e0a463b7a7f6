"""Settings: checking a long file, from the shell's start of the process to its end.

``python -m benchmarks.config``
"""

from __future__ import annotations

import subprocess

from benchmarks.lab import TURNOUT, Line, fresh_home, held, median

LINES = 1_000


def long_file() -> str:
    """A thousand lines of the kind people write."""
    lines = ["general: {experiment: long}", "setups:"]
    lines += [f"  s{n}: {{pip-packages: [numpy, torch=={n}], activate: module load cuda}}" for n in range(200)]
    lines += ["external-services:"]
    lines += [f'  c{n}: {{type: cloud, account: "https://me@cloud/{n}", key: secret:KEY{n}}}' for n in range(200)]
    lines += ["compute-targets:"]
    number = 0
    while len(lines) < LINES - 1:
        lines += [f"  t{number}:", "    service: local", f"    max-runs: {number + 1}", f"    setup: s{number % 200}"]
        number += 1
    return "\n".join(lines[: LINES - 1]) + "\n"


def check() -> list[Line]:
    with fresh_home() as folder:
        (folder / "work" / "turnout.yaml").write_text(long_file())

        def run() -> None:
            subprocess.run([*TURNOUT, "config", "check"], check=True, capture_output=True)

        run()
        taken = median(run, 7)
    return [Line("config check: 1,000 lines", taken * 1000, "ms", "limit 300 ms", held(taken, 0.3))]


if __name__ == "__main__":
    for line in check():
        print(line, flush=True)
