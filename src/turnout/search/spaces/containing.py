"""Whether parameters lie in a space."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range, Space
from turnout.search.spaces.checking import is_number
from turnout.search.spaces.drawing import NAME, settled

_NEAR = 1e-9


def objection(space: Space, params: Mapping[str, object], above: str = "") -> str | None:
    """What is wrong with them, or None: each parameter has to be there, with one of its values, and no other."""
    for name in params.keys() - space.keys():
        return f"there is no parameter {above + name!r}"
    for name, parameter in space.items():
        if name not in params:
            return f"{above + name!r} is missing"
        if why := _objection(parameter, params[name], above + name):
            return why
    return None


def _objection(parameter: Parameter, value: object, name: str) -> str | None:
    if isinstance(parameter, Choice):
        return _not_listed(parameter, value, name)
    if not is_number(value):
        is_large = isinstance(value, int) and not isinstance(value, bool)
        return f"{name!r} is too large" if is_large else f"{name!r} is {value!r}, which is no number"
    if isinstance(parameter, Normal) and parameter.log and (value < 0 or (value == 0 and parameter.step is None)):
        return f"{name!r} is {value!r}, which has no logarithm"
    if isinstance(parameter, Range) and not parameter.low <= value <= parameter.high:
        return f"{name!r} is {value!r}, which is not from {parameter.low} to {parameter.high}"
    if isinstance(parameter, Range) and parameter.whole and not isinstance(value, int):
        return f"{name!r} is {value!r}, which is no integer"
    if abs(settled(parameter, value) - value) > _NEAR * max(1.0, abs(value)):
        is_bound = isinstance(parameter, Range) and value in (parameter.low, parameter.high)
        return None if is_bound else f"{name!r} is {value!r}, which is no multiple of {parameter.step}"
    return None


def _not_listed(parameter: Choice, value: object, name: str) -> str | None:
    for each in parameter.values:
        if isinstance(each, Branch):
            if isinstance(value, Mapping) and value.get(NAME) == each.name:
                below = {key: one for key, one in value.items() if key != NAME}
                return objection(each.space, below, f"{name}/{each.name}/")
        elif each == value and isinstance(each, bool) == isinstance(value, bool):
            return None
    return f"{name!r} is {value!r}, which is none of its values"
