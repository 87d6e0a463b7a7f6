"""A node on which no agent ever comes up again: what it had in hand must not wait for it for ever."""

from __future__ import annotations

import pytest

from turnout.model.event import EventName
from turnout.plugin.provider import Failure, Launch
from turnout.testing.simulator import KINDS, Simulation
from turnout.testing.simulator.yard import Yard

BREAKS = 3.1


@pytest.mark.parametrize("real", [False, True], ids=["model", "engine"])
def test_its_runs_are_given_up_and_it_is_tried_less_and_less(real: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Yard._start

    def start(self: Yard, launch: Launch) -> str | Failure:
        handle = begin(self, launch)
        if self.machine.world.now >= BREAKS and isinstance(handle, str):
            agent = self.agents[handle]
            agent.kill()
            agent.begin()  # a process that lives for a moment and never says hello
            agent.after(0.4, agent.kill)
        return handle

    monkeypatch.setattr(Yard, "_start", start)
    simulation = Simulation(1, real=real, spared=frozenset(KINDS))
    (yard,) = simulation.yards.values()

    def break_down() -> None:
        assert yard.agent is not None and yard.agent.holding(), "it has something in hand"
        yard.agent.kill()

    simulation.world.clock.after(BREAKS, break_down)
    simulation.run()
    lost = [
        past for history in simulation.disk.events.values() for past in history if past.event is EventName.NODE_LOST
    ]
    assert lost
    assert len(yard.agents) < 30
