"""The conformance kit of samplers: what every one of them has to do, as checks that its tests inherit.

A check is one method, `test_...`, whose docstring is the promise.
"""

from __future__ import annotations

import copy
import io
import json
import math
import threading
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, ClassVar

from turnout.plugin.sampler import BadOption, Exhausted, Objective, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.space import Branch, Choice, Normal, Range, Space
from turnout.search.spaces.containing import objection
from turnout.testing.contract.bench import expect

#: True, or why not.
Can = bool | str

#: Something of everything.
SPACE: dict[str, Any] = {
    "lr": Range(1e-4, 0.1, log=True),
    "width": Range(1, 8, whole=True),
    "momentum": Range(0.0, 0.9, step=0.1),
    "batch": Range(10, 500, log=True, step=32, whole=True),
    "shift": Normal(0.0, 2.0),
    "scale": Normal(0.0, 0.5, log=True, step=0.25),
    "optimizer": Choice(("adam", "sgd", None)),
    "depth": Choice((8, 2, 4)),
    "layer": Choice((Branch("conv", {"kernel": Choice((3, 5)), "rate": Range(0.0, 0.5)}), Branch("none"), "dense")),
    "epochs": Choice((3,)),
    "seed": Range(0, 2**31 - 1, whole=True),
}
#: Lists of values alone.
DISCRETE: dict[str, Any] = {
    "lr": Choice((0.1, 0.01, 0.001)),
    "optimizer": Choice(("adam", "sgd", True)),
    "width": Range(1, 8, whole=True),
    "epochs": Choice((3,)),
    "seed": Range(0, 2**31 - 1, whole=True),
}


class SamplerContract:
    """Inherit it under a name that pytest collects, and say how your sampler is made::

    class TestMine(SamplerContract):
        def make_sampler(self, task):
            return MySampler(task)
    """

    space: ClassVar[Space] = SPACE
    """what to search; `DISCRETE`, where it takes lists of values alone"""
    objectives: ClassVar[tuple[Objective, ...]] = (Objective("loss"),)
    options: ClassVar[Mapping[str, object]] = {}
    bad_options: ClassVar[Mapping[str, object]] = {"no_such_option": 1}
    """some that it does not take"""
    runs: ClassVar[int] = 24
    """how many it takes until it has learned something"""
    most: ClassVar[int] = 100
    """one that has made more proposals is taken to have no end"""
    repeats: ClassVar[Can] = True
    """another instance that is told the same proposes the same; or why not"""

    def make_sampler(self, task: Task) -> Sampler:
        raise NotImplementedError

    # --- what it is ---------------------------------------------------------------------------------------------------

    def test_it_has_a_name(self) -> None:
        """By which people choose it; and it says how many proposals it makes ahead, at least one."""
        sampler = self.sampler()
        expect(sampler.name and sampler.name == sampler.name.strip(), "it has a name")
        expect(sampler.ahead >= 1, f"it makes one proposal ahead, or more, not {sampler.ahead}")

    def test_bad_options_are_refused(self) -> None:
        """The constructor raises BadOption, which says what is wrong, for options that it does not take."""
        try:
            self.make_sampler(Task(self.space, self.objectives, 0, {**self.options, **self.bad_options}))
        except BadOption as error:
            expect(str(error), "the error says what is wrong")
        else:
            expect(False, f"{dict(self.bad_options)} raises BadOption")

    def test_the_task_stays_as_it_is(self) -> None:
        """Neither the space nor the options are changed, nor what it was told."""
        task = Task(dict(self.space), self.objectives, 1, dict(self.options))
        before = copy.deepcopy(task)
        sampler = self.make_sampler(task)
        results = self.go(sampler, range(1, self.runs + 1))
        expect(task == before, "the task is as it was")
        for result in results:
            proposal = copy.deepcopy(result.proposal)
            sampler.tell(Result(None, result.proposal, Outcome.COMPLETED, result.values))
            expect(result.proposal == proposal, "a proposal that it is told is as it was")

    def test_it_keeps_quiet(self) -> None:
        """It prints nothing and leaves no thread behind."""
        said = io.StringIO()
        before = set(threading.enumerate())
        with redirect_stdout(said), redirect_stderr(said):
            self.go(self.sampler(), range(1, self.runs + 1))
        expect(not said.getvalue(), f"nothing is printed, not {said.getvalue()!r}")
        left = set(threading.enumerate()) - before
        expect(not left, f"no thread is left, not {left}")

    # --- what it proposes ---------------------------------------------------------------------------------------------

    def test_proposals_lie_in_the_space(self) -> None:
        """Each parameter has one of its values; those of a branch that is chosen are there, and no others."""
        for result in self.go(self.sampler(), range(1, 2 * self.runs + 1)):
            why = objection(self.space, result.proposal.params)
            expect(why is None, f"{dict(result.proposal.params)} lies in the space: {why}")

    def test_proposals_can_be_written_down(self) -> None:
        """Parameters and memos are what JSON can hold, and the same when they are read again."""
        for result in self.go(self.sampler(), range(1, self.runs + 1)):
            expect(_written(result.proposal) == result.proposal, f"{result.proposal} is the same after JSON")

    def test_the_same_seed_gives_the_same(self) -> None:
        """Two instances for the same task that are told the same propose the same."""
        one, other = (self.go(self.sampler(seed=7), range(1, self.runs + 1)) for _ in range(2))
        expect(_params(one) == _params(other), "both propose the same")

    def test_asking_again_gives_the_same(self) -> None:
        """Who asks for a run's parameters twice, with nothing told in between, gets the same: perhaps they could not
        be written down the first time."""
        sampler = self.sampler()
        results = self.go(sampler, range(1, self.runs + 1))
        number = len(results) + 1
        first = self.ask(sampler, number)
        second = self.ask(sampler, number)
        expect(first == second, f"{second} is {first}")

    def test_many_runs_at_once(self) -> None:
        """Proposals can be asked for while others are under way, and their results come in any order."""
        sampler = self.sampler()
        for first in range(1, 3 * self.runs, self.runs):
            asked = [(each, self.ask(sampler, each)) for each in range(first, first + self.runs)]
            for index, proposal in reversed(asked):
                if proposal is not None:
                    sampler.tell(self.result(index, proposal))

    def test_the_end_is_final(self) -> None:
        """If it has one: after Exhausted there is nothing more, however often it is asked and whatever it is told."""
        sampler = self.sampler()
        for index in range(1, self.most + 2):
            try:
                proposal = sampler.ask(index)
            except Exhausted:
                break
            if proposal is None or index > self.most:
                return
            sampler.tell(self.result(index, proposal))
        for _ in range(3):
            try:
                sampler.ask(index)
            except Exhausted:
                sampler.tell(Result(None, Proposal({}), Outcome.FAILED, self.no_values()))
            else:
                expect(False, "it stays exhausted")

    # --- what it is told ----------------------------------------------------------------------------------------------

    def test_bad_results_do_no_harm(self) -> None:
        """Runs that failed, were cancelled or stopped, told nothing, or told what is no number: it goes on."""
        sampler = self.sampler()
        kinds = [
            (Outcome.FAILED, None), (Outcome.CANCELLED, None), (Outcome.CANCELLED, 1.0), (Outcome.FAILED, 1.0),
            (Outcome.STOPPED, 0.5), (Outcome.STOPPED, None), (Outcome.COMPLETED, None), (Outcome.COMPLETED, math.nan),
            (Outcome.COMPLETED, math.inf), (Outcome.COMPLETED, -math.inf), (Outcome.COMPLETED, 1.0),
        ]  # fmt: skip
        for index in range(1, 2 * self.runs + 1):
            proposal = self.ask(sampler, index)
            if proposal is None:
                continue
            outcome, value = kinds[index % len(kinds)]
            sampler.tell(Result(index, proposal, outcome, (value,) * len(self.objectives)))
        self.works(sampler, 2 * self.runs + 1)

    def test_results_that_it_did_not_ask_for(self) -> None:
        """They come from elsewhere: without number or memo, perhaps of parameters that are not in the space."""
        sampler = self.sampler()
        for result in self.go(self.sampler(seed=3), range(1, self.runs + 1)):
            params = dict(result.proposal.params)
            sampler.tell(Result(None, Proposal(params), Outcome.COMPLETED, result.values))
            first = next(iter(params))
            for odd in ({}, {**params, first: "somewhere else"}, {**params, first: 1e9}, {**params, "more": 1}):
                sampler.tell(Result(None, Proposal(odd), Outcome.COMPLETED, result.values))
        self.works(sampler, 1)

    def test_another_instance_goes_on(self) -> None:
        """One that is told all that another one was told, and adopts what is under way, proposes what that one would
        have proposed."""
        sampler, later = self.sampler(), self.sampler()
        results = self.go(sampler, range(1, self.runs + 1))
        number = len(results) + 1
        under_way = {each: self.ask(sampler, each) for each in (number, number + 1)}
        for result in results:
            later.tell(Result(result.index, _written(result.proposal), result.outcome, result.values))
        for index, proposal in under_way.items():
            if proposal is not None:
                later.adopt(index, _written(proposal))
        mine, others = self.ask(sampler, number + 2), self.ask(later, number + 2)
        if self.repeats is True:
            expect(mine == others, f"the other instance proposes {mine}, not {others}")
        for index, proposal in under_way.items():
            if proposal is not None:
                later.tell(self.result(index, _written(proposal)))
        self.works(later, number + 3)

    # --- how --------------------------------------------------------------------------------------------------------

    def sampler(self, seed: int = 0) -> Sampler:
        return self.make_sampler(Task(self.space, self.objectives, seed, self.options))

    def ask(self, sampler: Sampler, index: int) -> Proposal | None:
        """None also at its end."""
        try:
            return sampler.ask(index)
        except Exhausted:
            return None

    def go(self, sampler: Sampler, numbers: Iterable[int]) -> list[Result]:
        """Asks and tells, one after the other, for as long as there is something."""
        found: list[Result] = []
        for index in numbers:
            proposal = self.ask(sampler, index)
            if proposal is None:
                break
            found.append(self.result(index, proposal))
            sampler.tell(found[-1])
        return found

    def works(self, sampler: Sampler, number: int) -> None:
        """It proposes something that lies in the space, or has come to its end."""
        for result in self.go(sampler, range(number, number + 3)):
            why = objection(self.space, result.proposal.params)
            expect(why is None, f"afterwards, {dict(result.proposal.params)} lies in the space: {why}")

    def result(self, index: int, proposal: Proposal) -> Result:
        """A value that depends on the parameters alone."""
        value = math.fsum(_numbers(proposal.params))
        return Result(index, proposal, Outcome.COMPLETED, (value,) * len(self.objectives))

    def no_values(self) -> tuple[None, ...]:
        return (None,) * len(self.objectives)


def _numbers(params: Mapping[str, Any]) -> Iterable[float]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _numbers(value)
        elif isinstance(value, (int, float)) and name != "seed":
            yield abs(value)


def _written(proposal: Proposal) -> Proposal:
    """As it comes back out of a database."""
    return Proposal(json.loads(json.dumps(proposal.params)), json.loads(json.dumps(proposal.memo)))


def _params(results: Iterable[Result]) -> list[Mapping[str, object]]:
    return [result.proposal.params for result in results]
