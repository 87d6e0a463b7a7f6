"""What every parameter has to be, however it was written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TypeGuard

from turnout.errors import InvalidInput
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range


def wrong(name: str, what: str, hint: str) -> InvalidInput:
    return InvalidInput(f"parameter {name!r}: {what}", hint=hint)


def checked(name: str, parameter: Parameter) -> Parameter:
    """The same; InvalidInput with the parameter's name and what to write instead."""
    if isinstance(parameter, Choice):
        _check_choice(name, parameter)
    elif isinstance(parameter, Normal):
        _check_numbers(name, parameter.mean, parameter.deviation)
        if parameter.deviation <= 0:
            raise wrong(name, "its deviation is not above 0", "write the mean, then the deviation: normal(0, 1)")
    else:
        _check_range(name, parameter)
    if not isinstance(parameter, Choice) and parameter.step is not None:
        _check_numbers(name, parameter.step)
        if parameter.step <= 0:
            raise wrong(name, f"steps of {parameter.step:g} lead nowhere", "give a step above 0")
    return parameter


def _check_range(name: str, parameter: Range) -> None:
    low, high = parameter.low, parameter.high
    _check_numbers(name, low, high)
    if low > high:
        raise wrong(name, f"there is nothing from {low:g} to {high:g}", "write the lower bound first")
    if parameter.log and low <= 0:
        raise wrong(name, f"{low:g} has no logarithm", "give a lower bound above 0, or use uniform")
    if parameter.whole and (low != int(low) or high != int(high)):
        raise wrong(name, f"{low:g} to {high:g} are no integers", "write 1 and 8, or use uniform")


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is one that can be calculated with."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return isinstance(value, float) and math.isfinite(value)


def _check_numbers(name: str, *numbers: object) -> None:
    for number in numbers:
        if not is_number(number):
            raise wrong(name, f"{number!r} is no number", "write numbers such as 8, 0.1 or 1.0e-4")


def _check_choice(name: str, parameter: Choice) -> None:
    if not parameter.values:
        raise wrong(name, "there is no value to choose from", "write at least one, [0.1, 0.2]")
    for value in parameter.values:
        if isinstance(value, Branch):
            _check_space(f"{name}/{value.name}", value.space)
            continue
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            what = f"{value!r} is nothing that JSON can hold"
            raise wrong(
                name, what, "use numbers, text, true, false, null, lists of them; put others in quotes"
            ) from error
    branches = [value.name for value in parameter.values if isinstance(value, Branch)]
    if len(set(branches)) != len(branches):
        raise wrong(name, "two of its branches have the same name", "give each a name of its own")


def _check_space(name: str, space: Mapping[str, Parameter]) -> None:
    for below, parameter in space.items():
        checked(f"{name}/{below}", parameter)
