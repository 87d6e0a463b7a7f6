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
NEXT = "import turnout\nwith turnout.Executor(workers=1, record=True) as ex: ex.submit(abs, -1)"


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
    assert done.returncode == 0 and "the calls are not recorded yet" in done.stderr
    (cli.home / "config.yaml").unlink()
    subprocess.run([sys.executable, "-c", NEXT], env=user_environment(cli.home), check=True, timeout=60.0)
    assert sorted(run["label"] for run in cli.json("list", "runs")) == ["functions", "halves"]
    assert list((cli.home / "calls").iterdir()) == []


def test_what_a_killed_program_had_made_is_kept_by_the_next(cli: Cli) -> None:
    script = "with turnout.Executor(workers=2, record='long') as ex:\n"
    script += "    print(sum(each.result() for each in [ex.submit(pow, 2, 3) for _ in range(100)]), flush=True)\n"
    script += "    time.sleep(1.2); ex.submit(abs, -1).result(); print('more', flush=True); time.sleep(600)\n"
    start = [sys.executable, "-c", f"import time, turnout\n{script}"]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=user_environment(cli.home)) as killed:
        assert killed.stdout is not None
        assert [killed.stdout.readline() for _ in range(2)] == ["800\n", "more\n"]
        killed.kill()
    subprocess.run([sys.executable, "-c", NEXT], env=user_environment(cli.home), check=True, timeout=60.0)
    wait_until(lambda: {job["state"] for job in cli.json("list", "jobs")} == {"completed", "failed"})
    (run,) = [run for run in cli.json("list", "runs") if run["label"] == "long"]
    said = cli("logs", run["name"]).stdout
    assert said.startswith("101 calls") and "was killed before all were made" in said
