"""Values that stand in a command."""

from __future__ import annotations

import pytest

from turnout.errors import InvalidInput
from turnout.plugin.space import Choice, Range
from turnout.search.arguments import with_params
from turnout.search.spaces.command_line import find_spaces
from turnout.search.spaces.functions import ANY_SEED


def test_the_example_of_xt() -> None:
    argv = ["python", "t.py", "--lr=[.01, .03, .05]", "--optimizer=[adam, sgd]", "--seed=[$randint()]", "--epochs=3"]
    space, slots = find_spaces(argv)
    assert space == {"lr": Choice((0.01, 0.03, 0.05)), "optimizer": Choice(("adam", "sgd")), "seed": ANY_SEED}
    assert slots == {"lr": 2, "optimizer": 3, "seed": 4}
    filled = with_params(argv, {"lr": 0.03, "optimizer": "sgd", "seed": 7}, prefix="--", slots=slots)
    assert filled == ("python", "t.py", "--lr=0.03", "--optimizer=sgd", "--seed=7", "--epochs=3")


def test_the_value_may_be_the_next_argument() -> None:
    space, slots = find_spaces(["t.py", "--lr", "[.01,.03]", "-b", "[$quniform(16, 64, 16)]"])
    assert space == {"lr": Choice((0.01, 0.03)), "b": Range(16, 64, step=16, whole=True)}
    assert slots == {"lr": 2, "b": 4}


@pytest.mark.parametrize(
    "argument",
    [
        "--name=foo--bar", "--name=foo--x=[1,2]", "[1, 2]", "lr=[1,2]", '--json={"a": [1, 2]}', "--x=[1,2]:3",
        "--x=a[1]", "--x=[]", "--x=[ ]", "--glob=[a-z]*", "--=[1,2]", "--x=[a", "--x=a,[b]",
    ],
)  # fmt: skip
def test_what_is_not_meant_is_left_alone(argument: str) -> None:
    assert find_spaces(["t.py", argument]) == ({}, {})


def test_a_list_after_a_value_is_nothing() -> None:
    assert find_spaces(["t.py", "--x=1", "[1, 2]", "file", "[3]"]) == ({}, {})


@pytest.mark.parametrize("text", ["[64, 64]", '["a", {"b": 1}]', "[a-z]"])
def test_two_brackets_reach_the_script_as_one(text: str) -> None:
    argv = ["t.py", f"--layers=[{text}]"]
    space, slots = find_spaces(argv)
    assert with_params(argv, {"layers": space["layers"].values[0]}, prefix="--", slots=slots) == (  # type: ignore[union-attr]
        "t.py", f"--layers={text}",
    )  # fmt: skip


def test_several_lists_are_values() -> None:
    assert find_spaces(["--layers=[[64, 64], [128]]"])[0] == {"layers": Choice(([64, 64], [128]))}


def test_text_in_quotes_stays_text() -> None:
    assert find_spaces(["--x=['1', \"a, b\"]"])[0] == {"x": Choice(("1", "a, b"))}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--lr=[.01,", ".03]"], "the shell split its list"),
        (["--lr=[1,2]", "--lr=[3,4]"], "it stands in the command twice"),
        (["--lr=[$uniform(0, 1), 2]"], "a function stands among values"),
        (["--lr=[$unifrom(0, 1)]"], "there is no function 'unifrom'"),
        (["--lr=[f(1), 2]"], "'f' is no function"),
        (["--lr=[1,,2]"], "a value is missing"),
        (["--lr=[1,2]]"], "']' is not expected"),
    ],
)
def test_what_is_wrong_is_named(argv: list[str], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        find_spaces(argv)
    assert "parameter 'lr'" in caught.value.message and words in caught.value.message and caught.value.hint
