"""The options of a sampler or stopper, as they were written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from turnout.plugin.sampler import BadOption

#: What is wrong with a value, in a few words; "" = nothing.
Check = Callable[[object], str]


def check_options(given: Mapping[str, object], known: Mapping[str, Check], who: str) -> dict[str, object]:
    """The same. BadOption for one that is not known, or whose value is wrong; `who` takes them."""
    for name, value in given.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise BadOption(f"{who} has no option {name!r}; {has}", name)
        if problem := known[name](value):
            raise BadOption(f"{who}: {name} is {value!r}; {problem}", name)
    return dict(given)


def flag(value: object) -> str:
    return "" if isinstance(value, bool) else "write true or false"


def whole(low: int, high: int) -> Check:
    def check(value: object) -> str:
        is_one = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if is_one else f"write an integer from {low} to {high}"

    return check


def number(low: float, high: float = math.inf) -> Check:
    def check(value: object) -> str:
        is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and low <= value <= high
        return "" if is_one else f"write a number from {low:g}" + (f" to {high:g}" if math.isfinite(high) else "")

    return check
