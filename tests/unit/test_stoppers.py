"""Stoppers, each for itself: whom it ends, from when on, and in which words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from random import Random

import pytest

from turnout.plugin.sampler import BadOption, Goal, Objective, Outcome
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.search.stoppers.curve import CurveStopper
from turnout.search.stoppers.halving import HalvingStopper
from turnout.search.stoppers.hyperband import HyperbandStopper
from turnout.search.stoppers.median import MedianStopper, PercentileStopper
from turnout.search.stoppers.patience import PatienceStopper
from turnout.search.stoppers.threshold import ThresholdStopper
from turnout.search.stoppers.wall_time import WallTimeStopper

MIN, MAX = Goal.MINIMIZE, Goal.MAXIMIZE


def make(kind: type[Stopper], goal: Goal = MIN, /, **options: object) -> Stopper:
    return kind(Watch(Objective("loss", goal), options))


def points(values: Iterable[float], first: int = 0, apart: int = 1) -> list[Point]:
    return [Point(first + place * apart, value) for place, value in enumerate(values)]


def tell(stopper: Stopper, curves: Mapping[int, Iterable[float]], outcome: Outcome = Outcome.COMPLETED) -> None:
    for run, values in curves.items():
        stopper.ended(run, points(values), outcome)


class TestMedian:
    def test_the_reason_is_for_people(self) -> None:
        stopper = make(MedianStopper, MAX)
        tell(stopper, {1: [0.94] * 13, 2: [0.95] * 13, 3: [0.96] * 13})
        assert stopper.judge(4, points([0.91] * 13), 1.0) == "0.91 is worse than the median 0.95 at step 12"
        assert stopper.judge(4, points([0.95] * 13), 1.0) is None

    def test_its_best_value_counts_against_their_averages(self) -> None:
        stopper = make(MedianStopper)
        tell(stopper, {run: [9.0, 1.0] for run in (1, 2, 3)})
        assert stopper.judge(4, points([20.0, 4.9]), 1.0) is None
        assert stopper.judge(4, points([5.1, 20.0]), 1.0) == "5.1 is worse than the median 5 at step 1"

    def test_only_who_came_as_far_is_counted(self) -> None:
        stopper = make(MedianStopper, min_runs=2)
        tell(stopper, {1: [1.0, 1.0], 2: [1.0]})
        assert stopper.judge(3, points([5.0]), 1.0) is not None
        assert stopper.judge(3, points([5.0, 5.0]), 1.0) is None

    def test_what_failed_or_was_cancelled_does_not_count_and_what_was_stopped_does(self) -> None:
        stopper = make(MedianStopper)
        tell(stopper, {1: [1.0], 2: [1.0], 3: [1.0]}, Outcome.FAILED)
        tell(stopper, {4: [1.0], 5: [1.0], 6: [1.0]}, Outcome.CANCELLED)
        assert stopper.judge(9, points([5.0]), 1.0) is None
        tell(stopper, {7: [1.0], 8: [1.0], 10: [1.0]}, Outcome.STOPPED)
        assert stopper.judge(9, points([5.0]), 1.0) is not None

    def test_runs_need_not_tell_the_same_steps(self) -> None:
        stopper = make(MedianStopper)
        for run in (1, 2, 3):
            stopper.ended(run, points([3.0, 2.0, 1.0], first=run, apart=10), Outcome.COMPLETED)
        assert stopper.judge(4, points([4.0], first=17), 1.0) == "4 is worse than the median 2.5 at step 17"

    def test_steps_may_be_large(self) -> None:
        stopper = make(MedianStopper)
        for run in (1, 2, 3):
            stopper.ended(run, points([1.0] * 50, first=0, apart=100_003), Outcome.COMPLETED)
        assert stopper.judge(4, points([2.0] * 20, first=5, apart=100_000), 1.0) is not None
        assert stopper.judge(4, points([0.5] * 20, first=5, apart=100_000), 1.0) is None

    def test_its_memory_has_a_bound(self) -> None:
        """Beyond a thousand runs the first are forgotten: then only the others are what a run is compared with."""
        stopper = make(MedianStopper)
        tell(stopper, {run: [1.0] for run in range(1, 1001)})
        assert stopper.judge(5000, points([1.5]), 1.0) is not None
        tell(stopper, {run: [2.0] for run in range(1001, 2001)})
        assert stopper.judge(5000, points([1.5]), 1.0) is None
        assert stopper.judge(5000, points([2.5]), 1.0) is not None


class TestPercentile:
    def test_only_the_best_go_on(self) -> None:
        stopper = make(PercentileStopper, percentile=25)
        tell(stopper, {run: [float(run)] for run in range(1, 6)})
        assert stopper.judge(9, points([2.0]), 1.0) is None
        assert stopper.judge(9, points([2.1]), 1.0) == "2.1 is worse than 2, which the best 25 % reach, at step 0"

    def test_what_others_had_reached_counts(self) -> None:
        stopper = make(PercentileStopper, MAX, percentile=50)
        tell(stopper, {run: [7.0, 1.0] for run in (1, 2, 3)})
        assert stopper.judge(9, points([6.0, 6.0]), 1.0) is not None
        assert stopper.judge(9, points([7.0, 0.0]), 1.0) is None


class TestHalving:
    def test_one_in_three_goes_on(self) -> None:
        stopper = make(HalvingStopper, min_resource=2, eta=3)
        answers = {run: stopper.judge(run, points([float(run)] * 3), 1.0) for run in range(1, 7)}
        assert answers[1] is None
        assert answers[2] == "2 is not the best of 2 runs at step 2"
        assert answers[6] == "6 is not among the best 2 of 6 runs at step 2"
        assert stopper.judge(2, points([2.0] * 3), 1.0) is None

    def test_nothing_happens_before_the_first_rung_and_on_the_next_it_begins_anew(self) -> None:
        stopper = make(HalvingStopper, min_resource=2, eta=3)
        stopper.judge(1, points([1.0] * 3), 1.0)
        assert stopper.judge(2, points([9.0] * 2), 1.0) is None
        assert stopper.judge(2, points([9.0] * 3), 1.0) is not None
        assert stopper.judge(2, points([9.0] * 7), 1.0) is None

    def test_who_comes_later_may_push_another_out(self) -> None:
        stopper = make(HalvingStopper)
        assert stopper.judge(1, points([5.0, 5.0]), 1.0) is None
        assert stopper.judge(2, points([4.0, 4.0]), 1.0) is None
        assert stopper.judge(1, points([5.0, 5.0]), 1.0) == "5 is not the best of 2 runs at step 1"

    def test_equals_are_not_ended(self) -> None:
        stopper = make(HalvingStopper)
        assert [stopper.judge(run, points([1.0, 1.0]), 1.0) for run in range(1, 5)] == [None] * 4

    def test_with_min_runs_it_waits_for_others(self) -> None:
        stopper = make(HalvingStopper, min_runs=3)
        answers = [stopper.judge(run, points([float(run)] * 2), 1.0) for run in (1, 2, 3)]
        assert answers[:2] == [None, None] and answers[2] is not None

    def test_there_is_no_rung_from_max_resource_on(self) -> None:
        stopper = make(HalvingStopper, min_resource=1, eta=2, max_resource=4)
        stopper.judge(1, points([1.0, 1.0, 9.0, 9.0, 9.0]), 1.0)
        assert stopper.judge(2, points([2.0, 2.0, 0.5, 0.5, 0.5]), 1.0) is None

    def test_who_failed_is_no_measure(self) -> None:
        stopper = make(HalvingStopper)
        stopper.judge(1, points([0.0, 0.0]), 1.0)
        stopper.ended(1, points([0.0, 0.0]), Outcome.FAILED)
        assert stopper.judge(2, points([5.0, 5.0]), 1.0) is None

    def test_a_run_that_is_older_than_all_it_remembers_is_judged_all_the_same(self) -> None:
        stopper = make(HalvingStopper)
        tell(stopper, {run: [float(run)] * 2 for run in range(2, 1003)})
        assert stopper.judge(1, points([0.5] * 2), 1.0) is None
        assert stopper.judge(1, points([2000.0] * 2), 1.0) is not None


class TestHyperband:
    def test_brackets_get_runs_by_their_number_early_ones_more(self) -> None:
        stopper = make(HyperbandStopper, max_resource=9, eta=3)
        assert isinstance(stopper, HyperbandStopper)
        found = [stopper.bracket_of(run) for run in range(1, 1001)]
        counts = [found.count(bracket) for bracket in range(3)]
        assert counts == pytest.approx([1000 * share / 16.5 for share in (9, 4.5, 3)], abs=3)
        assert set(found[:12]) == {0, 1, 2}

    def test_a_run_is_compared_only_within_its_bracket(self) -> None:
        stopper = make(HyperbandStopper, max_resource=9, eta=3)
        assert isinstance(stopper, HyperbandStopper)
        early = [run for run in range(1, 100) if stopper.bracket_of(run) == 0]
        late = [run for run in range(1, 100) if stopper.bracket_of(run) == 1]
        last = [run for run in range(1, 100) if stopper.bracket_of(run) == 2]
        tell(stopper, {run: [1.0] * 9 for run in (*early[:4], *late[:4], *last[:4])})
        assert stopper.judge(early[5], points([5.0, 5.0]), 1.0) is not None
        assert stopper.judge(late[5], points([5.0, 5.0]), 1.0) is None
        assert stopper.judge(late[5], points([5.0] * 4), 1.0) is not None
        assert stopper.judge(last[5], points([5.0] * 9), 1.0) is None


CURVES: dict[str, Callable[[int], float]] = {
    "power": lambda x: 0.3 + 2 * (x + 1) ** -0.7,
    "exponential": lambda x: 0.3 + 2 * math.exp(-x / 12),
    "slow": lambda x: 0.3 + 2 / math.log(x + 3),
    "hyperbolic": lambda x: 0.3 + 2 / (1 + x / 9),
}


class TestCurve:
    @pytest.mark.parametrize("shape", CURVES)
    @pytest.mark.parametrize("goal", Goal)
    def test_where_a_curve_leads_is_known_early(self, shape: str, goal: Goal) -> None:
        """What ends 20 % worse than the best is ended in the first third; what ends better never."""
        sign = 1 if goal is MIN else -1
        end = CURVES[shape](99)
        for best, is_ended in ((end / 1.2, True), (end * 1.001, False)):
            stopper = make(CurveStopper, goal, epochs=99)
            tell(stopper, {1: [sign * best]})
            whys = [stopper.judge(2, points(sign * CURVES[shape](x) for x in range(n)), 1.0) for n in range(1, 34)]
            assert any(whys) == is_ended, whys

    def test_noise_does_not_end_the_best(self) -> None:
        random = Random(7)
        stopper = make(CurveStopper, epochs=99)
        tell(stopper, {1: [CURVES["power"](99)]})
        noisy = [CURVES["power"](x) - 0.05 + random.gauss(0, 0.02) for x in range(100)]
        assert not any(stopper.judge(2, points(noisy[:count]), 1.0) for count in range(20, 100))

    def test_the_reason_tells_both_values(self) -> None:
        stopper = make(CurveStopper, MAX, epochs=20)
        tell(stopper, {1: [0.9]})
        why = stopper.judge(2, points(0.5 - 0.3 * 0.5**x for x in range(10)), 1.0)
        assert why == "it is heading for 0.5 at step 20, too far from the best, 0.9"

    def test_only_who_completed_is_a_measure(self) -> None:
        stopper = make(CurveStopper, epochs=20)
        tell(stopper, {1: [0.1]}, Outcome.STOPPED)
        tell(stopper, {2: []})
        assert stopper.judge(3, points([5.0] * 10), 1.0) is None

    def test_with_a_gap_it_looks_at_every_so_many_values(self) -> None:
        stopper = make(CurveStopper, epochs=50, gap=5, start=0)
        tell(stopper, {1: [0.1]})
        flat = points([5.0 + 0.1 / (x + 1) for x in range(30)])
        assert [count for count in range(1, 12) if stopper.judge(2, flat[:count], 1.0)] == list(range(5, 12))

    def test_a_run_that_is_nearly_over_may_end_by_itself(self) -> None:
        stopper = make(CurveStopper, epochs=9)
        tell(stopper, {1: [0.1]})
        assert stopper.judge(2, points([5.0] * 9), 1.0) is not None
        assert stopper.judge(2, points([5.0] * 10), 1.0) is None

    def test_the_threshold_is_a_share_of_the_best(self) -> None:
        flat = points([-0.93] * 12)
        for threshold, is_ended in ((0.95, True), (0.9, False)):
            stopper = make(CurveStopper, epochs=50, threshold=threshold)
            tell(stopper, {1: [-1.0]})
            assert (stopper.judge(2, flat, 1.0) is not None) == is_ended


class TestPatience:
    def test_after_so_many_values_without_a_better_one(self) -> None:
        stopper = make(PatienceStopper, steps=3)
        assert stopper.judge(1, points([3.0, 2.0, 2.0, 2.5]), 1.0) is None
        why = stopper.judge(1, points([3.0, 2.0, 2.0, 2.5, 2.0]), 1.0)
        assert why == "it is no better than 2 since step 1, 3 values ago"
        assert stopper.judge(1, points([3.0, 2.0, 2.0, 2.5, 1.9]), 1.0) is None

    def test_better_by_less_than_delta_is_not_better(self) -> None:
        assert make(PatienceStopper, MAX, steps=3, delta=0.5).judge(1, points([1.0, 1.2, 1.4, 1.5]), 1.0) is not None
        assert make(PatienceStopper, MAX, steps=3, delta=0.5).judge(1, points([1.0, 1.2, 1.4, 1.6]), 1.0) is None

    def test_what_is_no_number_is_not_better(self) -> None:
        stopper = make(PatienceStopper, MAX, steps=3)
        assert stopper.judge(1, points([math.nan] * 3), 1.0) == "none of its 3 values is a number"
        assert stopper.judge(1, points([1.0, math.inf, math.nan, math.inf]), 1.0) is not None
        assert stopper.judge(1, points([math.nan, math.nan, 1.0]), 1.0) is None


class TestThreshold:
    @pytest.mark.parametrize(
        ("options", "values", "why"),
        [
            ({"upper": 10}, [9.0, 12.0, 9.0], "12 is above 10 at step 1"),
            ({"lower": 0.5}, [1.0, 0.25], "0.25 is below 0.5 at step 1"),
            ({"lower": 0, "upper": 10}, [0.0, 10.0], None),
            ({}, [1.0, math.nan], "its value is not a number at step 1"),
            ({}, [1.0, -math.inf], "its value is infinite at step 1"),
            ({"upper": 10, "finite": False}, [math.nan], None),
            ({"upper": 10, "finite": False}, [math.inf], "inf is above 10 at step 0"),
            ({"upper": 10, "start": 1}, [12.0, 1.0], None),
            ({"upper": 10, "start": 1}, [12.0, 11.0], "11 is above 10 at step 1"),
        ],
    )
    def test_out_of_bounds(self, options: Mapping[str, object], values: list[float], why: str | None) -> None:
        assert make(ThresholdStopper, **options).judge(1, points(values), 1.0) == why

    def test_one_that_could_end_nothing_is_refused(self) -> None:
        with pytest.raises(BadOption, match="would never stop a run"):
            make(ThresholdStopper, finite=False)


class TestWallTime:
    def test_it_is_asked_without_news_and_ends_whoever_takes_too_long(self) -> None:
        stopper = make(WallTimeStopper, seconds=3600)
        assert WallTimeStopper.every is not None
        assert stopper.judge(1, [], 3600.0) is None
        assert stopper.judge(1, [], 3600.5) == "it has been running for more than 3600 s"

    def test_not_before_others_have_ended(self) -> None:
        stopper = make(WallTimeStopper, seconds=1, min_runs=2)
        tell(stopper, {1: [1.0], 2: [1.0]}, Outcome.FAILED)
        assert stopper.judge(9, [], 5.0) is None
        tell(stopper, {3: [1.0], 4: [1.0]})
        assert stopper.judge(9, [], 5.0) is not None


@pytest.mark.parametrize(
    ("kind", "options", "option", "message"),
    [
        (MedianStopper, {"strat": 3}, "strat", "stopper median has no option 'strat'; did you mean start?"),
        (MedianStopper, {"xyz": 3}, "xyz", "stopper median has no option 'xyz'; it has start, min_runs"),
        (MedianStopper, {"start": 10**400}, "start", "start must be a whole number, 0 or more"),
        (MedianStopper, {"start": -1}, "start", "stopper median: start must be a whole number, 0 or more, not -1"),
        (CurveStopper, {}, "epochs", "stopper curve needs epochs: the step at which a run is complete"),
        (CurveStopper, {"epochs": 9, "threshold": 2}, "threshold", "threshold must be a number from 0 to 1, not 2"),
        (WallTimeStopper, {"seconds": "1h"}, "seconds", "seconds must be a number, not '1h'"),
        (WallTimeStopper, {}, "seconds", "stopper wall_time needs seconds: how long a run may take"),
        (HyperbandStopper, {"max_resource": 9, "brackets": 9}, "brackets", "brackets must be 1 to 3"),
        (HalvingStopper, {"max_resource": 1}, "max_resource", "max_resource must be above min_resource, 1, not 1"),
        (ThresholdStopper, {"lower": 2, "upper": 1}, "lower", "lower must be at most upper, 1, not 2"),
    ],
)
def test_a_bad_option_is_named_with_what_is_allowed(
    kind: type[Stopper], options: Mapping[str, object], option: str, message: str
) -> None:
    with pytest.raises(BadOption) as caught:
        make(kind, **options)
    assert caught.value.option == option and message in str(caught.value)
