"""Spaces as turnout's own users write them, in YAML or in Python.

::

    lr: {loguniform: [0.0001, 0.1]}     # or $loguniform(0.0001, 0.1)
    layers: {int: [1, 8]}
    optimizer: [adam, sgd]
    epochs: 20                          # does not vary
    head:
      - linear
      - {_name: mlp, width: [64, 256]}  # a parameter that exists only here

In Python also a `range`, and `Choice`, `Range`, `Normal` themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.space import Choice, Normal, Parameter, Range
from turnout.search.spaces import functions
from turnout.search.spaces.branching import read_each, read_option
from turnout.search.spaces.checking import checked, wrong
from turnout.search.spaces.notation import meant
from turnout.search.spaces.xt import read_function

_MOST_VALUES = 10_000


def read(content: Mapping[str, object]) -> dict[str, Parameter]:
    """InvalidInput names the parameter that is wrong."""
    return read_each(content, _read)


def _read(name: str, value: object) -> Parameter:
    if isinstance(value, (Choice, Range, Normal)):
        return checked(name, value)
    if isinstance(value, range):
        return _of_range(name, value)
    if isinstance(value, (list, tuple)):
        return checked(name, Choice(tuple(_option(name, each) for each in value)))
    if isinstance(value, Mapping):
        return _of_function(name, value)
    if isinstance(value, str) and value.lstrip().startswith("$"):
        return read_function(name, value)
    return checked(name, Choice((meant(value),)))


def _of_function(name: str, entry: Mapping[str, object]) -> Parameter:
    """``{uniform: [0, 1]}``"""
    if len(entry) != 1:
        raise wrong(name, "it is no function with its values", "write {uniform: [0, 1]}, or a list of values")
    ((function, given),) = entry.items()
    args = list(given) if isinstance(given, (list, tuple)) else [given]
    if function == "choice":
        args = [[_option(name, each) for each in args]]
    return functions.apply(name, str(function), args)


def _of_range(name: str, numbers: range) -> Parameter:
    if not numbers:
        raise wrong(name, f"{numbers} is empty", "the upper bound is not included")
    if numbers.step == 1:
        return checked(name, Range(numbers[0], numbers[-1], whole=True))
    if len(numbers) > _MOST_VALUES:
        raise wrong(name, f"{numbers} has {len(numbers)} values", "write {quniform: [low, high, step]}")
    return checked(name, Choice(tuple(numbers)))


def _option(name: str, value: object) -> object:
    return meant(read_option(name, value, _read))
