"""The conformance kit of stoppers: what every one of them has to do, as checks that its tests inherit.

A check is one method, `test_...`, whose docstring is the promise. Its runs are made up: ordinary ones, which get better
and take a second for each step; a best one, which is better than all others at every step; and clear losers, which
begin badly, get worse, and take five seconds for each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple
from unittest import SkipTest

from turnout.plugin.sampler import BadOption, Goal, Objective, Outcome
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.testing.contract.bench import Broken, expect

#: True, or why not.
Can = bool | str

STEPS = 40
_ORDINARY = 24
_LOSERS = range(_ORDINARY + 2, _ORDINARY + 14)
_BEST = _ORDINARY + 1
_START = 20


class Course(NamedTuple):
    """How a run goes: `cost` at each step, which is the value where less is better, and the seconds a step takes."""

    cost: Callable[[int], float]
    seconds: float = 1.0


BEST = Course(lambda step: 0.5 + 2 / (step + 1))
LOSER = Course(lambda step: 8 + step / 10, seconds=5.0)


def ordinary(number: int) -> Course:
    level = 1 + (number * 7 % _ORDINARY) / _ORDINARY
    return Course(lambda step: level + 2 / (step + 1))


class StopperContract:
    """Inherit it under a name that pytest collects, and say which stopper it is, with options under which it ends the
    losers within 40 steps (counted from 0) and leaves the best alone::

        class TestMine(StopperContract):
            stopper = MyStopper
            options = {"steps": 5}
            refused = [{"steps": 0}, {"steps": "many"}]

    Values are from 0.5 to 12 where less is better; where more is better, they are 10 less that.
    """

    stopper: ClassVar[type[Stopper]]
    options: ClassVar[Mapping[str, object]] = {}
    refused: ClassVar[Sequence[Mapping[str, object]]] = ()
    """options, beside the others, that it does not take"""
    goals: ClassVar[Sequence[Goal]] = tuple(Goal)
    has_start: ClassVar[Can] = True
    """it has the option `start`: the step before which no run is stopped"""

    def options_for(self, goal: Goal) -> Mapping[str, object]:
        """Yours to write where they depend on the goal."""
        return self.options

    # --- what it is ---------------------------------------------------------------------------------------------------

    def test_it_has_a_name(self) -> None:
        """It has a name, by which a search asks for it, and tells how often it has to be asked without news."""
        every = self.stopper.every
        expect(self.stopper.name and isinstance(self.stopper.name, str), "it has a name")
        expect(every is None or every > 0, f"every is None, or a number of seconds, not {every}")

    def test_bad_options_are_refused(self) -> None:
        """The constructor raises BadOption for options that it does not take, before anything runs, and names them."""
        for options in [*self.refused, {"no_such_option": 1}]:
            try:
                self.make(self.goals[0], options)
            except BadOption as error:
                expect(error.option, f"BadOption for {options} says which option it is")
                expect(error.option in str(error), f"its message names the option, not: {error}")
            else:
                raise Broken(f"it takes {options}")

    # --- whom it ends -------------------------------------------------------------------------------------------------

    def test_clear_losers_are_ended(self) -> None:
        """After ordinary runs, each run that is far worse is ended before its last step, with a reason for people."""
        for goal in self.goals:
            stopper = self.after_ordinary_runs(goal)
            for number in _LOSERS:
                reasons = [why for _, why in self.follow(stopper, goal, number, LOSER) if why]
                expect(reasons, f"{goal.value}: run {number}, a clear loser, is ended")
                expect("\n" not in reasons[0], f"the reason is a line of text, not {reasons[0]!r}")

    def test_the_best_is_never_ended(self) -> None:
        """A run that is better than all others at every step goes on, whether it comes first, last or among them."""
        for goal in self.goals:
            for best in (1, _ORDINARY // 2, _BEST):
                stopper = self.make(goal)
                courses = {number: ordinary(number) for number in range(1, _BEST + 1)} | {best: BEST}
                ended = self.all_at_once(stopper, goal, courses)
                expect(best not in ended, f"{goal.value}: the best run goes on; it was ended: {ended.get(best)}")
            stopper = self.after_ordinary_runs(goal)
            self.goes_on(stopper, goal, "after all others")

    def test_no_run_is_ended_before_start(self) -> None:
        """With `start` 20, even a clear loser goes on until it tells step 20, and is ended then."""
        if self.has_start is not True:
            raise SkipTest(f"start: {self.has_start or 'it has no such option'}")
        for goal in self.goals:
            stopper = self.after_ordinary_runs(goal, {"start": _START})
            steps = [step for step, why in self.follow(stopper, goal, _LOSERS[0], LOSER) if why]
            expect(steps, f"{goal.value}: a clear loser is ended")
            expect(steps[0] >= _START, f"{goal.value}: it is not ended before step {_START}, but at {steps[0]}")

    # --- what it may count on -----------------------------------------------------------------------------------------

    def test_the_same_question_has_the_same_answer(self) -> None:
        """Asked again about the same points, with nothing told in between, it decides the same."""
        for goal in self.goals:
            stopper = self.after_ordinary_runs(goal)
            for number, course in ((_BEST, BEST), (_LOSERS[0], LOSER)):
                for step in range(STEPS):
                    first, again, third = (self.ask(stopper, goal, number, course, step) for _ in range(3))
                    expect(first == again == third, f"at step {step} it says {first!r}, then {again!r}, then {third!r}")

    def test_another_instance_told_the_same_decides_the_same(self) -> None:
        """Two instances that hear the same, in the same order, give the same answers."""
        for goal in self.goals:
            courses = self.mixed()
            first, second = (self.all_at_once(self.make(goal), goal, courses) for _ in range(2))
            for number in courses:
                one, other = first.get(number), second.get(number)
                expect(one == other, f"{goal.value}: of run {number}, one says {one}, the other {other}")

    def test_an_instance_that_comes_later_goes_on(self) -> None:
        """One that is told, in any order, how runs ended, and has looked at those that go on, decides like the one
        before it."""
        for goal in self.goals:
            first, later = self.after_ordinary_runs(goal), self.make(goal)
            live: list[tuple[int, Course]] = [(_BEST, BEST), *((number, LOSER) for number in _LOSERS[:4])]
            for number, course in live:
                self.ask(first, goal, number, course, _START)
            for number in range(_ORDINARY, 0, -1):
                self.end(later, goal, number, ordinary(number))
            for number, course in live:
                self.ask(later, goal, number, course, _START)
            for number, course in live:
                old, new = (self.ask(each, goal, number, course, _START) for each in (first, later))
                expect(old == new, f"{goal.value}: of run {number} the first says {old!r}, the later one {new!r}")

    # --- what it must bear --------------------------------------------------------------------------------------------

    def test_runs_without_points_go_on(self) -> None:
        """A run that has just begun and told nothing goes on; that one ends without a word is no error."""
        for goal in self.goals:
            stopper = self.after_ordinary_runs(goal)
            why = self.judge(stopper, _BEST, (), 0.5)
            expect(why is None, f"a run without points goes on; it says {why!r}")
            for number, outcome in enumerate(Outcome, _LOSERS[-1] + 1):
                self.tell_end(stopper, number, (), outcome)
            self.still_works(stopper, goal)

    def test_values_that_are_no_numbers_spoil_nothing(self) -> None:
        """NaN and infinities in some runs change nothing for the others."""
        odd = Course(lambda step: (math.nan, math.inf, -math.inf)[step % 3])
        for goal in self.goals:
            stopper = self.after_ordinary_runs(goal)
            for number in range(_LOSERS[-1] + 1, _LOSERS[-1] + 31):
                self.ask(stopper, goal, number, odd, STEPS - 1)
                self.end(stopper, goal, number, odd)
            self.still_works(stopper, goal)

    def test_steps_in_any_order_are_the_same_curve(self) -> None:
        """Points that come in another order, or with an older value of a step among them, are judged like those in
        order."""
        for goal in self.goals:
            for number, course in ((_BEST, BEST), (_LOSERS[0], LOSER)):
                points = self.points(goal, course, _START)
                doubled = [Point(points[3].step, points[9].value), *reversed(points[5:]), *points[:5]]
                one, other = self.after_ordinary_runs(goal), self.after_ordinary_runs(goal)
                said, odd = self.judge(one, number, points, 21.0), self.judge(other, number, doubled, 21.0)
                expect(said == odd, f"{goal.value}: in order it says {said!r}, in another order {odd!r}")

    def test_runs_may_end_that_were_never_judged(self) -> None:
        """However a run ended, and whether or not it was judged before, `ended` takes it."""
        for goal in self.goals:
            stopper = self.make(goal)
            for number in range(1, _ORDINARY + 1):
                outcome = (Outcome.COMPLETED, Outcome.STOPPED)[number % 2]
                self.end(stopper, goal, number, ordinary(number), outcome, judged=number % 3 == 0)
            self.end(stopper, goal, 100, BEST, Outcome.FAILED)
            self.end(stopper, goal, 101, BEST, Outcome.CANCELLED)
            self.still_works(stopper, goal)

    # --- how it is asked ----------------------------------------------------------------------------------------------

    def make(self, goal: Goal, more: Mapping[str, object] | None = None) -> Stopper:
        return self.stopper(Watch(Objective("loss", goal), {**self.options_for(goal), **(more or {})}))

    def after_ordinary_runs(self, goal: Goal, more: Mapping[str, object] | None = None) -> Stopper:
        stopper = self.make(goal, more)
        for number in range(1, _ORDINARY + 1):
            self.end(stopper, goal, number, ordinary(number))
        return stopper

    def points(self, goal: Goal, course: Course, step: int) -> list[Point]:
        """All it told up to that step."""
        costs = ((each, course.cost(each)) for each in range(step + 1))
        return [Point(each, cost if goal is Goal.MINIMIZE else 10 - cost) for each, cost in costs]

    def ask(self, stopper: Stopper, goal: Goal, number: int, course: Course, step: int) -> str | None:
        return self.judge(stopper, number, self.points(goal, course, step), course.seconds * (step + 1))

    def end(
        self, stopper: Stopper, goal: Goal, number: int, course: Course, outcome: Outcome = Outcome.COMPLETED, *,
        judged: bool = False,
    ) -> None:  # fmt: skip
        if judged:
            self.ask(stopper, goal, number, course, STEPS - 1)
        self.tell_end(stopper, number, self.points(goal, course, STEPS - 1), outcome)

    def follow(self, stopper: Stopper, goal: Goal, number: int, course: Course) -> Iterator[tuple[int, str | None]]:
        """What it says at each step."""
        return ((step, self.ask(stopper, goal, number, course, step)) for step in range(STEPS))

    def all_at_once(self, stopper: Stopper, goal: Goal, courses: Mapping[int, Course]) -> dict[int, tuple[int, str]]:
        """Runs side by side, step by step; those that were ended, with the step and the reason."""
        ended: dict[int, tuple[int, str]] = {}
        for step in range(STEPS):
            for number, course in courses.items():
                why = None if number in ended else self.ask(stopper, goal, number, course, step)
                if why:
                    ended[number] = step, why
                    self.tell_end(stopper, number, self.points(goal, course, step), Outcome.STOPPED)
        return ended

    def mixed(self) -> dict[int, Course]:
        return {number: LOSER if number % 3 == 0 else ordinary(number) for number in range(1, _BEST + 12)}

    def goes_on(self, stopper: Stopper, goal: Goal, when: str) -> None:
        for step, why in self.follow(stopper, goal, _BEST, BEST):
            expect(why is None, f"{goal.value}: the best run goes on {when}; at step {step}: {why}")

    def still_works(self, stopper: Stopper, goal: Goal) -> None:
        """The best goes on, a clear loser is ended."""
        self.goes_on(stopper, goal, "as before")
        reasons = [why for _, why in self.follow(stopper, goal, _LOSERS[0], LOSER) if why]
        expect(reasons, f"{goal.value}: a clear loser is ended as before")

    def judge(self, stopper: Stopper, number: int, points: Sequence[Point], seconds: float) -> str | None:
        """What it says; Broken when it raises."""
        try:
            why = stopper.judge(number, points, seconds)
        except Exception as error:
            raise Broken(f"judge of {_few(points)} raises {type(error).__name__}: {error}") from error
        expect(why is None or isinstance(why, str), f"judge gives a reason, or None, not {why!r}")
        return why

    def tell_end(self, stopper: Stopper, number: int, points: Sequence[Point], outcome: Outcome) -> None:
        try:
            stopper.ended(number, points, outcome)
        except Exception as error:
            what = f"ended with {_few(points)}, {outcome.value},"
            raise Broken(f"{what} raises {type(error).__name__}: {error}") from error


def _few(points: Sequence[Point]) -> str:
    shown = ", ".join(f"{step}: {value:g}" for step, value in points[:3])
    return f"{len(points)} points ({shown}{', ...' if len(points) > 3 else ''})" if points else "no points"
