"""A space as NNI's tuners are told of it."""

from __future__ import annotations

from typing import Any

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range, Space


def to_nni(space: Space) -> dict[str, dict[str, Any]]:
    """``{"lr": {"_type": "uniform", "_value": [0, 1]}}``. Whole numbers that are drawn by order of magnitude, or in
    steps, come back from a tuner as floats."""
    return {name: _written(parameter) for name, parameter in space.items()}


def _written(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Choice):
        return {"_type": "choice", "_value": [_value(each) for each in parameter.values]}
    if isinstance(parameter, Range) and parameter.whole and not parameter.log and parameter.step is None:
        return {"_type": "randint", "_value": [int(parameter.low), int(parameter.high) + 1]}
    name = "normal" if isinstance(parameter, Normal) else "uniform"
    step = parameter.step
    if step is None and isinstance(parameter, Range) and parameter.whole:
        step = 1
    kind = f"{'q' if step is not None else ''}{'log' if parameter.log else ''}{name}"
    return {"_type": kind, "_value": [*_bounds(parameter), *([] if step is None else [step])]}


def _bounds(parameter: Range | Normal) -> list[float]:
    if isinstance(parameter, Normal):
        return [parameter.mean, parameter.deviation]
    return [parameter.low, parameter.high]


def _value(value: object) -> Any:
    return {"_name": value.name, **to_nni(value.space)} if isinstance(value, Branch) else value
