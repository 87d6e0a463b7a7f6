"""The kit of samplers finds faults: each check fails for a sampler that breaks its promise, and says what is wrong."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from turnout.plugin.sampler import Exhausted, Proposal, Result, Sampler, Task
from turnout.search.samplers.grid import GridSampler
from turnout.search.samplers.random import RandomSampler
from turnout.testing.contract.bench import Broken
from turnout.testing.sampling import DISCRETE, SamplerContract


class NoName(RandomSampler):
    name = ""


class TakesAll(RandomSampler):
    def __init__(self, task: Task) -> None:
        Sampler.__init__(self, task)


class ChangesTheSpace(RandomSampler):
    def ask(self, index: int) -> Proposal:
        self.task.space.pop("epochs", None)  # type: ignore[attr-defined]
        return super().ask(index)


class Prints(RandomSampler):
    def tell(self, result: Result) -> None:
        print("told", result.index)


class ForgetsAParameter(RandomSampler):
    def ask(self, index: int) -> Proposal:
        return Proposal(dict(itertools.islice(super().ask(index).params.items(), 2)))


class MemoOfTuples(RandomSampler):
    def ask(self, index: int) -> Proposal:
        return Proposal(super().ask(index).params, {"place": (index, index)})


class Counts(RandomSampler):
    """Whoever asks next gets the next ones."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.mine = itertools.count(1)

    def ask(self, index: int) -> Proposal:
        return super().ask(next(self.mine))


class Chance(RandomSampler):
    numbers = itertools.count(1)

    def ask(self, index: int) -> Proposal:
        return super().ask(next(self.numbers))


class OneAtATime(RandomSampler):
    last = 0

    def tell(self, result: Result) -> None:
        if result.index is not None:
            assert result.index == self.last + 1, "one after the other"
            self.last = result.index


class BeginsAnew(GridSampler):
    is_over = False

    def ask(self, index: int) -> Proposal:
        try:
            return super().ask(1 if self.is_over else index)
        except Exhausted:
            self.is_over = True
            raise


class AddsValues(RandomSampler):
    total = 0.0

    def tell(self, result: Result) -> None:
        self.total += result.values[0]  # type: ignore[operator]


class KnowsItsOwn(RandomSampler):
    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.asked: dict[int | None, Proposal] = {}

    def ask(self, index: int) -> Proposal:
        return self.asked.setdefault(index, super().ask(index))

    def tell(self, result: Result) -> None:
        del self.asked[result.index]


class LeavesAThread(RandomSampler):
    over = threading.Event()

    def ask(self, index: int) -> Proposal:
        threading.Thread(target=self.over.wait, daemon=True).start()
        return super().ask(index)


MUTANTS: dict[str, type[Sampler]] = {
    "it_has_a_name": NoName,
    "bad_options_are_refused": TakesAll,
    "the_task_stays_as_it_is": ChangesTheSpace,
    "it_keeps_quiet": Prints,
    "proposals_lie_in_the_space": ForgetsAParameter,
    "proposals_can_be_written_down": MemoOfTuples,
    "the_same_seed_gives_the_same": Chance,
    "asking_again_gives_the_same": Counts,
    "many_runs_at_once": OneAtATime,
    "the_end_is_final": BeginsAnew,
    "bad_results_do_no_harm": AddsValues,
    "results_that_it_did_not_ask_for": KnowsItsOwn,
    "another_instance_goes_on": Counts,
}


def check(name: str, kind: type[Sampler]) -> None:
    class Contract(SamplerContract):
        space = DISCRETE

        def make_sampler(self, task: Task) -> Sampler:
            return kind(task)

    getattr(Contract(), f"test_{name}")()


def checks() -> list[Any]:
    return [name for name in vars(SamplerContract) if name.startswith("test_")]


def test_every_check_has_a_sampler_that_it_catches() -> None:
    assert [name.removeprefix("test_") for name in checks()] == list(MUTANTS)


def test_every_check_says_what_is_promised() -> None:
    assert all(getattr(SamplerContract, name).__doc__ for name in checks())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_promise_is_seen(name: str) -> None:
    with pytest.raises((Broken, AssertionError, TypeError, KeyError)) as caught:
        check(name, MUTANTS[name])
    assert str(caught.value)


def test_a_thread_that_is_left_is_seen() -> None:
    with pytest.raises(Broken, match="no thread is left"):
        check("it_keeps_quiet", LeavesAThread)
    LeavesAThread.over.set()
