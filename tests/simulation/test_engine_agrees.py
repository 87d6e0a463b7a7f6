"""The real engine, with its SQL, tells the same stories as the model that the thousand seeds are played with."""

from __future__ import annotations

import pytest

from turnout.testing.simulator import simulate

#: The model also knows what becomes of a node's machine that lost power; see there.
SPARED = frozenset({"power cut"})


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_engine_and_model_tell_the_same_story(seed: int) -> None:
    real = simulate(seed, real=True, spared=SPARED)
    assert real.problem is None, f"{real.verdict()}\n{real.story()}"
    model = simulate(seed, spared=SPARED)
    told = [line for line in model.story().splitlines() if " gives up agent " not in line]
    assert real.story().splitlines() == told
