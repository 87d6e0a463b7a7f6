"""Spaces as people write them: each form is read as its users mean it."""

from __future__ import annotations

import contextlib
import math
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from turnout.errors import InvalidInput
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range
from turnout.search.spaces import from_plain, read_space, to_plain
from turnout.search.spaces.containing import objection
from turnout.search.spaces.drawing import draw, settled
from turnout.search.spaces.functions import ANY_SEED
from turnout.search.spaces.notation import Call, Unreadable, read_values


def xt(entry: object) -> Parameter:
    return read_space({"hyperparameter-distributions": {"it": entry}})["it"]


def nni(kind: str, value: object) -> Parameter:
    return read_space({"it": {"_type": kind, "_value": value}})["it"]


def ours(entry: object) -> Parameter:
    return read_space({"it": entry})["it"]


def hydra(text: str) -> Parameter:
    return read_space([f"it={text}"])["it"]


# --- XT ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        (3000, Choice((3000,))),
        ("Adam", Choice(("Adam",))),
        ([0.01, 0.03], Choice((0.01, 0.03))),
        (["adam", "sgd"], Choice(("adam", "sgd"))),
        ("$choice(adam, 'a, b', 3)", Choice(("adam", "a, b", 3))),
        ("$choice([1, 2])", Choice((1, 2))),
        ("$randint()", ANY_SEED),
        ("$randint(10)", Range(0, 9, whole=True)),
        ("$randint(5, 10)", Range(5, 9, whole=True)),
        ("$uniform(.91, .99)", Range(0.91, 0.99)),
        (" $uniform( 0 , 1 ) ", Range(0, 1)),
        ("$normal(0, 1.5)", Normal(0, 1.5)),
        ("$loguniform(1e-4, .1)", Range(1e-4, 0.1, log=True)),
        ("$lognormal(-1, 0.5)", Normal(-1, 0.5, log=True)),
        ("$quniform(0, 1, .25)", Range(0, 1, step=0.25)),
        ("$quniform(16, 128, 16)", Range(16, 128, step=16, whole=True)),
        ("$qnormal(0, 1, 0.5)", Normal(0, 1, step=0.5)),
        ("$qloguniform(1, 64.5, 2)", Range(1, 64.5, log=True, step=2)),
        ("$qlognormal(0, 1, 2)", Normal(0, 1, log=True, step=2)),
        ("$linspace(.1, .9, 5)", Choice((0.1, 0.3, 0.5, 0.7, 0.9))),
        ("$linspace(1, 2, 1)", Choice((1.0,))),
    ],
)
def test_every_entry_of_xts_file(entry: object, parameter: Parameter) -> None:
    assert xt(entry) == parameter


def test_logarithms_as_bounds_are_meant_where_they_can_only_be_that() -> None:
    found = xt("$loguniform(-9, -2)")
    assert isinstance(found, Range) and found.log
    assert (found.low, found.high) == (math.exp(-9), math.exp(-2))


@pytest.mark.parametrize("top", ["hyperparameter-distributions", "hparams", "hyperparameter-runset"])
def test_the_top_keys_of_xt(top: str) -> None:
    assert read_space({top: {"lr": [0.1, 0.2], "epochs": 3}}) == {"lr": Choice((0.1, 0.2)), "epochs": Choice((3,))}


def test_one_parameter_may_be_called_hparams() -> None:
    assert read_space({"hparams": [1, 2]}) == {"hparams": Choice((1, 2))}


# --- NNI --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "parameter"),
    [
        ("choice", [1, "a", None], Choice((1, "a", None))),
        ("randint", [2, 10], Range(2, 9, whole=True)),
        ("uniform", [0, 1], Range(0, 1)),
        ("quniform", [0.5, 2, 0.5], Range(0.5, 2, step=0.5)),
        ("loguniform", [1e-4, 0.1], Range(1e-4, 0.1, log=True)),
        ("qloguniform", [1, 100.0, 5], Range(1, 100.0, log=True, step=5)),
        ("normal", [0, 1], Normal(0, 1)),
        ("qnormal", [0, 1, 2], Normal(0, 1, step=2)),
        ("lognormal", [0, 1], Normal(0, 1, log=True)),
        ("qlognormal", [0, 1, 2], Normal(0, 1, log=True, step=2)),
    ],
)
def test_every_type_of_nni(kind: str, value: object, parameter: Parameter) -> None:
    assert nni(kind, value) == parameter


def test_a_nested_choice_of_nni() -> None:
    dense = {"_name": "dense", "units": {"_type": "randint", "_value": [1, 3]}}
    inner = {"_name": "conv", "pad": {"_type": "choice", "_value": [{"_name": "same"}, dense]}}
    found = nni("choice", [inner, {"_name": "none"}])
    below = {"pad": Choice((Branch("same"), Branch("dense", {"units": Range(1, 2, whole=True)})))}
    assert found == Choice((Branch("conv", below), Branch("none")))


# --- ours -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        ([0.1, 0.2], Choice((0.1, 0.2))),
        ((1, 2), Choice((1, 2))),
        (20, Choice((20,))),
        (True, Choice((True,))),
        (None, Choice((None,))),
        ("text", Choice(("text",))),
        ({"uniform": [0, 1]}, Range(0, 1)),
        ({"loguniform": [0.1, 1]}, Range(0.1, 1, log=True)),
        ({"int": [1, 8]}, Range(1, 8, whole=True)),
        ({"logint": [1, 1024]}, Range(1, 1024, log=True, whole=True)),
        ({"normal": [0, 1]}, Normal(0, 1)),
        ({"choice": ["a", ["b", 1]]}, Choice(("a", ["b", 1]))),
        ({"choice": [[1, 2]]}, Choice(([1, 2],))),
        ({"quniform": [0, 1, 0.1]}, Range(0, 1, step=0.1)),
        ({"randint": 5}, Range(0, 4, whole=True)),
        ("$loguniform(1e-4, 0.1)", Range(1e-4, 0.1, log=True)),
        (range(2, 6), Range(2, 5, whole=True)),
        (range(2, 10, 3), Choice((2, 5, 8))),
        (Range(0, 1), Range(0, 1)),
        (Choice((1,)), Choice((1,))),
        (Normal(0, 1), Normal(0, 1)),
        (
            ["linear", {"_name": "mlp", "width": {"int": [1, 9]}}],
            Choice(("linear", Branch("mlp", {"width": Range(1, 9, whole=True)}))),
        ),
    ],
)
def test_every_form_of_ours(entry: object, parameter: Parameter) -> None:
    assert ours(entry) == parameter


# --- Hydra ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("a,b,c", Choice(("a", "b", "c"))),
        ("1, 2.5 ,true,null,'3'", Choice((1, 2.5, True, None, "3"))),
        ("\"a,b\",'it\\'s'", Choice(("a,b", "it's"))),
        ("adam", Choice(("adam",))),
        ("[1,2],[3]", Choice(([1, 2], [3]))),
        ("choice(adam,sgd)", Choice(("adam", "sgd"))),
        ("range(1,10)", Range(1, 9, whole=True)),
        ("range(4)", Range(0, 3, whole=True)),
        ("range(1,10,3)", Choice((1, 4, 7))),
        ("range(3,0,-1)", Choice((3, 2, 1))),
        ("range(0,1,0.25)", Choice((0, 0.25, 0.5, 0.75))),
        ("interval(0.1, 1)", Range(0.1, 1)),
        ("tag(log, interval(0.1, 1))", Range(0.1, 1, log=True)),
        ("int(interval(1, 8))", Range(1, 8, whole=True)),
        ("tag(mine, int(tag(log, interval(1, 8))))", Range(1, 8, log=True, whole=True)),
    ],
)
def test_every_form_of_hydra(text: str, parameter: Parameter) -> None:
    assert hydra(text) == parameter


def test_what_is_added_in_hydra_is_a_parameter_too() -> None:
    assert list(read_space(["+db.port=1,2", "++x=3"])) == ["db.port", "x"]


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"hyperparameter-distributions": None}, "no parameters under 'hyperparameter-distributions'"),
        ({"hyperparameter-distributions": {"a": 1}, "b": 2}, "there is more than"),
        ({"hyperparameter-distributions": {"lr": {"a": 1}}}, "'lr': it has names below it (read as an HP file of XT)"),
        ({"hparams": {"lr": "$unifrom(0, 1)"}}, "'lr': there is no function 'unifrom'"),
        ({"lr": "$uniform(0)"}, "'lr': uniform does not take 1 value"),
        ({"lr": "$uniform(a, b)"}, "'lr': uniform does not take 'a'"),
        ({"lr": "$uniform(0, 1"}, "')' is missing"),
        ({"lr": "$uniform(0, 1) more"}, "'m' is not expected"),
        ({"lr": "$uniform($normal(0, 1), 1)"}, "a function within uniform"),
        ({"lr": "$loguniform(0, 1000)"}, "too large"),
        ({"lr": {"uniform": [1, 0]}}, "'lr': there is nothing from 1 to 0"),
        ({"lr": {"uniform": [0, math.inf]}}, "'lr': uniform does not take inf"),
        ({"lr": {"loguniform": [0, 1]}}, "'lr': 0 has no logarithm"),
        ({"lr": {"quniform": [0, 1, 0]}}, "'lr': steps of 0"),
        ({"lr": {"normal": [0, 0]}}, "'lr': its deviation"),
        ({"lr": {"int": [1, 2.5]}}, "'lr': 1 to 2.5 are no integers"),
        ({"lr": {"randint": [3, 3]}}, "'lr': there is no integer"),
        ({"lr": {"linspace": [0, 1, 0]}}, "'lr': 0 is no number of values"),
        ({"lr": {"low": 0, "high": 1}}, "'lr': it is no function"),
        ({"lr": []}, "'lr': there is no value"),
        ({"lr": [math.nan]}, "'lr': nan is nothing that JSON can hold"),
        ({"lr": [{1, 2}]}, "'lr': {1, 2} is nothing"),
        ({"lr": range(3, 3)}, "is empty"),
        ({"lr": range(0, 10**6, 2)}, "has 500000 values"),
        ({"m": [{"_name": "a", "w": []}]}, "'m/a/w': there is no value"),
        ({"m": [{"_name": "a"}, {"_name": "a"}]}, "same name"),
        ({"a": {"_type": "choice", "_value": [1]}, "b": [1, 2]}, "'b': it has no _type and _value (read as a search"),
        ({"a": {"_type": "grid", "_value": [1]}}, "'a': there is no type 'grid'"),
        ({"a": {"_type": "uniform", "_value": 3}}, "'a': its _value is no list"),
        ({"a": {"_type": "randint", "_value": [3]}}, "'a': randint does not take 1 values"),
        (["lr"], "'lr' is no NAME=VALUES (read as an override of Hydra)"),
        (["~lr=1"], "is no NAME=VALUES"),
        (["lr=1,2", "lr=3"], "'lr': it is given twice"),
        (["lr=glob(*)"], "'lr': there is no function 'glob'"),
        (["lr=interval(1)"], "'lr': interval takes 2 numbers"),
        (["lr=range(3,1)"], "'lr': its range is empty"),
        (["lr=tag(log, choice(a, b))"], "'lr': only a range can be logarithmic"),
        (["lr=1,interval(1,2)"], "'lr': a function stands among values"),
        (["lr=a,,b"], "'lr': a value is missing"),
        (["lr='a"], "'lr': a quote is not closed"),
        ({}, "there is no parameter"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_write(content: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_space(content)
    assert words in caught.value.message and caught.value.hint


# --- values -----------------------------------------------------------------------------------------------------------


def test_numbers_that_yaml_takes_for_text_are_numbers() -> None:
    text = "{a: [1e-3, x1e-3], b: {loguniform: [1e-4, 1e-1]}, c: 2e5, d: {choice: [1e-3, 2]}}"
    small = Range(1e-4, 0.1, log=True)
    expected = {"a": Choice((1e-3, "x1e-3")), "b": small, "c": Choice((2e5,)), "d": Choice((1e-3, 2))}
    assert read_space(yaml.safe_load(text)) == expected
    assert read_space({"hparams": yaml.safe_load("{a: [1e-3, x1e-3]}")}) == {"a": expected["a"]}


def test_numbers_that_nobody_can_count_to_are_refused() -> None:
    for function in ("int", "uniform", "quniform"):
        with pytest.raises(InvalidInput, match="'lr'"):
            read_space({"lr": {function: [1, 10**400, 1][: 3 if function == "quniform" else 2]}})
    for text in ("range(0,1e999)", f"range({'9' * 5000})", "interval(0,1e999)"):
        with pytest.raises(InvalidInput, match="'it'"):
            hydra(text)


def test_values_are_what_they_look_like() -> None:
    found = read_values("1, -2.5, .5, 1e-3, True, none, a b, 'x, y', [1, [q]], $f(2, g), 1.2.3, nan")
    assert found == [1, -2.5, 0.5, 1e-3, True, None, "a b", "x, y", [1, ["q"]], Call("f", (2, "g")), "1.2.3", "nan"]


@given(st.text(alphabet="[](),'\"$ax1. \\", max_size=30))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert read_values(text)


SPACE: dict[str, Parameter] = {
    "lr": Range(1e-4, 0.1, log=True),
    "width": Range(1, 8, whole=True),
    "momentum": Range(0.05, 0.9, step=0.1),
    "batch": Range(10, 500, log=True, step=32, whole=True),
    "shift": Normal(0.0, 2.0),
    "scale": Normal(0.0, 900.0, log=True, step=0.25),
    "layer": Choice((Branch("conv", {"kernel": Choice((3, 5))}), "none", True, 1)),
}


@given(st.integers())
def test_what_is_drawn_lies_in_the_space(seed: int) -> None:
    assert objection(SPACE, draw(SPACE, Random(seed))) is None


def test_a_space_is_the_same_after_it_was_kept() -> None:
    assert from_plain(to_plain(SPACE)) == SPACE


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lr": 1.0}, "'lr' is 1.0, which is not from 0.0001 to 0.1"),
        ({"width": 2.5}, "'width' is 2.5, which is no integer"),
        ({"width": True}, "'width' is True, which is no number"),
        ({"momentum": 0.25}, "'momentum' is 0.25, which is no multiple of 0.1"),
        ({"layer": "dense"}, "'layer' is 'dense', which is none of its values"),
        ({"layer": {"_name": "conv"}}, "'layer/conv/kernel' is missing"),
        ({"layer": {"_name": "conv", "kernel": 3, "x": 1}}, "there is no parameter 'layer/conv/x'"),
    ],
)
def test_what_lies_outside_is_told(change: dict[str, object], why: str) -> None:
    assert objection(SPACE, {**draw(SPACE, Random(0)), **change}) == why


def test_rounded_values_are_tidy() -> None:
    assert settled(Range(0, 1, step=0.1), 0.31) == 0.3
    assert settled(Range(0.05, 1, step=0.1), 0.01) == 0.05
