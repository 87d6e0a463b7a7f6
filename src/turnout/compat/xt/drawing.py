"""Parameters for a run that no search gave any."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from turnout.search.spaces import read_space
from turnout.search.spaces.drawing import draw

_TOP = "hyperparameter-distributions"


def draw_set(space: Mapping[str, Any], seed: str | None) -> dict[str, object]:
    """One value of each, at random; the same for the same seed. InvalidInput."""
    content = space if _TOP in space else {_TOP: dict(space)}
    return draw(read_space(content), Random(seed))
