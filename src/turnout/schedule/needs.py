"""What the ends of those it needs mean for a run of a pipeline."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from turnout.model.pipeline import Gate
from turnout.model.state import Reason, RunState


class End(NamedTuple):
    """How a run is over. One that was skipped is neither good nor bad."""

    state: RunState
    reason: str | None = None

    @property
    def is_skipped(self) -> bool:
        return self.reason == Reason.CONDITION

    @property
    def is_bad(self) -> bool:
        return self.state is not RunState.COMPLETED and not self.is_skipped


class Verdict(Enum):
    """It has to wait on; that is met; it will not be done, because of a bad end, or because of one that was skipped."""

    WAITS = "waits"
    MET = "met"
    LOST = "lost"
    SKIPPED = "skipped"


def of_run(end: End | None, gate: Gate) -> Verdict:
    """For one that needs a single run; None = that is not over. At a gate somebody looks at what was skipped."""
    if end is None:
        return Verdict.WAITS
    if gate is Gate.ANYHOW:
        return Verdict.MET
    if end.is_bad:
        return Verdict.LOST
    return Verdict.SKIPPED if end.is_skipped and gate is Gate.NONE else Verdict.MET


def of_step(ends: Collection[End], gate: Gate, *, is_over: bool) -> Verdict:
    """For one that needs all runs of a step, of which some have ended so. That some were skipped is no matter; that all
    were, is."""
    if gate is not Gate.ANYHOW and any(end.is_bad for end in ends):
        return Verdict.LOST
    if not is_over:
        return Verdict.WAITS
    is_skipped = gate is Gate.NONE and all(end.is_skipped for end in ends)
    return Verdict.SKIPPED if is_skipped else Verdict.MET
