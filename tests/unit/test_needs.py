"""What the ends of others mean for a run that needs them."""

from __future__ import annotations

import pytest

from turnout.model.pipeline import Gate
from turnout.model.state import Reason, RunState
from turnout.schedule.needs import End, Verdict, of_run, of_step

WELL = End(RunState.COMPLETED)
FAILED = End(RunState.FAILED, Reason.EXIT_CODE)
CANCELLED = End(RunState.CANCELLED, Reason.USER)
STOPPED = End(RunState.STOPPED, Reason.PRUNED)
SKIPPED = End(RunState.CANCELLED, Reason.CONDITION)
NONE, IF_WELL, ANYHOW = Gate
WAITS, MET, LOST, PASSED = Verdict


@pytest.mark.parametrize(("end", "verdicts"), [
    (None, (WAITS, WAITS, WAITS)), (WELL, (MET, MET, MET)), (FAILED, (LOST, LOST, MET)),
    (CANCELLED, (LOST, LOST, MET)), (STOPPED, (LOST, LOST, MET)), (SKIPPED, (PASSED, MET, MET)),
])  # fmt: skip
def test_of_a_single_run(end: End | None, verdicts: tuple[Verdict, ...]) -> None:
    assert tuple(of_run(end, gate) for gate in Gate) == verdicts


@pytest.mark.parametrize(("ends", "verdicts"), [
    ({WELL}, (MET, MET, MET)), ({WELL, SKIPPED}, (MET, MET, MET)), ({SKIPPED}, (PASSED, MET, MET)),
    ({WELL, FAILED}, (LOST, LOST, MET)), ({SKIPPED, CANCELLED}, (LOST, LOST, MET)),
])  # fmt: skip
def test_of_all_runs_of_a_step_that_is_over(ends: set[End], verdicts: tuple[Verdict, ...]) -> None:
    assert tuple(of_step(ends, gate, is_over=True) for gate in Gate) == verdicts


@pytest.mark.parametrize(("ends", "verdicts"), [
    (set(), (WAITS, WAITS, WAITS)), ({WELL}, (WAITS, WAITS, WAITS)), ({SKIPPED}, (WAITS, WAITS, WAITS)),
    ({WELL, FAILED}, (LOST, LOST, WAITS)),
])  # fmt: skip
def test_of_a_step_that_goes_on(ends: set[End], verdicts: tuple[Verdict, ...]) -> None:
    """Nobody waits for the rest of what is lost already; who bears failures does."""
    assert tuple(of_step(ends, gate, is_over=False) for gate in Gate) == verdicts
