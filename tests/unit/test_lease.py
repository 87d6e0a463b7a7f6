"""Leases: who is silent, who is lost, and why nobody is when it was the hub that was away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnout.schedule.lease import LeaseTable
from turnout.testing.clock import VirtualClock

LEASE, MARGIN = 30.0, 15.0


def table(*agents: int, now: float = 0.0) -> LeaseTable:
    """A table these agents just renewed at, and that was just looked at."""
    leases = LeaseTable(LEASE, MARGIN)
    leases.lost(now)
    for agent in agents:
        leases.renew(agent, now)
    return leases


def look_until(leases: LeaseTable, until: float, *, since: float = 0.0, step: float = 1.0) -> list[tuple[float, int]]:
    """Looks every `step` seconds as the engine does; when each agent was found lost first."""
    found: dict[int, float] = {}
    now = since
    while now < until:
        now += step
        for agent in leases.lost(now):
            found.setdefault(agent, now)
    return [(when, agent) for agent, when in found.items()]


def test_a_silent_agent_keeps_its_runs_for_the_lease_and_the_margin_and_not_a_second_longer() -> None:
    leases = table(1)
    assert look_until(leases, LEASE + MARGIN - 1) == []
    assert leases.lost(LEASE + MARGIN) == [1]


def test_silence_is_seen_before_anything_is_done_about_it() -> None:
    leases = table(1)
    assert not leases.is_silent(1, LEASE - 0.1)
    assert leases.is_silent(1, LEASE)
    assert leases.lost(LEASE / 2) == []


def test_an_agent_that_was_never_heard_of_is_silent_and_holds_nothing() -> None:
    leases = table()
    assert leases.is_silent(9, 0.0) and not leases.holds(9)
    assert leases.lost(1.0) == []


def test_a_renewal_counts_from_when_it_came() -> None:
    leases = table(1)
    leases.renew(1, 20.0)
    assert look_until(leases, 20.0 + LEASE + MARGIN - 1) == []
    assert leases.lost(20.0 + LEASE + MARGIN) == [1]


def test_one_renewal_is_for_one_agent() -> None:
    leases = table(1, 2)
    now = 0.0
    while now < LEASE + MARGIN:
        now += 10.0
        leases.renew(1, now)
        lost = leases.lost(now)
    assert lost == [2]


def test_a_lost_agent_is_named_until_it_is_dropped() -> None:
    leases = table(1)
    assert look_until(leases, 60.0) == [(45.0, 1)]
    assert leases.lost(61.0) == [1] and leases.holds(1)
    leases.drop(1)
    assert leases.lost(62.0) == [] and not leases.holds(1)
    leases.drop(1)  # again is no error


def test_after_the_hub_was_away_every_lease_begins_anew_in_full() -> None:
    leases = table(1, 2)
    back = 1000.0
    assert leases.lost(back) == [], "we were not there to hear them"
    assert not leases.is_silent(1, back + LEASE - 0.1)
    assert look_until(leases, back + LEASE + MARGIN - 1, since=back) == []
    assert sorted(leases.lost(back + LEASE + MARGIN)) == [1, 2]


def test_away_means_longer_than_half_a_lease() -> None:
    away = table(1)
    look_until(away, 40.0)
    assert away.lost(40.0 + LEASE / 2 + 0.1) == []
    busy = table(1)
    look_until(busy, 40.0)
    assert busy.lost(40.0 + LEASE / 2) == [1]


def test_the_first_look_gives_everybody_a_full_lease() -> None:
    """A hub that took long to start was not there to hear those it took up with first."""
    leases = LeaseTable(LEASE, MARGIN)
    leases.renew(1, 0.0)
    assert leases.lost(LEASE + MARGIN) == []
    assert look_until(leases, 100.0, since=45.0) == [(45.0 + LEASE + MARGIN, 1)]


def test_a_renewal_that_was_on_its_way_while_the_hub_was_stopped_takes_nothing_back() -> None:
    """A thread read the clock, then all of the hub was stopped; it goes on after the engine looked."""
    leases = table(1)
    back = 1000.0
    assert leases.lost(back) == []
    leases.renew(1, 0.1)
    assert look_until(leases, back + LEASE + MARGIN - 1, since=back) == []


def test_a_hub_that_is_always_slow_still_gives_up_the_dead() -> None:
    """Each of its rounds takes more than half a lease; those that live are heard all the same."""
    leases = table(1, 2)
    lost = []
    for now in range(20, 200, 20):
        leases.renew(1, now - 5.0)
        lost.append(leases.lost(float(now)))
    assert lost[0] == lost[1] == [] and lost[-1] == [2]


def test_a_hub_that_is_late_for_an_hour_gives_nobody_an_hour_more() -> None:
    """Its engine was stuck, but it listened."""
    leases = table(1)
    for now in (20.0, 3600.0):
        leases.renew(1, now)
        assert leases.lost(now) == []
    assert look_until(leases, 3700.0, since=3600.0) == [(3600.0 + LEASE + MARGIN, 1)]


class Story:
    """A hub that looks every second, and agents that renew at a third of the lease while they live, in virtual time.

    While the hub is away, what agents say waits; when it is back, it looks before it listens.
    """

    def __init__(self, agents: int) -> None:
        self.clock = VirtualClock()
        self.leases = LeaseTable(LEASE, MARGIN)
        self.alive = set(range(agents))
        self.lost: dict[int, float] = {}
        self.back = 0.0
        for agent in self.alive:
            self.leases.renew(agent, 0.0)
            self.clock.after(agent * LEASE / 3 / agents, lambda agent=agent: self._renew(agent))  # type: ignore[misc]
        self._look()

    def stop_hub(self, seconds: float) -> None:
        self.back = self.clock.now + seconds

    def _look(self) -> None:
        if self.clock.now < self.back:
            self.clock.after(self.back - self.clock.now, self._look)
            return
        for agent in self.leases.lost(self.clock.now):
            self.lost[agent] = self.clock.now
            self.leases.drop(agent)
        self.clock.after(1.0, self._look)

    def _renew(self, agent: int) -> None:
        if agent not in self.alive:
            return
        if self.clock.now < self.back:
            self.clock.after(self.back - self.clock.now + 0.01, lambda: self._renew(agent))
            return
        if self.leases.holds(agent):
            self.leases.renew(agent, self.clock.now)
        self.clock.after(LEASE / 3, lambda: self._renew(agent))


@given(st.floats(30.0, 60.0), st.lists(st.tuples(st.floats(0.0, 10_000.0), st.floats(0.5, 60.0)), max_size=6))
def test_whenever_and_however_long_the_hub_is_away_nobody_who_lives_is_given_up(
    first: float, times: list[tuple[float, float]]
) -> None:
    story = Story(agents=3)
    story.clock.run_until(first)
    for away, awake in times:
        story.stop_hub(away)
        story.clock.run_until(story.clock.now + away + awake)
    assert story.lost == {}
    story.alive.discard(2)
    died = story.clock.now
    story.clock.run_until(died + 2 * (LEASE + MARGIN) + 60.0)
    assert story.lost.keys() == {2}, "and the dead are found as before"
    assert story.lost[2] <= died + LEASE + MARGIN + 1.0


@given(st.floats(LEASE / 2 + 0.1, 100_000.0), st.floats(0.0, LEASE + MARGIN - 1.5))
def test_who_fell_silent_before_the_hub_was_away_has_a_full_lease_when_it_is_back(away: float, silent: float) -> None:
    story = Story(agents=2)
    story.clock.run_until(30.0)
    story.alive.clear()
    story.clock.run_until(30.0 + max(0.0, silent - LEASE / 3))
    story.stop_hub(away)
    back = story.back
    story.clock.run_until(back + LEASE + MARGIN + 2.0)
    assert sorted(story.lost) == [0, 1]
    assert all(when >= back + LEASE + MARGIN for when in story.lost.values())


@given(st.lists(st.tuples(st.floats(0.1, 20.0), st.booleans()), max_size=30))
def test_nobody_is_lost_who_was_heard_within_lease_and_margin(steps: list[tuple[float, bool]]) -> None:
    leases = table(1)
    now = heard = 0.0
    for seconds, renews in steps:
        now += seconds
        if renews:
            leases.renew(1, now)
            heard = now
        if leases.lost(now):
            assert now - heard >= LEASE + MARGIN
