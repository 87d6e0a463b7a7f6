"""Hub, agents, commands and people in one process, on one virtual clock, with everything going wrong that can.

The hub decides by the code of ``schedule``, ``wire`` and ``engine.sessions``; the rest of the engine is either its
model in memory (fifty simulations a second) or the real one on SQLite. Agents, commands, links and people are models.

``python -m turnout.testing.simulator --seed 7`` tells the story of one seed, ``--seeds 0..1000`` looks for one that
goes wrong.
"""

from turnout.testing.simulator.faults import KINDS
from turnout.testing.simulator.simulation import Outcome, Simulation, simulate

__all__ = ["KINDS", "Outcome", "Simulation", "simulate"]
