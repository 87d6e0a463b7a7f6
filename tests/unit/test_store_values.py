"""Values on their way into the store: what a number is, what a text may hold, and points in columns."""

from __future__ import annotations

import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.store.metrics import RunMetrics, Series, collect
from turnout.store.values import storable, storable_name

finite = st.floats(allow_nan=False, allow_infinity=False)
points = st.lists(st.tuples(st.integers(-(2**62), 2**62), finite, st.floats(allow_nan=False)))


def series(given_points: list[tuple[int, float, float]]) -> Series:
    made = Series()
    for step, time, value in given_points:
        made.append(step, time, value)
    return made


@given(points)
def test_points_come_back_as_they_were(given_points: list[tuple[int, float, float]]) -> None:
    made = series(given_points)
    assert Series.unpack(made.pack()) == made
    assert len(made.pack()) == 4 + 24 * len(given_points)


@given(points, st.integers(0, 20), st.integers(0, 20))
def test_a_series_can_be_cut_and_joined(given_points: list[tuple[int, float, float]], one: int, two: int) -> None:
    made = series(given_points)
    parts = [made.part(0, one), made.part(one, one + two), made.part(one + two, len(made) + 1)]
    whole = Series()
    for part in parts:
        whole.extend(part)
    assert whole == made


@given(st.lists(st.floats()))
def test_the_bounds_are_of_what_is_finite(values: list[float]) -> None:
    low, high = Series(array("q", [0] * len(values)), array("d", values), array("d", values)).bounds()
    kept = [value for value in values if math.isfinite(value)]
    assert (low, high) == ((min(kept), max(kept)) if kept else (None, None))


def test_records_are_collected_by_run_and_name() -> None:
    into: RunMetrics = {}
    collect(into, 1, {"t": 5.0, "s": 3, "m": {"loss": 0.5, "acc": True}})
    collect(into, 1, {"t": 6, "m": {"loss": 1}})
    collect(into, 2, {"t": 7.0, "s": 0, "m": {"loss": float("inf")}})
    assert into == {
        (1, "loss"): series([(3, 5.0, 0.5), (-1, 6.0, 1.0)]),
        (1, "acc"): series([(3, 5.0, 1.0)]),
        (2, "loss"): series([(0, 7.0, float("inf"))]),
    }


@pytest.mark.parametrize(
    "record",
    [
        {"m": {"a": 1}},
        {"t": "now", "m": {"a": 1}},
        {"t": -1, "m": {"a": 1}},
        {"t": 10**400, "m": {"a": 1}},
        {"t": float("nan"), "m": {"a": 1}},
        {"t": 1, "s": 1.5, "m": {"a": 1}},
        {"t": 1, "s": True, "m": {"a": 1}},
        {"t": 1, "s": 2**62, "m": {"a": 1}},
        {"t": 1, "m": [1]},
        {"t": 1, "m": {"a": "1"}},
        {"t": 1, "m": {"a": 10**400}},
        {"t": 1, "m": {"a": None}},
    ],
)
def test_what_is_no_record_is_passed_over(record: dict[str, object]) -> None:
    into: RunMetrics = {}
    collect(into, 1, record)
    assert all(len(found) == 0 for found in into.values())


@given(st.text())
def test_a_text_that_every_database_takes_stays_as_it_is(text: str) -> None:
    kept = storable(text)
    assert "\0" not in kept and kept.encode().decode() == kept
    if "\0" not in text:
        assert kept == text


def test_what_no_database_takes_is_replaced() -> None:
    assert storable("a\0b") == "a\ufffdb"
    assert storable("a\ud800b") == "a?b"
    assert storable_name("n" * 300) == "n" * 256
