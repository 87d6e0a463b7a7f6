"""``hyperopt.pyll.stochastic`` as far as XT's search algorithms use it, where hyperopt is not installed."""

from __future__ import annotations

import random
from random import Random

from turnout.plugin.space import Parameter
from turnout.search.spaces.drawing import draw_one

__all__ = ["sample"]


def sample(expr: Parameter, rng: object = None, **others: object) -> object:
    """A value of a ``space_func``, by the chance that `random` has."""
    return draw_one(expr, Random(random.getrandbits(64)))
