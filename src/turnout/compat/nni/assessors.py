"""An assessor of NNI as a stopper: an instance of any class with its methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnout.compat.nni.calling import make
from turnout.plugin.sampler import BadOption, Outcome
from turnout.plugin.stopper import Point, Stopper, Watch

METHODS = ("assess_trial",)


def lacking(found: object) -> list[str]:
    """The methods that a class lacks to be an assessor."""
    return [name for name in METHODS if not callable(getattr(found, name, None))]


def assessor_stopper(found: Callable[..., Any], watch: Watch) -> AssessorStopper:
    """A stopper around an instance of this class, made with the watch's options; ``optimize_mode`` is the search's
    where it is not among them and the class takes it. BadOption."""
    return AssessorStopper(watch, make(found, watch.options, {"optimize_mode": watch.objective.goal.value}))


class AssessorStopper(Stopper):
    """It is asked about a trial when there is more of it than the last time: an assessor may count how often."""

    name = "nni"

    def __init__(self, watch: Watch, assessor: Any) -> None:
        super().__init__(watch)
        missing = lacking(assessor)
        if missing:
            raise BadOption(f"{type(assessor).__name__} is no assessor: it has no {', '.join(missing)}")
        self._assessor = assessor
        self._assessed: dict[int, tuple[int, bool]] = {}
        """of each run, how much was known of it, and whether that was good"""

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        if not points or self._is_good(run, points):
            return None
        return f"{type(self._assessor).__name__} finds it bad after {len(points)} results"

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        """An assessor learns of a trial by what it is asked about it; that may have been another instance."""
        if not points:
            return
        self._is_good(run, points)
        self._assessed.pop(run, None)
        end = getattr(self._assessor, "trial_end", None)
        if end is not None:
            end(str(run), outcome is Outcome.COMPLETED)

    def _is_good(self, run: int, points: Sequence[Point]) -> bool:
        known, is_good = self._assessed.get(run, (0, True))
        if len(points) > known:
            is_good = _verdict(self._assessor.assess_trial(str(run), [point.value for point in points]))
            self._assessed[run] = (len(points), is_good)
        return is_good


def _verdict(told: Any) -> bool:
    """Of an AssessResult, whosever it is, or a bool."""
    verdict = getattr(told, "value", told)
    if not isinstance(verdict, bool):
        raise TypeError(f"assess_trial answered {told!r}, which is neither AssessResult.Good nor AssessResult.Bad")
    return verdict
