"""Leases: who is silent, who is lost, and why nobody is when it was the hub that was away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnout.schedule.lease import LeaseTable

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


def test_the_first_look_is_no_return() -> None:
    leases = LeaseTable(LEASE, MARGIN)
    leases.renew(1, 0.0)
    assert leases.lost(LEASE + MARGIN) == [1]


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
