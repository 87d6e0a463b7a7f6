"""Grids: how many points there are, and which is where."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range
from turnout.search.samplers.shuffling import Shuffle
from turnout.search.spaces.containing import objection
from turnout.search.spaces.drawing import draw_one
from turnout.search.spaces.functions import ANY_SEED
from turnout.search.spaces.grids import Grid, values_of

NESTED: dict[str, Parameter] = {
    "a": Choice((1, 2)),
    "layer": Choice((Branch("conv", {"k": Choice((3, 5)), "pad": Choice(("x", "y"))}), "none", Branch("rnn"))),
    "b": Choice(("p", "q")),
}


def test_points_come_as_of_nested_loops() -> None:
    grid = Grid({"a": Choice((1, 2)), "b": Choice(("x", "y"))})
    assert grid.size == 4
    assert [grid.at(each) for each in range(4)] == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"},
    ]  # fmt: skip
    with pytest.raises(IndexError):
        grid.at(4)


def test_branches_are_gone_through_one_after_the_other() -> None:
    grid = Grid(NESTED)
    points = [grid.at(each) for each in range(grid.size)]
    assert grid.size == 2 * (4 + 1 + 1) * 2
    assert len({json.dumps(point) for point in points}) == grid.size
    assert all(objection(NESTED, point) is None for point in points)
    layers = [point["layer"] for point in points[:12:2]]
    assert layers[:2] == [{"_name": "conv", "k": 3, "pad": "x"}, {"_name": "conv", "k": 3, "pad": "y"}]
    assert layers[4:] == ["none", {"_name": "rnn"}]


@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        (Range(0, 1), [0.0, 0.25, 0.5, 0.75, 1.0]),
        (Range(1e-4, 1, log=True), [1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
        (Range(1, 4, whole=True), [1, 2, 3, 4]),
        (Range(0, 1, step=0.4), [0.0, 0.4, 0.8]),
        (Range(0.1, 1, step=0.4), [0.1, 0.4, 0.8]),
        (Range(3, 12, step=4, whole=True), [4, 8, 12]),
        (Range(0.5, 5, step=1), [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]),
        (Range(0.05, 0.55, step=0.1), [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55]),
        (Range(0.3, 0.7, step=0.1), [0.3, 0.4, 0.5, 0.6, 0.7]),
        (Range(-1.5, 1.5, step=1), [-1.5, -1.0, 0.0, 1.0, 1.5]),
        (Range(0.1, 0.3, step=1), [0.1]),
        (Range(0.1, 0.3, step=0.4), [0.1, 0.3]),
        (Range(0, 6, step=1.5, whole=True), [0, 2, 3, 4, 6]),
        (Range(1e300, 2e300, step=1e-300), [1e300, 1.25e300, 1.5e300, 1.75e300, 2e300]),
        (Range(2**60, 2**60 + 2, whole=True), [2**60, 2**60 + 1, 2**60 + 2]),
        (Range(2, 2), [2.0]),
        (Range(1, 10**6, log=True, whole=True), [1, 32, 1000, 31623, 10**6]),
        (Range(0, 5000, whole=True), [0, 1250, 2500, 3750, 5000]),
        (Normal(1, 1e-9), [1.0] * 5),
        (Choice((3, 1, 3, True)), [3, 1, True]),
    ],
)
def test_values_of_a_parameter(parameter: Parameter, values: list[object]) -> None:
    found = values_of(parameter)
    assert found == pytest.approx(values) and list(map(type, found)) == list(map(type, values))


@given(
    st.floats(-50, 50, allow_nan=False),
    st.floats(0, 20, allow_nan=False),
    st.floats(0.1, 5, allow_nan=False) | st.sampled_from([0.1, 0.5, 1, 2]),
    st.integers(),
)
def test_whatever_is_drawn_in_steps_is_in_the_grid(low: float, above: float, step: float, seed: int) -> None:
    parameter = Range(low, low + above, step=step)
    random = Random(seed)
    drawn = {draw_one(parameter, random) for _ in range(20)}
    values = values_of(parameter)
    assert drawn <= set(values) and values == sorted(values)  # type: ignore[type-var]


def test_normal_values_stand_at_quantiles() -> None:
    assert values_of(Normal(10, 2), 3) == pytest.approx([8.0652, 10, 11.9348], abs=1e-3)
    assert values_of(Normal(0, 1, step=1), 5) == [-1.0, 0.0, 1.0]


def test_a_seed_does_not_multiply_the_points() -> None:
    grid = Grid({"a": Choice((1, 2)), "seed": ANY_SEED, "other": ANY_SEED})
    first, second = grid.at(0), grid.at(1)
    assert grid.size == 2
    assert len({first["seed"], first["other"], second["seed"], second["other"]}) == 4
    assert first == grid.at(0) and first != grid.at(0, seed=1)


def test_a_large_grid_is_no_list() -> None:
    grid = Grid({str(each): Choice(tuple(range(100))) for each in range(20)})
    assert grid.size == 100**20
    assert list(grid.at(100**20 - 2).values()) == [99] * 19 + [98]


@given(st.integers(1, 700), st.integers())
def test_a_shuffle_has_each_number_once(size: int, seed: int) -> None:
    shuffle = Shuffle(size, seed)
    assert sorted(shuffle.at(each) for each in range(size)) == list(range(size))


def test_a_shuffle_depends_on_its_seed() -> None:
    assert len({tuple(Shuffle(50, seed).at(each) for each in range(50)) for seed in range(10)}) == 10
