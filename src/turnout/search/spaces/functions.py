"""The functions by which a parameter can be described: ``uniform``, ``choice`` and so on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from turnout.plugin.space import Choice, Normal, Parameter, Range
from turnout.search.spaces.checking import checked, is_number, wrong
from turnout.search.spaces.drawing import tidy
from turnout.search.spaces.notation import meant

#: What is meant where any seed will do.
ANY_SEED = Range(0, 2**31 - 1, whole=True)
_MOST_VALUES = 10_000


def apply(name: str, function: str, args: Sequence[object]) -> Parameter:
    """The parameter `name` as this function describes it. InvalidInput."""
    found = _FUNCTIONS.get(function)
    if found is None:
        raise wrong(name, f"there is no function {function!r}", f"use one of {', '.join(_FUNCTIONS)}")
    form, counts, make = found
    if counts and len(args) not in counts:
        given = f"{len(args)} value{'' if len(args) == 1 else 's'}"
        raise wrong(name, f"{function} does not take {given}", f"write {function}({form})")
    args = [meant(each) for each in args]
    if function != "choice":
        for each in args:
            if not is_number(each):
                raise wrong(name, f"{function} does not take {each!r}", f"write {function}({form}), with numbers")
    return checked(name, make(name, *args))


def from_logarithms(name: str, args: Sequence[object]) -> list[object]:
    """The bounds of which these are the natural logarithms; a third argument stays."""
    try:
        return [math.exp(each) if isinstance(each, (int, float)) else each for each in args[:2]] + list(args[2:])
    except OverflowError as error:
        raise wrong(
            name, f"e to the power of {args[1]} is too large", "write the bounds: $loguniform(1e-4, 0.1)"
        ) from error


def _choice(name: str, *values: object) -> Parameter:
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = tuple(meant(value) for value in values[0])
    return Choice(values)


def _randint(name: str, *bounds: float) -> Parameter:
    """Its upper bound is not included."""
    if not bounds:
        return ANY_SEED
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    if low >= high:
        raise wrong(name, f"there is no integer from {low:g} to below {high:g}", "the upper bound is not included")
    return Range(low, high - 1, whole=True)


def _linspace(name: str, first: float, last: float, count: float) -> Parameter:
    if count != int(count) or not 1 <= count <= _MOST_VALUES:
        raise wrong(
            name, f"{count:g} is no number of values", "write linspace(first, last, count), such as (0.1, 0.9, 5)"
        )
    gaps = max(1, int(count) - 1)
    return Choice(tuple(tidy(first + (last - first) * index / gaps) for index in range(int(count))))


def _uniform(*, log: bool, steps: bool) -> Callable[..., Parameter]:
    def make(name: str, low: float, high: float, step: float | None = None) -> Parameter:
        # What was written without a point can only be integers, if it is rounded to them.
        whole = steps and all(isinstance(each, int) for each in (low, high, step))
        return Range(low, high, log=log, step=step, whole=whole)

    return make


def _normal(*, log: bool) -> Callable[..., Parameter]:
    def make(name: str, mean: float, deviation: float, step: float | None = None) -> Parameter:
        return Normal(mean, deviation, log=log, step=step)

    return make


#: By name: its arguments as people write them, how many there may be (none = any number), and who makes it.
_FUNCTIONS: dict[str, tuple[str, tuple[int, ...], Callable[..., Parameter]]] = {
    "choice": ("value, value, ...", (), _choice),
    "uniform": ("low, high", (2,), _uniform(log=False, steps=False)),
    "loguniform": ("low, high", (2,), _uniform(log=True, steps=False)),
    "quniform": ("low, high, step", (3,), _uniform(log=False, steps=True)),
    "qloguniform": ("low, high, step", (3,), _uniform(log=True, steps=True)),
    "normal": ("mean, deviation", (2,), _normal(log=False)),
    "lognormal": ("mean, deviation", (2,), _normal(log=True)),
    "qnormal": ("mean, deviation, step", (3,), _normal(log=False)),
    "qlognormal": ("mean, deviation, step", (3,), _normal(log=True)),
    "int": ("low, high", (2,), lambda name, low, high: Range(low, high, whole=True)),
    "logint": ("low, high", (2,), lambda name, low, high: Range(low, high, log=True, whole=True)),
    "randint": ("low, above", (0, 1, 2), _randint),
    "linspace": ("first, last, count", (3,), _linspace),
}
