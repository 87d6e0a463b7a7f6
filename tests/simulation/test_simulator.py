"""The simulator itself: the same seed is the same story everywhere, and can be told."""

from __future__ import annotations

import os
import subprocess
import sys

from turnout.testing.clock import EPOCH, VirtualClock
from turnout.testing.simulator import simulate


def tell(*arguments: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnout.testing.simulator", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, timeout=60
    )


def test_the_same_seed_is_the_same_story() -> None:
    first, second = simulate(7), simulate(7)
    assert first.story() == second.story() and first.seen == second.seen
    assert simulate(8).story() != first.story()


def test_no_order_comes_from_hashes() -> None:
    first, second = (tell("--seed", "11", hash_seed=seed) for seed in ("1", "2"))
    assert first.stdout == second.stdout and first.returncode == second.returncode == 0


def test_a_story_has_the_messages_and_ends_with_its_verdict() -> None:
    lines = tell("--seed", "3").stdout.splitlines()
    assert any(" asks report: " in line for line in lines)
    assert any(" answers " in line for line in lines)
    assert lines[-1].startswith("seed 3: all held, ")


def test_many_seeds_are_counted() -> None:
    told = tell("--seeds", "0..5", "--spare", "rain")
    assert told.returncode == 0, told.stdout
    assert told.stdout.splitlines()[-1].startswith("5 seeds, 0 went wrong, ")
    assert "message lost" not in told.stdout


def test_the_clock_does_what_is_due_in_order() -> None:
    clock, done = VirtualClock(), list[str]()
    clock.after(2.0, lambda: done.append("later"))
    clock.after(1.0, lambda: done.append("first"))
    clock.after(1.0, lambda: done.append("second"))
    clock.after(1.5, lambda: done.append("never")).cancel()
    clock.after(-5.0, lambda: done.append("now"))
    clock.run_until(1.5)
    assert (done, clock.now) == (["now", "first", "second"], 1.5)
    assert (clock.monotonic(), clock.time()) == (1.5, EPOCH + 1.5)
    assert clock.step() and clock.now == 2.0 and done[-1] == "later"
    assert not clock.step()


def test_what_is_done_may_ask_for_more() -> None:
    clock, done = VirtualClock(), list[float]()

    def again() -> None:
        done.append(clock.now)
        clock.after(1.0, again)

    again()
    clock.run_until(3.0)
    assert done == [0.0, 1.0, 2.0, 3.0]
