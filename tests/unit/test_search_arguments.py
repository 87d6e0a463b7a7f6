"""Parameters on a command line: one argument each, never split or quoted, in their slots or behind the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.search.arguments import flat, text, with_params

NESTED: dict[str, Any] = {"layer": {"_name": "conv", "width": 8, "pool": {"_name": "max", "size": 2}}, "lr": 0.1}


def filled(*argv: str, prefix: str | None = "--", slots: Mapping[str, int] | None = None, **params: Any) -> list[str]:
    return list(with_params(argv, params, prefix=prefix, slots=slots or {}))


def test_they_are_appended_in_their_order() -> None:
    assert filled("train.py", "-v", lr=0.1, units=64) == ["train.py", "-v", "--lr=0.1", "--units=64"]
    assert filled("train.py", units=64, lr=0.1) == ["train.py", "--units=64", "--lr=0.1"]


@pytest.mark.parametrize(("prefix", "argument"), [("--", "--lr=0.1"), ("", "lr=0.1"), ("+", "+lr=0.1")])
def test_with_another_prefix(prefix: str, argument: str) -> None:
    assert filled("train.py", prefix=prefix, lr=0.1) == ["train.py", argument]


def test_without_a_prefix_the_command_stays_as_it_is() -> None:
    assert filled("train.py", "-v", prefix=None, lr=0.1) == ["train.py", "-v"]


@pytest.mark.parametrize(
    ("argv", "slot", "became"),
    [
        (["t", "--lr=[.01, .03]"], 1, ["t", "--lr=0.1"]),
        (["t", "--lr", "[.01, .03]"], 2, ["t", "--lr", "0.1"]),
        (["t", "lr=1,2", "x"], 1, ["t", "lr=0.1", "x"]),
        (["t", "--lr=a=b"], 1, ["t", "--lr=0.1"]),
        (["t", "--lr", "['a=b', 'c=d']"], 2, ["t", "--lr", "0.1"]),
        (["t", "--lr", " ['a=b', 'c=d']"], 2, ["t", "--lr", "0.1"]),
        (["t", "--lr=['a=b', 'c=d']"], 1, ["t", "--lr=0.1"]),
    ],
)
def test_one_with_a_slot_takes_the_place_of_that_argument(argv: list[str], slot: int, became: list[str]) -> None:
    assert filled(*argv, slots={"lr": slot}, lr=0.1) == became
    assert filled(*argv, prefix=None, slots={"lr": slot}, lr=0.1) == became


def test_some_have_slots_and_the_others_come_behind() -> None:
    assert filled("t", "--lr=?", "-v", slots={"lr": 1}, units=64, lr=0.1) == ["t", "--lr=0.1", "-v", "--units=64"]


def test_those_of_a_branch_are_named_after_it() -> None:
    assert list(flat(NESTED)) == [
        ("layer", "conv"), ("layer.width", 8), ("layer.pool", "max"), ("layer.pool.size", 2), ("lr", 0.1),
    ]  # fmt: skip
    assert filled("t", **NESTED)[1:4] == ["--layer=conv", "--layer.width=8", "--layer.pool=max"]


def test_a_mapping_without_a_name_is_one_value() -> None:
    assert filled("t", adam={"beta": 0.9}) == ["t", '--adam={"beta": 0.9}']


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a b", "a b"), ("", ""), ("$HOME; rm *", "$HOME; rm *"), ('"', '"'), (True, "true"), (None, "null"),
        (1e-08, "1e-08"), (3, "3"), ([1, 2], "[1, 2]"), ("0.1", "0.1"),
    ],
)  # fmt: skip
def test_a_value_is_one_argument_as_it_is(value: object, written: str) -> None:
    assert filled("t", x=value) == ["t", f"--x={written}"]


NAMES = st.text("abcxyz_", min_size=1, max_size=4)
LEAVES = st.text(max_size=8) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
PARAMS = st.dictionaries(NAMES, LEAVES | st.lists(LEAVES, max_size=3), max_size=5)


@given(st.lists(st.text(max_size=8), max_size=4), PARAMS)
def test_each_parameter_is_one_argument_and_the_others_are_left_alone(argv: list[str], params: dict[str, Any]) -> None:
    became = with_params(argv, params, prefix="--", slots={})
    assert list(became[: len(argv)]) == argv and len(became) == len(argv) + len(params)
    for argument, (name, value) in zip(became[len(argv) :], params.items(), strict=True):
        written = argument.removeprefix(f"--{name}=")
        assert written == value if isinstance(value, str) else json.loads(written) == value


@given(PARAMS, st.data())
def test_slots_change_nothing_but_their_own_arguments(params: dict[str, Any], data: st.DataObject) -> None:
    argv = ["t", *(f"--{name}=?" for name in params), "-v"]
    with_slots = data.draw(st.sets(st.sampled_from(sorted(params)))) if params else set()
    slots = {name: 1 + index for index, name in enumerate(params) if name in with_slots}
    became = with_params(argv, params, prefix=None, slots=slots)
    assert len(became) == len(argv)
    for index, argument in enumerate(became):
        name = next((name for name, slot in slots.items() if slot == index), None)
        assert argument == (argv[index] if name is None else f"--{name}={text(params[name])}")
