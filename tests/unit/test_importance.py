"""What mattered in a search: parameters alone and together, in any scale, and nothing where there is only noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest

from turnout.client.studied import studied
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range
from turnout.search.flattening import flat_params, flat_space, nested_params
from turnout.search.importance import FEWEST, Importance, measure
from turnout.search.spaces import to_plain
from turnout.search.spaces.drawing import draw
from turnout.search.surface import smoothed

SPACE: dict[str, Parameter] = {
    "lr": Range(1e-5, 1.0, log=True), "optimizer": Choice(("adam", "sgd", "rmsprop")), "noise": Range(0.0, 1.0),
    "letter": Choice(tuple("abcdefghij")), "left": Range(0.0, 1.0), "right": Range(0.0, 1.0),
}  # fmt: skip


def importance(result: Callable[[dict[str, object]], float], runs: int = 300, seed: int = 0) -> Importance:
    random = Random(5)
    tried = [draw(SPACE, random) for _ in range(runs)]
    return measure(SPACE, tried, [result(params) for params in tried], seed)


def decades(params: dict[str, object]) -> float:
    assert isinstance(params["lr"], float)
    return abs(math.log10(params["lr"]) + 2)


def test_what_still_runs_may_yet_fail_and_does_not_count() -> None:
    states = ("completed", "stopped", "imported", "running", "finishing", "failed", "cancelled", "queued")
    rows = [
        {
            "number": number, "run": None if state == "imported" else f"run1.{number}", "state": state,
            "params": {"x": 1}, "values": [float(number)], "target": "local", "started": None, "ended": None,
        }
        for number, state in enumerate(states, 1)
    ]  # fmt: skip
    aim = {"metric": "loss", "goal": "minimize", "of": "last"}
    study = studied({"job": "job1", "aims": [aim], "space": to_plain({"x": Choice((1, 2))})}, rows)
    assert {each.state for each, _ in study.measured(0)} == {"completed", "stopped", "imported"}


class TestImportance:
    def test_what_matters_alone(self) -> None:
        found = importance(lambda params: decades(params) + 2.0 * (params["optimizer"] == "sgd"))
        assert list(found.shares)[:2] in (["lr", "optimizer"], ["optimizer", "lr"])
        assert sum(list(found.shares.values())[2:]) < 0.05 and found.explained > 0.8

    def test_what_matters_only_together(self) -> None:
        """Neither side of an exclusive or says anything by itself."""
        found = importance(lambda params: float((params["left"] > 0.5) != (params["right"] > 0.5)), runs=1000)  # type: ignore[operator]
        assert found.shares["left"] + found.shares["right"] > 0.9

    def test_noise_is_nothing(self) -> None:
        random = Random(1)
        found = importance(lambda _params: random.random())
        assert found.explained < 0.05

    def test_a_few_results_that_are_far_off_do_not_count(self) -> None:
        random = Random(2)
        found = importance(lambda params: 1e12 if random.random() < 0.02 else decades(params))
        assert next(iter(found.shares)) == "lr" and found.shares["lr"] > 0.9

    def test_shares_add_up_and_the_largest_comes_first(self) -> None:
        shares = list(importance(decades).shares.values())
        assert sum(shares) == pytest.approx(1.0) and shares == sorted(shares, reverse=True)

    def test_the_same_seed_tells_the_same(self) -> None:
        assert importance(decades, seed=3) == importance(decades, seed=3) != importance(decades, seed=4)

    def test_equal_results_tell_nothing(self) -> None:
        found = importance(lambda _params: 1.0)
        assert set(found.shares.values()) == {0.0} and found.explained == 0.0

    def test_parameters_that_not_all_runs_have(self) -> None:
        space: dict[str, Parameter] = {
            "head": Choice((Branch("mlp", {"width": Range(1, 100, whole=True)}), Branch("linear"))),
            "other": Normal(0.0, 1.0),
        }
        random = Random(4)
        tried = [flat_params(space, draw(space, random)) for _ in range(300)]
        results = [float(params.get("head/mlp/width", 200)) for params in tried]  # type: ignore[arg-type]
        found = measure(flat_space(space), tried, results)
        assert found.shares["other"] < 0.02 and found.shares["head/mlp/width"] > 0.2

    def test_too_few_results(self) -> None:
        with pytest.raises(ValueError, match="too few"):
            importance(decades, runs=FEWEST - 1)
        assert importance(decades, runs=FEWEST).shares.keys() == SPACE.keys()


INNER = Branch("a", {"b": Choice((3,))})


class TestFlattening:
    SPACE: dict[str, Parameter] = {
        "lr": Range(0.0, 1.0),
        "head": Choice(("none", Branch("mlp", {"width": Choice((1, 2)), "deep": Choice((INNER,))}))),
    }

    def test_names_of_all_levels(self) -> None:
        found = flat_space(self.SPACE)
        assert list(found) == ["lr", "head", "head/mlp/width", "head/mlp/deep", "head/mlp/deep/a/b"]
        assert found["head"] == Choice(("none", "mlp"))

    @pytest.mark.parametrize(
        ("params", "flat"),
        [
            ({"lr": 0.5, "head": "none"}, {"lr": 0.5, "head": "none"}),
            (
                {"lr": 0.5, "head": {"_name": "mlp", "width": 2, "deep": {"_name": "a", "b": 3}}},
                {"lr": 0.5, "head": "mlp", "head/mlp/width": 2, "head/mlp/deep": "a", "head/mlp/deep/a/b": 3},
            ),
        ],
    )
    def test_there_and_back(self, params: dict[str, object], flat: dict[str, object]) -> None:
        assert flat_params(self.SPACE, params) == flat
        assert nested_params(self.SPACE, flat) == params


class TestSurface:
    def test_it_is_near_what_was_near(self) -> None:
        places = [(0.1, 0.1), (0.9, 0.1), (0.1, 0.9), (0.9, 0.9)]
        found = smoothed(places, [1.0, 2.0, 3.0, 4.0], [0.1, 0.9], [0.1, 0.9])
        assert [[round(value or 0.0, 2) for value in row] for row in found] == [[1.0, 2.0], [3.0, 4.0]]

    def test_nothing_is_said_where_no_run_was(self) -> None:
        assert smoothed([(0.0, 0.0)], [1.0], [0.05, 0.9], [0.05, 0.9]) == [[1.0, None], [None, None]]
