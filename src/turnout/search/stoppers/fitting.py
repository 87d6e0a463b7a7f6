"""Where a learning curve leads: curves of a few shapes laid through it by least squares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_POINTS = 128
_FEWEST = 4
_TRIES = 12
_ZOOMS = 3
_AS_NEAR = 1.25

#: A curve is ``a + b * shape(x * rate)``; for each shape and rate, the best `a` and `b` are known at once. These come
#: to a limit, sooner or later; powers and logarithms of x have something else in place of the rate.
_SHAPES: tuple[Callable[[float], float], ...] = (
    lambda x: math.exp(-x),
    lambda x: math.exp(-math.sqrt(x)),
    lambda x: math.exp(-(x**1.5)),
    lambda x: 1.0 / (1.0 + x),
)


class _Fit(NamedTuple):
    """How far the points are from the curve (the sum of squares), and where it leads."""

    miss: float
    value: float


class _Family(NamedTuple):
    curve: Callable[[float, float], float]
    low: float
    high: float


def extrapolate(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """The value at `x` of the curve that comes nearest to the points (x, y), whose x ascend from 1 on; where several
    are about as near, the lowest. None where the points are too few to tell. The same points give the same value."""
    points = _thinned(points)
    if len(points) < _FEWEST:
        return None
    fits = [fit for family in _families(points[-1][0], x) if (fit := _nearest(points, family, x)) is not None]
    nearest = min(fits, default=None)
    return min(fit.value for fit in fits if fit.miss <= nearest.miss * _AS_NEAR) if nearest is not None else None


def _families(last: float, end: float) -> Iterator[_Family]:
    yield _Family(lambda x, exponent: x**-exponent, 0.05, 4.0)
    yield _Family(lambda x, ahead: 1.0 / math.log(x + ahead), 0.5, 50.0)
    for shape in _SHAPES:
        yield _Family(lambda x, rate, shape=shape: shape(x * rate), 0.5 / end, 20.0 / last)  # type: ignore[misc]


def _nearest(points: Sequence[tuple[float, float]], family: _Family, x: float) -> _Fit | None:
    """Rates are tried in equal proportions, then again around the best of them."""
    low, high, best = math.log(family.low), math.log(family.high), None
    for _ in range(_ZOOMS):
        width = (high - low) / (_TRIES - 1)
        rates = [low + place * width for place in range(_TRIES)]
        tried = [(fit, rate) for rate in rates if (fit := _fit(points, family, math.exp(rate), x)) is not None]
        if not tried:
            return best
        best, middle = min(tried)
        low, high = middle - width, middle + width
    return best


def _fit(points: Sequence[tuple[float, float]], family: _Family, rate: float, x: float) -> _Fit | None:
    count = len(points)
    shaped = [family.curve(each, rate) for each, _ in points]
    middle, height = sum(shaped) / count, sum(y for _, y in points) / count
    spread = sum((each - middle) ** 2 for each in shaped)
    if spread < 1e-18:
        return None
    slope = sum((each - middle) * (y - height) for each, (_, y) in zip(shaped, points, strict=True)) / spread
    misses = (y - height - slope * (each - middle) for each, (_, y) in zip(shaped, points, strict=True))
    fit = _Fit(sum(miss * miss for miss in misses), height + slope * (family.curve(x, rate) - middle))
    return fit if math.isfinite(fit.miss + fit.value) else None


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """So few that it takes no time, evenly, the last among them."""
    if len(points) <= _POINTS:
        return points
    return [points[(place + 1) * len(points) // _POINTS - 1] for place in range(_POINTS)]
