"""The samplers that turnout brings along: what each of them does beyond the contract."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec

import pytest

from turnout.plugin.sampler import BadOption, Exhausted, Goal, Objective, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range
from turnout.search.samplers import libraries
from turnout.search.samplers.dgd import DgdSampler
from turnout.search.samplers.grid import GridSampler
from turnout.search.samplers.optuna_samplers import CmaEsSampler, GpSampler, Nsga2Sampler, TpeSampler
from turnout.search.samplers.qmc import QmcSampler
from turnout.search.samplers.random import RandomSampler
from turnout.search.spaces.functions import ANY_SEED

LOSS = (Objective("loss"),)
ACCURACY = (Objective("accuracy", Goal.MAXIMIZE),)
Score = Callable[[Mapping[str, object]], float]


def number(value: object) -> float:
    assert isinstance(value, (int, float))
    return value


def search(sampler: Sampler, score: Score, runs: int, at_once: int = 1) -> list[tuple[Proposal, float]]:
    """All proposals with their values, in order; so many are under way at the same time."""
    found, waiting = [], []
    for index in range(1, runs + 1):
        proposal = sampler.ask(index)
        assert proposal is not None
        waiting.append((index, proposal))
        if len(waiting) >= at_once:
            number, proposal = waiting.pop(0)
            value = score(proposal.params)
            found.append((proposal, value))
            sampler.tell(Result(number, proposal, Outcome.COMPLETED, (value,)))
    return found


# --- grid, random, qmc ------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_once() -> None:
    sampler = GridSampler(Task({"a": Choice((1, 2)), "b": Choice(("x", "y"))}))
    assert [sampler.ask(each).params for each in range(1, 5)] == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip
    with pytest.raises(Exhausted):
        sampler.ask(5)


def test_a_shuffled_grid_has_the_same_in_another_order() -> None:
    space: dict[str, Parameter] = {"a": Choice(tuple(range(10))), "b": Range(0.0, 1.0)}
    orders = []
    for seed in range(3):
        sampler = GridSampler(Task(space, seed=seed, options={"shuffle": True, "points": 3}))
        orders.append([tuple(sampler.ask(each).params.values()) for each in range(1, 31)])
    assert len(set(map(tuple, orders))) == 3
    assert all(sorted(order) == sorted(orders[0]) and order != sorted(order) for order in orders)


def test_random_parameters_depend_on_seed_and_number_alone() -> None:
    task = Task({"lr": Range(0.0, 1.0)}, seed=5)
    forward = [RandomSampler(task).ask(each).params for each in range(1, 9)]
    backward = [RandomSampler(task).ask(each).params for each in range(8, 0, -1)]
    other = [RandomSampler(Task(task.space, seed=6)).ask(each).params for each in range(1, 9)]
    assert forward == backward[::-1] and forward != other and len({str(each) for each in forward}) == 8


def test_qmc_fills_a_space_evenly() -> None:
    space: dict[str, Parameter] = {"x": Range(0.0, 1.0), "k": Range(1, 4, whole=True), "c": Choice(("a", "b"))}
    sampler = QmcSampler(Task(space, seed=1))
    points = [sampler.ask(each).params for each in range(1, 65)]
    assert sorted(int(number(point["x"]) * 64) for point in points) == list(range(64))
    assert all(sum(point["k"] == each for point in points) == 16 for each in (1, 2, 3, 4))
    assert sum(point["c"] == "a" for point in points) == 32
    assert sampler.ask(600).params == QmcSampler(Task(space, seed=1)).ask(600).params != sampler.ask(601).params


# --- dgd --------------------------------------------------------------------------------------------------------------

BOWL: dict[str, Parameter] = {"x": Choice((9, 1, 5, 3, 7, 2, 8, 4, 6)), "y": Range(1, 9, whole=True)}


def bowl(params: Mapping[str, object]) -> float:
    return abs(number(params["x"]) - 3) + abs(number(params["y"]) - 7)


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("objectives", [LOSS, ACCURACY])
def test_dgd_goes_down_or_up_as_it_is_asked_to(objectives: tuple[Objective, ...], at_once: int) -> None:
    sign = 1 if objectives == LOSS else -1
    found = search(DgdSampler(Task(BOWL, objectives, 3)), lambda params: sign * bowl(params), 120, at_once)
    assert found[-1][1] * sign <= 1 and any(proposal.params == {"x": 3, "y": 7} for proposal, _ in found)


def test_dgd_stays_near_the_best() -> None:
    sampler = DgdSampler(Task(BOWL, LOSS))
    sampler.tell(Result(None, Proposal({"x": 5, "y": 5}), Outcome.COMPLETED, (1.0,)))
    near = [sampler.ask(each).params for each in range(1, 6)]
    steps = [(4, 5), (6, 5), (5, 4), (5, 6)]
    assert sorted((number(each["x"]), number(each["y"])) for each in near[:4]) == sorted(steps)
    assert (near[4]["x"], near[4]["y"]) in [*steps, (5, 5)], "all were tried as often; now any of them"


def test_dgd_goes_by_the_mean_of_repeated_runs() -> None:
    sampler = DgdSampler(Task({"x": Choice((1, 2, 3, 4, 5, 6, 7))}, LOSS))
    for x, value in [(2, 0.0), (6, 3.0), (2, 10.0), (2, 11.0)]:
        sampler.tell(Result(None, Proposal({"x": x}), Outcome.COMPLETED, (value,)))
    assert {sampler.ask(each).params["x"] for each in (1, 2)} == {5, 7}


def test_a_cancelled_run_is_not_held_against_its_parameters() -> None:
    sampler = DgdSampler(Task({"x": Choice((1, 2))}, LOSS))
    sampler.tell(Result(None, Proposal({"x": 1}), Outcome.COMPLETED, (0.0,)))
    for index in (1, 2, 3):
        proposal = sampler.ask(index)
        assert proposal.params == {"x": 2}
        sampler.tell(Result(index, proposal, Outcome.CANCELLED, (None,)))


def test_dgd_draws_a_seed_for_each_run() -> None:
    sampler = DgdSampler(Task({"x": Choice((1,)), "seed": ANY_SEED}, LOSS))
    assert len({sampler.ask(each).params["seed"] for each in range(1, 9)}) == 8


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        (Range(0.0, 1.0), "'x' is continuous; write a list of values"),
        (Normal(0, 1), "'x' is continuous"),
        (Range(0, 10**6, whole=True), "'x' has more than 1000 values"),
        (Choice((Branch("a"), 1)), "no parameters within a choice, as 'x' has"),
    ],
)
def test_dgd_takes_lists_alone(parameter: Parameter, words: str) -> None:
    with pytest.raises(BadOption, match=words):
        DgdSampler(Task({"x": parameter}, LOSS))


# --- Optuna -----------------------------------------------------------------------------------------------------------

HILLY: dict[str, Parameter] = {
    "x": Range(-5.0, 5.0),
    "lr": Range(1e-5, 1.0, log=True),
    "layer": Choice((Branch("deep", {"n": Range(1, 9, whole=True)}), "flat")),
}


def hilly(params: Mapping[str, object]) -> float:
    layer = params["layer"]
    depth = abs(number(layer["n"]) - 6) if isinstance(layer, dict) else 5
    return (number(params["x"]) - 2) ** 2 + abs(math.log10(number(params["lr"])) + 3) + depth


@pytest.mark.parametrize("objectives", [LOSS, ACCURACY])
@pytest.mark.parametrize(("kind", "at_once"), [(TpeSampler, 1), (TpeSampler, 8)])
def test_it_learns(kind: type[Sampler], at_once: int, objectives: tuple[Objective, ...]) -> None:
    sign = 1 if objectives == LOSS else -1
    found = search(kind(Task(HILLY, objectives, 1)), lambda params: sign * hilly(params), 120, at_once)
    early, late = (sum(value * sign for _, value in part) for part in (found[:30], found[-30:]))
    assert late < 0.6 * early


def test_the_last_value_of_a_stopped_run_counts() -> None:
    """Half the runs are stopped with what they had; where that is bad, the sampler does not go on looking."""
    space = {"x": Range(0.0, 1.0)}
    sampler = TpeSampler(Task(space, LOSS, 2))
    late = []
    for index in range(1, 81):
        proposal = sampler.ask(index)
        x = number(proposal.params["x"])
        late.append(x)
        sampler.tell(Result(index, proposal, Outcome.STOPPED if x > 0.3 else Outcome.COMPLETED, (x,)))
    assert sum(x < 0.3 for x in late[-30:]) > 20


def test_parallel_proposals_differ() -> None:
    sampler = TpeSampler(Task({"x": Range(0.0, 1.0)}, LOSS, 1))
    search(sampler, lambda params: abs(number(params["x"]) - 0.5), 30)
    open_ones = [number(sampler.ask(each).params["x"]) for each in range(31, 41)]
    assert len({round(x, 6) for x in open_ones}) == 10


def test_what_an_earlier_instance_has_under_way_counts() -> None:
    """With nothing adopted, the next proposal would be another one."""
    alone, knowing = (TpeSampler(Task({"x": Range(0.0, 1.0)}, LOSS, 1)) for _ in range(2))
    for sampler in (alone, knowing):
        search(sampler, lambda params: abs(number(params["x"]) - 0.5), 20)
    for index in range(21, 41):
        knowing.adopt(index, Proposal({"x": number(alone.ask(100).params["x"])}))
    assert alone.ask(50) != knowing.ask(50)


def test_results_from_elsewhere_teach() -> None:
    def told(best: float) -> TpeSampler:
        sampler = TpeSampler(Task({"x": Range(0.0, 1.0)}, LOSS, 1))
        for each in range(50):
            x = each / 49
            sampler.tell(Result(None, Proposal({"x": x}), Outcome.COMPLETED, (abs(x - best),)))
        return sampler

    low, high = ([number(told(best).ask(each).params["x"]) for each in range(1, 9)] for best in (0.1, 0.9))
    assert sum(low) / 8 < 0.4 and sum(high) / 8 > 0.6


@pytest.mark.parametrize("objectives", [LOSS, ACCURACY])
def test_cmaes_goes_on_where_another_instance_was(objectives: tuple[Objective, ...]) -> None:
    """All that it has to know of generations before it is in what it is told."""
    sign = 1 if objectives == LOSS else -1
    task = Task({"x": Range(-5.0, 5.0), "y": Range(-5.0, 5.0)}, objectives, 4)
    sampler = CmaEsSampler(task)
    told: list[Result] = []
    for index in range(1, 121):
        proposal = sampler.ask(index)
        proposal = Proposal(proposal.params, json.loads(json.dumps(proposal.memo)))
        if index % 20 == 0:
            sampler = CmaEsSampler(task)
            for result in told:
                sampler.tell(result)
            sampler.adopt(index, proposal)
        value = sum((number(each) - 1) ** 2 for each in proposal.params.values())
        told.append(Result(index, proposal, Outcome.COMPLETED, (sign * value,)))
        sampler.tell(told[-1])
    values = [sign * number(result.values[0]) for result in told]
    assert sum(values[-20:]) < 0.1 * sum(values[:20])


def test_nsga2_comes_nearer_to_a_front() -> None:
    space: dict[str, Parameter] = {name: Range(-4.0, 4.0) for name in "wxyz"}
    sampler = Nsga2Sampler(Task(space, (Objective("a"), Objective("b", Goal.MAXIMIZE)), 1, {"population_size": 10}))
    sums = []
    for index in range(1, 201):
        proposal = sampler.ask(index)
        values = [number(each) for each in proposal.params.values()]
        near, far = sum(each**2 for each in values), sum((each - 1) ** 2 for each in values)
        sums.append(near + far)
        sampler.tell(Result(index, proposal, Outcome.COMPLETED, (near, -far)))
    assert sum(sums[-50:]) < 0.5 * sum(sums[:50])


@pytest.mark.parametrize("kind", [TpeSampler, CmaEsSampler, GpSampler, Nsga2Sampler, DgdSampler])
def test_who_learns_needs_an_objective(kind: type[Sampler]) -> None:
    with pytest.raises(BadOption, match=f"{kind.name} needs .*objective: say --minimize METRIC"):
        kind(Task({"x": Choice((1, 2))}))


@pytest.mark.parametrize("kind", [CmaEsSampler, DgdSampler])
def test_some_take_one_objective(kind: type[Sampler]) -> None:
    with pytest.raises(BadOption, match="one objective"):
        kind(Task({"x": Choice((1, 2))}, LOSS + ACCURACY))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (RandomSampler, {"seed": 1}, "random has no option 'seed'; it has none"),
        (QmcSampler, {"scrambled": True}, "qmc has no option 'scrambled'; did you mean scramble?"),
        (GridSampler, {"points": 10**400}, "points must be a whole number"),
        (GridSampler, {"points": 0}, "sampler grid: points must be a whole number from 1 to 1000, not 0"),
        (GridSampler, {"shuffle": 1}, "grid: shuffle must be true or false, not 1"),
        (TpeSampler, {"startup": 1}, "tpe has no option 'startup'; did you mean n_startup_trials"),
        (TpeSampler, {"multivariate": False, "group": True}, "tpe: .*group"),
        (Nsga2Sampler, {"mutation_prob": 2}, "nsga2: mutation_prob must be a number from 0 to 1, not 2"),
        (CmaEsSampler, {"popsize": True}, "cmaes: popsize must be a whole number from 2 to 100000, not True"),
    ],
)
def test_wrong_options_are_named(kind: type[Sampler], options: dict[str, object], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        kind(Task({"x": Range(0.0, 1.0)}, LOSS, options=options))


@pytest.mark.parametrize(
    ("kind", "missing"),
    [(TpeSampler, "optuna"), (CmaEsSampler, "cmaes"), (GpSampler, "torch"), (QmcSampler, "scipy")],
)
def test_a_missing_library_is_named_with_what_to_type(
    kind: type[Sampler], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None if name == missing else ModuleSpec(name, None)

    monkeypatch.setattr(libraries, "find_spec", find_spec)
    with pytest.raises(BadOption, match=f"^{kind.name} needs {missing}: pip install {missing}$"):
        kind(Task({"x": Range(0.0, 1.0)}, LOSS))


def test_no_warning_is_given() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (TpeSampler, CmaEsSampler, Nsga2Sampler):
            search(kind(Task(HILLY, LOSS)), hilly, 15)
        TpeSampler(Task(HILLY, LOSS, options={"multivariate": True, "group": True}))


def test_optuna_is_not_imported_before_it_is_needed() -> None:
    modules = "turnout.search.samplers.optuna_samplers, turnout.search.samplers.qmc, sys"
    check = "assert not {'optuna', 'scipy', 'numpy', 'torch'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", f"import {modules}; {check}"], check=True)
