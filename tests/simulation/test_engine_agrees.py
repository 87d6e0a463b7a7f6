"""The real engine, with its SQL, tells the same stories as the model that the thousand seeds are played with."""

from __future__ import annotations

import pytest

from turnout.testing.simulator import Simulation, simulate

#: The model also knows what becomes of a node's machine that lost power; see there.
SPARED = frozenset({"power cut"})


@pytest.mark.parametrize("seed", range(2000, 2012))
def test_engine_and_model_tell_the_same_story(seed: int) -> None:
    real = simulate(seed, real=True, spared=SPARED)
    assert real.problem is None, f"{real.verdict()}\n{real.story()}"
    model = simulate(seed, spared=SPARED)
    told = [line for line in model.story().splitlines() if " gives up agent " not in line]
    assert real.story().splitlines() == told


@pytest.mark.parametrize("seed", [45, 76, 98])
def test_the_engine_executes_no_attempt_twice_after_a_power_cut(seed: int) -> None:
    outcome = simulate(seed, real=True)
    assert outcome.problem is None, outcome.verdict()


def test_what_was_granted_to_an_agent_that_just_left_costs_no_attempt() -> None:
    simulation = Simulation(120, real=True, spared=SPARED)
    simulation.run()
    disk = simulation.disk
    left = [
        past for history in disk.events.values() for past in history if past.data.get("message") == "its agent left"
    ]
    assert not left
