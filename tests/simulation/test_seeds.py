"""A thousand stories in which everything goes wrong that can, and nothing is lost, doubled or left undone.

A seed that fails prints its story; ``python -m turnout.testing.simulator --seed N`` tells it again with every message.
"""

from __future__ import annotations

import pytest

from turnout.model.state import Reason
from turnout.testing.simulator import KINDS, Simulation, simulate

CHUNK = 125

#: What must have happened somewhere among the seeds of every chunk: else the faults were only talked of.
FAULTS = {
    "message lost", "message late", "message doubled", "time out", "slow commit", "hub killed",
    "hub killed between commit and answer", "hub stopped within the lease", "hub stopped beyond the lease",
    "hub asleep", "node asleep", "agent killed", "agent stopped within the lease", "agent stopped beyond the lease",
    "launcher killed", "supervisor killed", "power cut", "up_cut within the lease", "up_cut beyond the lease",
    "down_cut within the lease", "down_cut beyond the lease", "launch failed", "could not look",
    "agent frozen", "agent died at its start",
}  # fmt: skip
ANSWERS = {
    "submission repeated", "submission known", "cancel repeated", "cancel: cancelled", "cancel: requested",
    "cancel: over", "restart requested", "restart unanswered",
    "stop before start", "stop while running", "grant returned", "segment dropped", "piece repeated",
    "fact refused: duplicate", "fact refused: not current", "refused: unknown token",
    "fenced: captured", "agent surrendered", "agent started again", "agent left: nothing to do",
    "agent left: the hub does not answer", "agent given up: no sign of life, with runs", "adopt: running",
    "adopt: ended", "adopt: never begun", "adopt: supervisor gone",
}  # fmt: skip
STEPS = {
    "queued -> starting", "queued -> running", "queued -> cancelled", "starting -> running", "starting -> finishing",
    "starting -> queued", "starting -> failed", "starting -> cancelled", "starting -> completed",
    "running -> finishing", "running -> queued", "running -> failed", "running -> cancelled", "running -> completed",
    "finishing -> completed", "finishing -> failed", "finishing -> cancelled", "finishing -> queued",
}  # fmt: skip


@pytest.mark.parametrize("chunk", range(8))
def test_everything_comes_to_its_right_end(chunk: int) -> None:
    seen: set[str] = set()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        outcome = simulate(seed)
        seen |= outcome.seen
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
    missing = sorted((FAULTS | ANSWERS | STEPS) - seen)
    assert not missing, f"never happened: {missing}"


def only(*kinds: str) -> frozenset[str]:
    """What to spare so that nothing but these goes wrong."""
    return frozenset(KINDS) - set(kinds)


def check_no_attempt_was_lost(seed: int, spared: frozenset[str]) -> frozenset[str]:
    simulation = Simulation(seed, spared=spared)
    outcome = simulation.run()
    story = f"{outcome.verdict()}\n{outcome.story()}"
    assert outcome.problem is None, story
    disk = simulation.disk
    for record in disk.records.values():
        restarts = [past for past in disk.events[record.id] if past.data.get("reason") == Reason.PREEMPTED]
        allowed = disk.jobs[disk.rows[record.id].job].retry.losses
        assert allowed - record.losses_left <= len(restarts), story
        assert record.reason not in (Reason.NODE_LOST, Reason.INFRA), story
    return outcome.seen


def test_troubles_of_the_hub_cost_no_run_an_attempt() -> None:
    """No agent is given up for silence that was the hub's; what a command did is what is recorded of it."""
    spared = only("kill hub", "fragile hub", "stop hub", "slow disk", "echo")
    seen = frozenset[str]().union(*(check_no_attempt_was_lost(seed, spared) for seed in range(120)))
    assert {"hub killed", "hub killed between commit and answer", "hub stopped beyond the lease", "slow commit"} <= seen


def test_the_death_of_an_agent_costs_no_run_an_attempt() -> None:
    """Commands go on without it, and the next one takes them over."""
    spared = only("kill agent", "kill launcher")
    seen = frozenset[str]().union(*(check_no_attempt_was_lost(seed, spared) for seed in range(120)))
    assert {"agent killed", "launcher killed", "adopt: running", "adopt: ended", "adopt: never begun"} <= seen


def test_a_power_cut_executes_no_attempt_twice() -> None:
    """What a node does not remember may have been executed; and what it lost of its output, the hub may have."""
    spared = only("power cut", "kill agent")
    seen: set[str] = set()
    for seed in range(150):
        outcome = simulate(seed, spared=spared)
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
        seen |= outcome.seen
    assert {"power cut", "adopt: never begun", "adopt: supervisor gone", "refused: output incomplete"} <= seen


def test_when_nothing_goes_wrong_nothing_happens_twice() -> None:
    spared = frozenset(KINDS)
    seen = frozenset[str]().union(*(check_no_attempt_was_lost(seed, spared) for seed in range(40)))
    assert not {"time out", "fact refused: duplicate", "piece repeated", "agent started again"} & seen
