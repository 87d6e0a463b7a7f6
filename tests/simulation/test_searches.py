"""Searches while everything goes wrong that can: each proposal becomes one run, each result is told once, none is lost.

A seed that fails prints its story; ``python -m turnout.testing.simulator --searches --seed N`` tells it again.
"""

from __future__ import annotations

import pytest

from turnout.testing.simulator import KINDS, Simulation, simulate

CHUNK = 120
#: The model also knows what becomes of a node's machine that lost power.
SPARED = frozenset({"power cut"})
#: Without jobs that have nodes of their own: the engine starts those together, the model one after the other.
#: In 47 a person changes a search amid a round of it; in 229 and 272 one is taken up again at one of its targets.
SAME = (2, 5, 8, 10, 12, 13, 14, 17, 18, 27, 46, 47, 58, 229, 272)
#: What must have happened in every chunk.
SEEN = {
    "search changed: pause", "search changed: resume", "search changed: runs", "search changed: concurrent",
    "search not changed: pause, 409", "search not changed: resume, 409", "search taken up again", "change known",
    "search paused: its sampler failed", "search over: all its runs are made", "search over: it was cancelled",
    "search over: its time is up", "search over: there is nothing left to try", "search over: nothing worked",
    "run asked to end: stopped", "run asked to end: budget", "queued -> stopped", "finishing -> stopped",
    "parent drained", "hub killed between commit and answer", "agent given up: no sign of life, with runs",
}  # fmt: skip


@pytest.mark.parametrize("chunk", range(2))
def test_every_search_comes_to_its_right_end(chunk: int) -> None:
    seen: set[str] = set()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        outcome = simulate(seed, searches=True)
        seen |= outcome.seen
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
    assert not SEEN - seen, f"never happened: {sorted(SEEN - seen)}"


@pytest.mark.parametrize("seed", SAME)
def test_engine_and_model_tell_the_same_story(seed: int) -> None:
    model = Simulation(seed, searches=True, spared=SPARED)
    told = [line for line in model.run().story().splitlines() if " gives up agent " not in line]
    assert not any(asked.spec.nodes for asked in model.person.asked), "these start agents together"
    real = Simulation(seed, real=True, searches=True, spared=SPARED)
    outcome = real.run()
    assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
    assert outcome.story().splitlines() == told
    assert [(life.key, life.adopted, life.told, life.ended) for life in real.lives] == [
        (life.key, life.adopted, life.told, life.ended) for life in model.lives
    ]
    assert real.disk.searches == model.disk.searches and real.disk.proposals == model.disk.proposals


@pytest.mark.parametrize("seed", range(6))
def test_searches_go_on_at_sites_that_take_their_nodes_back(seed: int) -> None:
    outcome = simulate(seed, real=True, sites=True, searches=True)
    assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"


def test_each_life_of_the_hub_hears_all_that_is_known_once() -> None:
    """More than one life is needed to see it: there have to be hubs that died in the middle."""
    spared = frozenset(KINDS) - {"kill hub", "fragile hub"}
    took_over = 0
    for seed in range(60):
        simulation = Simulation(seed, searches=True, spared=spared)
        outcome = simulation.run()
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
        took_over += any(life.adopted for life in simulation.lives)
    assert took_over > 5
