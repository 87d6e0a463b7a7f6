"""From values to places on an axis, and the values that are written beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turnout.cli.search_plots.shapes import shortened
from turnout.client.studied import Axis

_LONGEST_LABEL = 18
_MANY_TIMES = 1000.0  # larger than the smallest: then orders of magnitude tell more
_FENCE = 6.0  # in spans of the middle half: what is beyond would squeeze all others


class Scale(Protocol):
    def share(self, value: Any) -> float | None:
        """From 0 to 1, and never beyond; None for what has no place."""

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Shares and labels, at most about so many."""


@dataclass(frozen=True, slots=True)
class Linear:
    low: float
    high: float

    def share(self, value: Any) -> float | None:
        if not isinstance(value, int | float):
            return None
        return _within((value - self.low) / (self.high - self.low)) if self.high > self.low else 0.5

    def value(self, share: float) -> float:
        return self.low + (self.high - self.low) * share

    def ticks(self, most: int) -> list[tuple[float, str]]:
        if not self.high > self.low:
            return [(0.5, number(self.low))]
        rough = (self.high - self.low) / max(1, most)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [round(index * step, 12 - math.floor(math.log10(step))) for index in range(first, last + 1)]
        return [((value - self.low) / (self.high - self.low), number(value)) for value in values]


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Both bounds are above 0."""

    low: float
    high: float

    def share(self, value: Any) -> float | None:
        if not isinstance(value, int | float) or value <= 0:
            return None
        if not self.high > self.low:
            return 0.5
        return _within(math.log(value / self.low) / math.log(self.high / self.low))

    def value(self, share: float) -> float:
        return float(self.low * (self.high / self.low) ** share)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
            values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            inside = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
            if 2 <= len(inside) <= most:
                break
        if len(inside) < 2:
            inside = [self.low, self.high]
        inside = inside[:: -(-len(inside) // max(1, most))]
        return [(self.share(value) or 0.0, number(value)) for value in inside]


@dataclass(frozen=True, slots=True)
class Categories:
    choices: Sequence[object]

    def share(self, value: Any) -> float | None:
        found = [place for place, each in enumerate(self.choices) if text(each) == text(value)]
        return (found[0] + 0.5) / len(self.choices) if found else None

    def ticks(self, most: int) -> list[tuple[float, str]]:
        stride = -(-len(self.choices) // max(1, most))
        labels = [(place, shortened(text(each), _LONGEST_LABEL)) for place, each in enumerate(self.choices)]
        return [((place + 0.5) / len(self.choices), label) for place, label in labels[::stride]]


def of_axis(axis: Axis, values: Sequence[object]) -> Scale:
    """For the values that were tried."""
    if axis.choices is not None:
        return Categories(axis.choices)
    numbers = [value for value in values if isinstance(value, int | float)] or [0.0]
    low, high = min(numbers), max(numbers)
    return Logarithmic(low, high) if axis.is_log and low > 0 else Linear(low, high)


def of_results(values: Sequence[float]) -> Linear | Logarithmic:
    """For results: by orders of magnitude if they are that far apart; a few that are far off lie beyond it."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= _MANY_TIMES:
        return Logarithmic(low, high)
    ordered = sorted(values)
    first, third = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    reach = _FENCE * (third - first)
    if reach > 0:
        low, high = max(low, first - reach), min(high, third + reach)
    return Linear(low, high)


def number(value: float) -> str:
    """``0.001``, ``1e-5``, ``20000``."""
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        return str(int(value)) if abs(value) < 1e6 else _powers(value)
    return f"{value:.6g}" if 1e-3 <= abs(value) < 1e6 else _powers(value)


def text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return json.dumps(value)


def _powers(value: float) -> str:
    digits, _, power = f"{value:.3g}".partition("e")
    return f"{digits}e{int(power)}" if power else digits


def _within(share: float) -> float:
    return min(max(share, 0.0), 1.0)
