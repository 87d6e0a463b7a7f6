"""Values at random out of a space."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Params, Range, Space

NAME = "_name"
_LARGEST = 700.0  # of exponents


def draw(space: Space, random: Random) -> Params:
    """A value for each parameter."""
    return {name: draw_one(parameter, random) for name, parameter in space.items()}


def draw_one(parameter: Parameter, random: Random) -> object:
    if isinstance(parameter, Choice):
        value = parameter.values[random.randrange(len(parameter.values))]
        return {NAME: value.name, **draw(value.space, random)} if isinstance(value, Branch) else value
    if isinstance(parameter, Normal):
        drawn = random.gauss(parameter.mean, parameter.deviation)
        return settled(parameter, exp(drawn) if parameter.log else drawn)
    if parameter.whole and not parameter.log:
        return settled(parameter, random.randint(int(parameter.low), int(parameter.high)))
    return settled(parameter, placed(parameter, random.random()))


def placed(parameter: Range | Normal, share: float) -> float:
    """Where so large a share of all values is below; not rounded. `share` is from 0 to 1, of a `Normal` within them."""
    if isinstance(parameter, Normal):
        found = NormalDist(parameter.mean, parameter.deviation).inv_cdf(share)
        return exp(found) if parameter.log else found
    if not parameter.log:
        return parameter.low + (parameter.high - parameter.low) * share
    low, high = math.log(parameter.low), math.log(parameter.high)
    return exp(low + (high - low) * share)


def settled(parameter: Range | Normal, value: float) -> float | int:
    """The value of the parameter that is nearest: rounded as it has to be, and not outside."""
    if parameter.step is not None and math.isfinite(value / parameter.step):
        value = tidy(round(value / parameter.step) * parameter.step)
    if isinstance(parameter, Normal):
        return float(value)
    value = min(max(value, parameter.low), parameter.high)
    return round(value) if parameter.whole else float(value)


def tidy(value: float) -> float:
    """0.3, not 0.30000000000000004."""
    return value if isinstance(value, int) else float(f"{value:.12g}")


def exp(value: float) -> float:
    """A number above 0, also where it would be too large or too small for one."""
    return math.exp(min(max(value, -_LARGEST), _LARGEST))
