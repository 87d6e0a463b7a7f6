"""All stoppers that turnout brings along keep the contract, and each check of the kit finds who breaks its promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import ClassVar

import pytest

from turnout.plugin.sampler import Goal, Outcome
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.search.stoppers.curve import CurveStopper
from turnout.search.stoppers.halving import HalvingStopper
from turnout.search.stoppers.hyperband import HyperbandStopper
from turnout.search.stoppers.judging import Judging
from turnout.search.stoppers.median import MedianStopper, PercentileStopper
from turnout.search.stoppers.patience import PatienceStopper
from turnout.search.stoppers.threshold import ThresholdStopper
from turnout.search.stoppers.wall_time import WallTimeStopper
from turnout.testing.stopping import StopperContract

_COMMON: list[Mapping[str, object]] = [
    {"start": -1},
    {"start": 1.5},
    {"start": "soon"},
    {"start": True},
    {"min_runs": -1},
]


class TestMedian(StopperContract):
    stopper = MedianStopper
    refused = _COMMON


class TestPercentile(StopperContract):
    stopper = PercentileStopper
    refused = [*_COMMON, {"percentile": 0}, {"percentile": 100}, {"percentile": "50"}]


class TestHalving(StopperContract):
    stopper = HalvingStopper
    refused = [*_COMMON, {"eta": 1}, {"min_resource": 0}, {"max_resource": 1}, {"eta": 2.5}]


class TestHyperband(StopperContract):
    stopper = HyperbandStopper
    options = {"max_resource": 40, "brackets": 3}
    refused = [*_COMMON, {"max_resource": None}, {"max_resource": 1}, {"eta": 1}, {"brackets": 9}, {"brackets": 0}]


class TestCurve(StopperContract):
    stopper = CurveStopper
    options = {"epochs": 39}
    refused = [*_COMMON, {"epochs": None}, {"epochs": 0}, {"threshold": 2}, {"threshold": -0.1}, {"gap": 0}]


class TestPatience(StopperContract):
    stopper = PatienceStopper
    options = {"steps": 5}
    refused = [*_COMMON, {"steps": 0}, {"delta": -1}, {"delta": float("nan")}]


class TestThreshold(StopperContract):
    stopper = ThresholdStopper
    refused = [*_COMMON, {"upper": "high"}, {"lower": 9, "upper": 1}, {"finite": 1}]

    def options_for(self, goal: Goal) -> Mapping[str, object]:
        return {"upper": 5} if goal is Goal.MINIMIZE else {"lower": 5}


class TestWallTime(StopperContract):
    stopper = WallTimeStopper
    options = {"seconds": 60}
    refused = [*_COMMON, {"seconds": None}, {"seconds": 0}, {"seconds": "1h"}]


# --- who breaks a promise ---------------------------------------------------------------------------------------------


class Nameless(MedianStopper):
    name = ""


class TakesAnything(MedianStopper):
    def __init__(self, watch: Watch) -> None:
        super().__init__(Watch(watch.objective))


class EndsNone(Judging):
    name = "none"

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> None:
        return None


class OneGoal(MedianStopper):
    """It takes every metric for one to make small."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._sign = 1.0


class EndsTheFirst(HalvingStopper):
    """What nobody was compared with is not good enough."""

    def verdict(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return super().verdict(run, points, seconds) or ("there is no other" if run == 1 else None)


class Hurried(MedianStopper):
    """It forgets when it should start."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.start = 0


class ChangesItsMind(MedianStopper):
    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._asked = 0

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        self._asked += 1
        return super().judge(run, points, seconds) if self._asked % 7 else None


class Numbered(HalvingStopper):
    """Instances are not alike."""

    made: ClassVar[count[int]] = count()

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.start = next(self.made) % 2 * 10


class LastWordCounts(MedianStopper):
    """It compares with who ended last."""

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        self.set_up_again()
        for each in range(3):
            super().ended(run + each, points, outcome)

    def set_up_again(self) -> None:
        self.__init__(self.watch)  # type: ignore[misc]


class NeedsAPoint(MedianStopper):
    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return super().judge(run, points, seconds) if points[-1].step >= 0 else None


class NoNumbersCount(MedianStopper):
    """The median of what is no number is no number."""

    def costs(self, points: Sequence[Point]) -> list[Point]:
        return [Point(step, self._sign * value) for step, value in points]


class TrustsTheOrder(MedianStopper):
    """The last one in the list is the last one."""

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return self.verdict(run, points, seconds)


class KnowsItsOwn(MedianStopper):
    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self._met: dict[int, int] = dict.fromkeys(range(60, 64), 0)

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        self._met[run] = len(points)
        return super().judge(run, points, seconds)

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        if self._met[run] <= len(points):
            super().ended(run, points, outcome)


MUTANTS: list[tuple[str, type[Stopper]]] = [
    ("it_has_a_name", Nameless),
    ("bad_options_are_refused", TakesAnything),
    ("clear_losers_are_ended", EndsNone),
    ("clear_losers_are_ended", OneGoal),
    ("the_best_is_never_ended", EndsTheFirst),
    ("the_best_is_never_ended", OneGoal),
    ("no_run_is_ended_before_start", Hurried),
    ("the_same_question_has_the_same_answer", ChangesItsMind),
    ("another_instance_told_the_same_decides_the_same", Numbered),
    ("an_instance_that_comes_later_goes_on", LastWordCounts),
    ("runs_without_points_go_on", NeedsAPoint),
    ("values_that_are_no_numbers_spoil_nothing", NoNumbersCount),
    ("steps_in_any_order_are_the_same_curve", TrustsTheOrder),
    ("runs_may_end_that_were_never_judged", KnowsItsOwn),
]


def checks() -> list[str]:
    return [name.removeprefix("test_") for name in vars(StopperContract) if name.startswith("test_")]


def test_every_check_has_a_stopper_that_it_catches() -> None:
    assert set(checks()) == {name for name, _ in MUTANTS}


def test_every_check_says_what_is_promised() -> None:
    assert all(getattr(StopperContract, f"test_{name}").__doc__ for name in checks())


@pytest.mark.parametrize(("name", "mutant"), MUTANTS)
def test_a_broken_promise_is_seen(name: str, mutant: type[Stopper]) -> None:
    contract = type("Contract", (StopperContract,), {"stopper": mutant, "refused": [{"start": -1}]})
    with pytest.raises(AssertionError):
        getattr(contract(), f"test_{name}")()
