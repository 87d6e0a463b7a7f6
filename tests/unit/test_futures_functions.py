"""When a function is sent to workers: once, again because something it refers to changed, or with each call."""

from __future__ import annotations

import operator
import os.path
import subprocess
import sys
import types
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.futures.functions import Function, Functions, is_importable


def _script(text: str) -> dict[str, Any]:
    """The names of a program that is not a module."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "script.py", "exec"), names)
    return names


def _called(sent: Function, *args: Any) -> Any:
    """What a worker that learned it gets."""
    return cloudpickle.loads(sent.data)(*args)


def _elsewhere(sent: Function) -> int:
    """The same in another process: classes that are unpickled where they were made are those that are there."""
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"
    return int(subprocess.run([sys.executable, "-c", code], input=sent.data, capture_output=True, check=True).stdout)


class TestByName:
    @pytest.mark.parametrize("function", [abs, operator.add, os.path.join, types.SimpleNamespace])
    def test_what_can_be_imported_goes_once_and_is_small(self, function: Callable[..., Any]) -> None:
        known = Functions()
        sent = known.get(function)
        assert sent.number and len(sent.data) < 100 and known.get(function) is sent

    def test_each_has_a_number_of_its_own(self) -> None:
        known = Functions()
        assert len({known.get(each).number for each in (abs, len, max, operator.add)}) == 4

    def test_a_function_that_is_hidden_by_another_of_its_name_is_not_importable(self) -> None:
        names = _script("def join(*parts): return parts")
        names["join"].__module__ = "posixpath"
        assert not is_importable(names["join"])
        assert is_importable(os.path.join)


class TestByValue:
    def test_one_of_a_script_goes_once(self) -> None:
        known, names = Functions(), _script("def double(x): return 2 * x")
        sent = known.get(names["double"])
        assert sent.number and _called(sent, 4) == 8 and known.get(names["double"]) is sent

    @given(st.lists(st.integers(0, 2), min_size=1, max_size=12))
    def test_what_is_sent_is_as_it_is_now(self, values: list[int]) -> None:
        """Whatever its global becomes, and again only when it becomes another."""
        known, names = Functions(), _script("def scaled(x): return factor * x")
        sent: list[Function] = []
        for value in values:
            names["factor"] = value
            sent.append(known.get(names["scaled"]))
            assert _called(sent[-1], 10) == 10 * value
        changes = sum(before != after for before, after in pairwise(values))
        assert len({each.number for each in sent}) == 1 + changes

    def test_also_when_a_function_it_calls_refers_to_it(self) -> None:
        known = Functions()
        names = _script("factor = 2\ndef inner(x): return factor * x\ndef outer(x): return inner(x) + 1")
        assert _called(known.get(names["outer"]), 5) == 11
        names["factor"] = 3
        assert _called(known.get(names["outer"]), 5) == 16

    def test_also_when_that_function_is_replaced(self) -> None:
        known = Functions()
        names = _script("def inner(x): return x\ndef outer(x): return inner(x) + 1")
        assert _called(known.get(names["outer"]), 5) == 6
        exec("def inner(x): return 10 * x", names)
        assert _called(known.get(names["outer"]), 5) == 51

    def test_also_when_it_is_named_in_a_function_inside(self) -> None:
        known = Functions()
        names = _script("factor = 2\ndef scaled(x): return [factor * each for each in [x]][0]")
        assert _called(known.get(names["scaled"]), 5) == 10
        names["factor"] = 3
        assert _called(known.get(names["scaled"]), 5) == 15

    def test_also_when_it_comes_to_be_later(self) -> None:
        """It was not there when the function was first sent."""
        known, names = Functions(), _script("def scaled(x): return late * x")
        known.get(names["scaled"])
        names["late"] = 4
        assert _called(known.get(names["scaled"]), 5) == 20

    def test_one_that_calls_itself(self) -> None:
        known, names = Functions(), _script("def fall(x): return x and fall(x - 1)")
        sent = known.get(names["fall"])
        assert sent.number and _called(sent, 3) == 0

    def test_new_defaults_and_new_code_are_seen(self) -> None:
        known, names = Functions(), _script("def scaled(x, by=2): return by * x\ndef other(x, by=2): return -x")
        assert _called(known.get(names["scaled"]), 5) == 10
        names["scaled"].__defaults__ = (3,)
        assert _called(known.get(names["scaled"]), 5) == 15
        names["scaled"].__code__ = names["other"].__code__
        assert _called(known.get(names["scaled"]), 5) == -5


class TestWithEachCall:
    @pytest.mark.parametrize(
        "text",
        [
            "table = {}\ndef function(x): return table.get(x)",
            "def make():\n  kept = 1\n  def function(x): return kept\n  return function\nfunction = make()",
            "def function(x, seen=[]): return seen",
            "def function(x): return x\nfunction.calls = 0",
            "from functools import partial\nfunction = partial(print, 1)",
            "class Counter:\n  def __call__(self, x): return x\nfunction = Counter()",
            "class Counter:\n  def count(self, x): return x\nfunction = Counter().count",
        ],
        ids=["a dict", "a closure", "a default", "an attribute", "a partial", "an object", "a method"],
    )
    def test_what_may_change_unseen(self, text: str) -> None:
        assert Functions().get(_script(text)["function"]).number == 0

    def test_one_that_has_no_hash(self) -> None:
        class Unhashable:
            __hash__ = None  # type: ignore[assignment]

            def __call__(self) -> None: ...

        known = Functions()
        assert known.get(Unhashable()).number == 0
        assert known.get(Unhashable()) is known.get(Unhashable())

    def test_how_long_they_take_is_kept_for_all_of_one_kind(self) -> None:
        known = Functions()
        made = [(lambda kept: lambda: kept)(each) for each in range(3)]
        known.get(made[0]).took(0.5)
        assert known.get(made[2]).pace == 0.5

    def test_many_kinds_do_not_add_up(self) -> None:
        known = Functions()
        for each in range(3000):
            known.get(_script(f"def make():\n  kept = {each}\n  return lambda: kept\nfunction = make()")["function"])
        assert len(known._passing) <= 1001


class TestClasses:
    def test_one_of_a_script_goes_once_and_again_when_a_method_is_another(self) -> None:
        known = Functions()
        names = _script("class Point:\n  def __int__(self): return 2\n  def __str__(self): return str(int(self))")
        first = known.get(names["Point"])
        assert first.number and _elsewhere(first) == 2 and known.get(names["Point"]) is first
        names["Point"].__int__ = lambda self: 3
        assert _elsewhere(known.get(names["Point"])) == 3

    def test_one_that_gets_a_method_later(self) -> None:
        known = Functions()
        names = _script("class Point:\n  pass\ndef ask(): return Point().answer()")
        known.get(names["ask"])
        names["Point"].answer = lambda self: 42
        assert _elsewhere(known.get(names["ask"])) == 42

    def test_what_its_base_has_is_seen(self) -> None:
        known = Functions()
        names = _script("class Base:\n  scale = 2\nclass Point(Base):\n  pass\ndef ask(): return Point().scale")
        assert _elsewhere(known.get(names["ask"])) == 2
        names["Base"].scale = 5
        assert _elsewhere(known.get(names["ask"])) == 5

    def test_properties_and_static_methods_belong_to_it(self) -> None:
        text = "factor = 2\nclass Point:\n  @property\n  def x(self): return factor\n"
        text += "  @staticmethod\n  def y(): return factor\ndef ask(): return Point().x + Point.y()"
        known, names = Functions(), _script(text)
        assert _elsewhere(known.get(names["ask"])) == 4
        names["factor"] = 3
        assert _elsewhere(known.get(names["ask"])) == 6


class TestPace:
    def test_it_follows_slowly(self) -> None:
        function = Function(1, b"")
        function.took(1.0)
        function.took(0.0)
        assert function.pace == pytest.approx(0.9)

    def test_a_partial_of_something_named_is_not_taken_for_it(self) -> None:
        assert Functions().get(partial(abs)).number == 0
