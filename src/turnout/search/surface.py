"""What came out, as a surface over two parameters: near runs count, far ones do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_NARROWEST, _WIDEST = 0.04, 0.15
_FARTHEST = 2.5  # from the nearest run, in widths
_MOST = 2000  # results that are looked at


def smoothed(
    places: Sequence[tuple[float, float]], values: Sequence[float], columns: Sequence[float], rows: Sequence[float]
) -> list[list[float | None]]:
    """For each of `rows`, at each of `columns`: the mean of the results around, the nearer the heavier; None where no
    run is near. All places are from 0 to 1."""
    stride = -(-len(values) // _MOST) or 1
    at = np.array(places, dtype=np.float64).reshape(-1, 2)[::stride]
    results = np.array(values, dtype=np.float64)[::stride]
    width = min(max(0.6 / max(1, len(results)) ** 0.5, _NARROWEST), _WIDEST)
    across = ((np.array(columns)[:, None] - at[None, :, 0]) / width) ** 2
    found: list[list[float | None]] = []
    for row in rows:
        away = across + ((row - at[:, 1]) / width)[None, :] ** 2
        nearest = away.min(axis=1, initial=np.inf)
        weights = np.exp(-(away - np.where(np.isfinite(nearest), nearest, 0.0)[:, None]) / 2)
        means = (weights @ results) / np.maximum(weights.sum(axis=1), 1e-300)
        is_near = nearest <= _FARTHEST**2
        found.append([float(mean) if near else None for mean, near in zip(means, is_near, strict=True)])
    return found
