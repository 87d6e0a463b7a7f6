"""Sites with queues of their own: nodes that come late, are taken away, and jobs that the site begins again."""

from __future__ import annotations

from unittest import mock

import pytest

from turnout.engine.pool import Pool
from turnout.testing.simulator import simulate

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled(seed: int) -> None:
    outcome = simulate(seed, real=True, sites=True)
    assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"


def test_what_can_happen_does() -> None:
    seen = frozenset[str]().union(*(simulate(seed, real=True, sites=True).seen for seed in range(100, 110)))
    wanted = {"node taken away", "job requeued by its site", "reply of a submit lost", "launch refused"}
    assert wanted <= seen, wanted - seen


def test_who_forgets_the_runs_of_a_node_that_was_taken_away_is_found_out() -> None:
    """The simulation must be able to fail: an engine that looks away when an allocation ends."""
    with mock.patch.object(Pool, "_bury"), mock.patch.object(Pool, "give_up_silent"):
        outcomes = [simulate(seed, real=True, sites=True) for seed in range(12)]
    assert any(outcome.problem is not None for outcome in outcomes)
