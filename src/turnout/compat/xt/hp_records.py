"""A space as XT's search algorithms are told of it: a record of each parameter, as its HP file has it.

``{"name": "lr", "value": "0.01, 0.03", "space_func": ...}``: the values with commas between, or the function, whose
bounds are logarithms where it is a logarithmic one, as XT has it. ``space_func`` is hyperopt's where that is installed;
else one of ours, which ``hyperopt.pyll.stochastic.sample`` takes all the same.
"""

from __future__ import annotations

import math
from typing import Any

from turnout.plugin.sampler import BadOption
from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range, Space
from turnout.search.spaces.functions import ANY_SEED

Record = dict[str, Any]


def to_records(space: Space) -> list[Record]:
    """BadOption for a parameter that XT could not write."""
    hyperopt = _hyperopt()
    return [
        {
            "name": name, "value": _text(name, parameter),
            "space_func": parameter if hyperopt is None else _function(hyperopt, name, parameter),
        }
        for name, parameter in space.items()
    ]  # fmt: skip


def _hyperopt() -> Any:
    """Its functions, where it is installed."""
    try:
        from hyperopt import hp  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    return hp


def _text(name: str, parameter: Parameter) -> str:
    if isinstance(parameter, Choice):
        if any(isinstance(each, Branch) for each in parameter.values):
            raise BadOption(f"XT's search knows no parameters within a choice, as {name!r} has; use tpe or random")
        return ", ".join(str(each).strip() for each in parameter.values)
    if parameter == ANY_SEED:
        return "$randint()"
    function, arguments = _described(parameter)
    return f"${function}({', '.join(map(str, arguments))})"


def _function(hyperopt: Any, name: str, parameter: Parameter) -> Any:
    if isinstance(parameter, Choice):
        return hyperopt.choice(name, list(parameter.values))
    function, arguments = _described(parameter)
    return getattr(hyperopt, function)(name, *arguments)


def _described(parameter: Range | Normal) -> tuple[str, tuple[float, ...]]:
    """The function that draws it, and its arguments."""
    steps = () if parameter.step is None else (parameter.step,)
    if isinstance(parameter, Normal):
        return _named("normal", parameter.log, steps), (parameter.mean, parameter.deviation, *steps)
    if parameter.whole and not parameter.log and not steps:
        low, above = int(parameter.low), int(parameter.high) + 1
        return "randint", (above,) if low == 0 else (low, above)
    if parameter.whole and not steps:
        steps = (1,)
    bounds = (parameter.low, parameter.high)
    if parameter.log:
        bounds = (math.log(parameter.low), math.log(parameter.high))
    return _named("uniform", parameter.log, steps), (*bounds, *steps)


def _named(kind: str, is_log: bool, steps: tuple[float, ...]) -> str:
    return f"{'q' if steps else ''}{'log' if is_log else ''}{kind}"
