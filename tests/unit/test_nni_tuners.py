"""Tuners and assessors as they are written for NNI, as samplers and stoppers."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from turnout.compat.nni.assessors import AssessorStopper, assessor_stopper
from turnout.compat.nni.batch import BatchSampler
from turnout.compat.nni.interface import Assessor, AssessResult, NoMoreTrialError, Tuner
from turnout.compat.nni.spaces import to_nni
from turnout.compat.nni.tuners import TunerSampler, tuner_sampler
from turnout.plugin.sampler import BadOption, Exhausted, Goal, Objective, Outcome, Proposal, Result, Task
from turnout.plugin.space import Branch, Choice, Normal, Range, Space
from turnout.plugin.stopper import Point, Watch
from turnout.search.spaces.drawing import draw
from turnout.search.spaces.nni import read
from turnout.testing.sampling import SamplerContract

SPACE: Space = {"x": Choice((1, 2, 3)), "y": Range(0, 1)}
LOSS = (Objective("loss"),)


def task(**options: object) -> Task:
    return Task(SPACE, LOSS, 7, options)


def completed(index: int, proposal: Proposal, value: float | None = 1.0) -> Result:
    return Result(index, proposal, Outcome.COMPLETED, (value,))


class Listing(Tuner):
    """Goes through the choices of x, and writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.left: list[int] = []

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self.left = list(search_space["x"]["_value"])

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        if not self.left:
            raise NoMoreTrialError
        return {"x": self.left.pop(0)}

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        self.told.append(("result", parameter_id, parameters.get("x"), value))

    def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
        self.told.append(("end", parameter_id, success))


class Importing(Listing):
    def import_data(self, data: list[dict[str, Any]]) -> None:
        self.told.append(("import", [(each["parameter"]["x"], each["value"]) for each in data]))
        for each in data:
            self.left.remove(each["parameter"]["x"])


# --- asking and telling -----------------------------------------------------------------------------------------------


def test_a_tuner_proposes_and_is_told() -> None:
    tuner = Listing()
    sampler = TunerSampler(task(), tuner)
    first, second = sampler.ask(1), sampler.ask(2)
    assert first == Proposal({"x": 1}) and second == Proposal({"x": 2})
    sampler.tell(completed(2, second, 0.5))
    sampler.tell(Result(1, first, Outcome.FAILED, (None,)))
    assert tuner.told == [("result", 1, 2, 0.5), ("end", 1, True), ("end", 0, False)]


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.CANCELLED, Outcome.FAILED])
def test_what_did_not_come_to_its_end_has_no_result(outcome: Outcome) -> None:
    tuner = Listing()
    sampler = TunerSampler(task(), tuner)
    proposal = sampler.ask(1)
    assert proposal is not None
    sampler.tell(Result(1, proposal, outcome, (0.5,)))
    assert tuner.told == [("end", 0, False)]


def test_a_run_that_is_asked_for_again_has_the_same_parameters() -> None:
    sampler = TunerSampler(task(), Listing())
    assert sampler.ask(1) == sampler.ask(1) == Proposal({"x": 1}) and sampler.ask(2) == Proposal({"x": 2})


def test_several_objectives_are_told_by_their_names() -> None:
    tuner = Listing()
    sampler = TunerSampler(Task(SPACE, (*LOSS, Objective("size")), 7), tuner)
    proposal = sampler.ask(1)
    assert proposal is not None
    sampler.tell(Result(1, proposal, Outcome.COMPLETED, (0.5, 9.0)))
    assert tuner.told[0] == ("result", 0, 1, {"default": 0.5, "loss": 0.5, "size": 9.0})


def test_there_is_nothing_left_only_when_no_run_goes_on() -> None:
    sampler = TunerSampler(task(), Listing())
    made = [sampler.ask(index) for index in (1, 2, 3)]
    assert sampler.ask(4) is None
    for index, proposal in enumerate(made, 1):
        assert proposal is not None
        sampler.tell(completed(index, proposal))
    for _ in range(2):
        with pytest.raises(Exhausted):
            sampler.ask(4)


def test_an_error_of_that_name_is_nnis_wherever_it_comes_from() -> None:
    foreign = type("NoMoreTrialError", (Exception,), {})

    class Bare:
        """Without a base class, and without what may be left out."""

        def update_search_space(self, space: object) -> None: ...
        def receive_trial_result(self, parameter_id: int, parameters: object, value: float) -> None: ...
        def generate_parameters(self, parameter_id: int) -> object:
            raise foreign

    with pytest.raises(Exhausted):
        TunerSampler(task(), Bare()).ask(1)


def test_another_error_is_the_tuners() -> None:
    class Broken(Listing):
        def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
            raise RuntimeError("no idea")

    with pytest.raises(RuntimeError, match="no idea"):
        TunerSampler(task(), Broken()).ask(1)


def test_a_tuner_may_hand_out_parameters_later() -> None:
    class Late(Listing):
        """As NNI's Evolution: a request that it cannot answer now is answered when a trial ends."""

        def generate_multiple_parameters(self, parameter_id_list: list[int], **kwargs: Any) -> list[Any]:
            (number,) = parameter_id_list
            if number == 0:
                return [{"x": 1}]
            self.open = number
            self.hand_out = kwargs["st_callback"]
            return []

        def trial_end(self, parameter_id: int, success: bool, **kwargs: Any) -> None:
            super().trial_end(parameter_id, success)
            if parameter_id == 0:
                self.hand_out(self.open, {"x": 9})

    tuner = Late()
    sampler = TunerSampler(task(), tuner)
    first = sampler.ask(1)
    assert first is not None and sampler.ask(2) is None
    sampler.tell(completed(1, first))
    second = sampler.ask(2)
    assert second == Proposal({"x": 9})
    sampler.tell(completed(2, second, 3.0))
    assert tuner.told[-2] == ("result", 1, 9, 3.0)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")

    class Numbers(Listing):
        def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
            return {"x": numpy.int64(3), "y": numpy.float32(0.5)}

    proposal = TunerSampler(task(), Numbers()).ask(1)
    assert proposal is not None and json.dumps(proposal.params) == '{"x": 3, "y": 0.5}'


def test_what_is_no_mapping_is_told() -> None:
    class Odd(Listing):
        def generate_parameters(self, parameter_id: int, **kwargs: Any) -> Any:
            return [1, 2]

    with pytest.raises(TypeError, match="no mapping of parameters"):
        TunerSampler(task(), Odd()).ask(1)


# --- another instance goes on -----------------------------------------------------------------------------------------


def restarted(tuner: Tuner, open_runs: Mapping[int, int], results: Mapping[int, tuple[int, Outcome]]) -> TunerSampler:
    """A sampler that is told of these runs and their x, as the hub does after a restart."""
    sampler = TunerSampler(task(), tuner)
    for index, (x, outcome) in results.items():
        sampler.tell(Result(index, Proposal({"x": x}), outcome, (float(x),)))
    for index, x in open_runs.items():
        sampler.adopt(index, Proposal({"x": x}))
    return sampler


def test_who_imports_is_given_what_there_was() -> None:
    tuner = Importing()
    sampler = restarted(tuner, {2: 2}, {1: (1, Outcome.COMPLETED)})
    assert sampler.ask(3) == Proposal({"x": 3}), "neither what is done nor what goes on is proposed again"
    assert tuner.told == [("import", [(1, 1.0)])]
    sampler.tell(completed(2, Proposal({"x": 2}), 5.0))
    assert tuner.told[1:] == [("result", 0, 2, 5.0), ("end", 0, True)]


def test_what_failed_before_is_not_tried_again() -> None:
    tuner = Importing()
    sampler = restarted(tuner, {}, {1: (1, Outcome.FAILED), 2: (2, Outcome.COMPLETED)})
    assert sampler.ask(3) == Proposal({"x": 3})
    assert ("end", 0, False) in tuner.told


def test_a_run_of_before_that_ends_is_not_proposed_again() -> None:
    tuner = Importing()
    sampler = restarted(tuner, {1: 3}, {})
    assert sampler.ask(2) == Proposal({"x": 1})
    sampler.tell(completed(1, Proposal({"x": 3}), 0.25))
    assert ("import", [(3, 0.25)]) in tuner.told
    assert sampler.ask(3) == Proposal({"x": 2}) and sampler.ask(4) is None


def test_who_does_not_import_is_asked_again_and_told() -> None:
    tuner = Listing()
    sampler = restarted(tuner, {3: 3}, {2: (2, Outcome.COMPLETED), 1: (1, Outcome.STOPPED)})
    assert sampler.ask(4) is None
    assert tuner.told == [("end", 0, False), ("result", 1, 2, 2.0), ("end", 1, True)]
    sampler.tell(completed(3, Proposal({"x": 3}), 3.0))
    assert tuner.told[3:] == [("result", 2, 3, 3.0), ("end", 2, True)]


def test_results_from_elsewhere_are_imported_or_left_out() -> None:
    elsewhere = Result(None, Proposal({"x": 2}), Outcome.COMPLETED, (0.5,))
    importing, other = Importing(), Listing()
    for tuner in (importing, other):
        sampler = TunerSampler(task(), tuner)
        sampler.tell(elsewhere)
        sampler.ask(1)
    assert importing.told == [("import", [(2, 0.5)])] and other.told == []


def test_a_seeded_tuner_goes_on_as_if_nothing_had_happened() -> None:
    class Chance(Listing):
        def __init__(self, seed: int = 0) -> None:
            super().__init__()
            self.random = random.Random(seed)

        def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
            return {"y": self.random.random()}

    whole, first = (tuner_sampler(Chance, task()) for _ in range(2))
    wanted = [whole.ask(index) for index in range(1, 7)]
    made = [first.ask(index) for index in range(1, 4)]
    second = tuner_sampler(Chance, task())
    for index, proposal in enumerate(made, 1):
        assert proposal is not None
        second.tell(completed(index, proposal))
    assert [*made, *(second.ask(index) for index in range(4, 7))] == wanted


class Sound(Tuner):
    """Does what a tuner may be expected to do, by chance from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def update_search_space(self, search_space: dict[str, Any]) -> None:
        self.space = read(search_space)

    def generate_parameters(self, parameter_id: int, **kwargs: Any) -> dict[str, Any]:
        return draw(self.space, self.random)

    def receive_trial_result(self, parameter_id: int, parameters: Any, value: Any, **kwargs: Any) -> None:
        assert isinstance(value, float)


class TestASoundTunerKeepsThePromisesOfASampler(SamplerContract):
    def make_sampler(self, task: Task) -> TunerSampler:
        return tuner_sampler(Sound, task)


# --- how it is made ---------------------------------------------------------------------------------------------------


def test_a_class_is_told_which_way_is_better_and_the_seed() -> None:
    made: list[dict[str, object]] = []

    class Keen(Listing):
        def __init__(self, width: int, optimize_mode: str = "maximize", seed: int | None = None) -> None:
            super().__init__()
            made.append({"width": width, "optimize_mode": optimize_mode, "seed": seed})

    tuner_sampler(Keen, task(width=2))
    tuner_sampler(Keen, task(width=2, optimize_mode="maximize", seed=1))
    assert made == [
        {"width": 2, "optimize_mode": "minimize", "seed": 7}, {"width": 2, "optimize_mode": "maximize", "seed": 1},
    ]  # fmt: skip


def test_wrong_arguments_are_bad_options() -> None:
    with pytest.raises(BadOption, match=r"Listing cannot be made: TypeError: .*width"):
        tuner_sampler(Listing, task(width=2))


def test_what_is_no_tuner_is_told() -> None:
    with pytest.raises(BadOption, match="no tuner: it has no update_search_space, receive_trial_result, generate_para"):
        tuner_sampler(object, Task(SPACE))


# --- spaces -----------------------------------------------------------------------------------------------------------


def test_a_space_goes_to_nni_and_comes_back() -> None:
    space: Space = {
        "a": Choice((1, "x", None)), "b": Range(1, 8, whole=True), "c": Range(0, 1), "d": Range(0.1, 1, log=True),
        "e": Range(0, 1, step=0.25), "f": Range(1, 9, log=True, step=0.5), "g": Normal(0, 1),
        "h": Normal(0, 1, log=True), "i": Normal(0, 1, step=0.5), "j": Normal(0, 1, log=True, step=0.5),
        "k": Choice((Branch("none"), Branch("conv", {"width": Range(1, 8, whole=True)}))),
    }  # fmt: skip
    assert read(json.loads(json.dumps(to_nni(space)))) == space
    assert to_nni({"w": Range(1, 8, whole=True, log=True)}) == {"w": {"_type": "qloguniform", "_value": [1, 8, 1]}}


# --- batch ------------------------------------------------------------------------------------------------------------


def test_a_batch_is_tried_in_its_order() -> None:
    listed = ({"x": 1, "y": 2}, {"x": 3})
    sampler = BatchSampler(Task({"all": Choice(listed)}))
    assert [sampler.ask(index) for index in (1, 2)] == [Proposal(each) for each in listed]
    with pytest.raises(Exhausted):
        sampler.ask(3)


@pytest.mark.parametrize(
    "space", [{}, {"a": Choice((1, 2))}, {"a": Range(0, 1)}, {"a": Choice(({},)), "b": Choice(({},))}]
)
def test_what_is_no_batch_is_told(space: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match="one choice"):
        BatchSampler(Task(space))


# --- assessors --------------------------------------------------------------------------------------------------------

WATCH = Watch(Objective("acc", Goal.MAXIMIZE), {})


def curve(*values: float) -> list[Point]:
    return [Point(step, value) for step, value in enumerate(values)]


class Foreign(Enum):
    """NNI's own is another class than ours."""

    Good = True
    Bad = False


class Strict(Assessor):
    """Bad is whose last value is below the best of the runs that completed; it counts how often it is asked."""

    def __init__(self, optimize_mode: str = "minimize") -> None:
        self.optimize_mode = optimize_mode
        self.last: dict[str, float] = {}
        self.best = 0.0
        self.asked: list[tuple[str, int]] = []

    def assess_trial(self, trial_job_id: str, trial_history: Any) -> AssessResult:
        self.asked.append((trial_job_id, len(trial_history)))
        self.last[trial_job_id] = trial_history[-1]
        return AssessResult.Good if trial_history[-1] >= self.best else AssessResult.Bad

    def trial_end(self, trial_job_id: str, success: bool) -> None:
        if success:
            self.best = max(self.best, self.last[trial_job_id])


def test_an_assessor_ends_what_it_finds_bad() -> None:
    stopper = AssessorStopper(WATCH, Strict())
    assert stopper.judge(1, curve(0.5, 0.9), 1.0) is None
    stopper.ended(1, curve(0.5, 0.9), Outcome.COMPLETED)
    assert stopper.judge(2, curve(0.2), 1.0) == "Strict finds it bad after 1 results"
    assert stopper.judge(3, curve(0.95), 1.0) is None


def test_it_is_asked_once_about_the_same() -> None:
    assessor = Strict()
    stopper = AssessorStopper(WATCH, assessor)
    for points in ([], curve(0.5), curve(0.5), curve(0.5, 0.6)):
        stopper.judge(1, points, 1.0)
    stopper.ended(1, curve(0.5, 0.6), Outcome.COMPLETED)
    assert assessor.asked == [("1", 1), ("1", 2)]


def test_another_instance_learns_from_runs_that_are_over() -> None:
    assessor = Strict()
    stopper = AssessorStopper(WATCH, assessor)
    stopper.ended(1, curve(0.5, 0.9), Outcome.COMPLETED)
    stopper.ended(2, curve(0.99), Outcome.FAILED)
    stopper.ended(3, [], Outcome.COMPLETED)
    assert assessor.best == 0.9 and stopper.judge(4, curve(0.8), 1.0)


def test_it_is_told_which_way_is_better() -> None:
    made: list[Strict] = []

    def make(optimize_mode: str = "minimize") -> Strict:
        made.append(Strict(optimize_mode))
        return made[-1]

    assessor_stopper(make, WATCH)
    assert made[0].optimize_mode == "maximize"


@pytest.mark.parametrize("told", [True, AssessResult.Good, Foreign.Good])
def test_any_way_to_say_good(told: object) -> None:
    class Says(Assessor):
        def assess_trial(self, trial_job_id: str, trial_history: Any) -> Any:
            return told

    assert AssessorStopper(WATCH, Says()).judge(1, curve(1.0), 1.0) is None


def test_what_is_neither_good_nor_bad_is_told() -> None:
    class Unsure(Assessor):
        def assess_trial(self, trial_job_id: str, trial_history: Any) -> Any:
            return None

    with pytest.raises(TypeError, match=r"neither AssessResult\.Good nor AssessResult\.Bad"):
        AssessorStopper(WATCH, Unsure()).judge(1, curve(1.0), 1.0)
    with pytest.raises(BadOption, match="no assessor"):
        AssessorStopper(WATCH, object())
