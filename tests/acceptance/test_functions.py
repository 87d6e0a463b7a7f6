"""Batches of Python calls that are kept as jobs."""

from __future__ import annotations

import subprocess
import sys

from tests.harness import Cli, user_environment, wait_until

SCRIPT = """
import turnout

def half(x):
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2

with turnout.Executor(workers=2, record="halves") as ex:
    these = [ex.submit(half, number) for number in range(10)]
    ex.map(half, range(100))
    ex.submit(abs, -1)
"""


def test_a_batch_is_one_job(cli: Cli) -> None:
    """With counts, failures and timings by function; not a row for each call."""
    (cli.cwd / "script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], cwd=cli.cwd, env=user_environment(cli.home), check=True, timeout=60.0)
    wait_until(lambda: [job["state"] for job in cli.json("list", "jobs")] == ["failed"], what="it is kept")
    (run,) = cli.json("list", "runs")
    assert (run["label"], run["exit_code"]) == ("halves", 1)
    said = cli("logs", run["name"]).stdout
    assert said.startswith("111 calls in ") and ", 55 failed\n" in said
    assert "half: 110 calls" in said and "abs: 1 calls" in said
    assert "2 × ValueError: 9 is odd" in said and 'raise ValueError(f"{x} is odd")' in said
    metrics = cli.json("metrics", run["name"])
    assert (metrics["calls"][0]["value"], metrics["failed"][0]["value"]) == (111, 55)
    assert metrics["half.calls"][0]["value"] == 110


def test_that_it_cannot_be_kept_harms_nothing(cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "config.yaml").write_text("genral: {}\n")
    (cli.cwd / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=cli.cwd, env=user_environment(cli.home), capture_output=True, text=True,
        timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 0 and "the calls are not recorded" in done.stderr
