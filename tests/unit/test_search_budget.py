"""What a search does next, from how it stands: it never asks for more than it may use, and once over it stays so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from turnout.search.budget import Budget, Decision, decide

NOW = 1000.0


@pytest.mark.parametrize(
    ("stands", "ask"),
    [
        ({}, 1),
        ({"asked": 1}, 0),
        ({"asked": 1, "made": 1, "open": 1}, 1),
        ({"concurrent": 3}, 3),
        ({"concurrent": 3, "asked": 2}, 1),
        ({"concurrent": 3, "asked": 3, "made": 3, "open": 3}, 0),
        ({"concurrent": 3, "asked": 3, "made": 3, "open": 1, "good": 2}, 2),
        ({"concurrent": 1, "asked": 4, "made": 3, "open": 3}, 0),
        ({"concurrent": 3, "wanted": 2}, 2),
        ({"concurrent": 3, "wanted": 4, "asked": 3, "made": 3, "open": 1}, 1),
        ({"ahead": 8}, 8),
        ({"ahead": 8, "asked": 5}, 0),
        ({"ahead": 8, "asked": 5, "made": 1}, 4),
        ({"ahead": 8, "concurrent": 1}, 8),
        ({"ahead": 8, "wanted": 3}, 3),
        ({"is_paused": True, "concurrent": 3}, 0),
    ],
)
def test_so_many_are_asked_for(stands: dict[str, Any], ask: int) -> None:
    assert decide(Budget(**stands), NOW) == Decision(ask=ask)


@pytest.mark.parametrize(
    ("stands", "why", "is_called_off", "is_wrong"),
    [
        ({"wanted": 2, "asked": 2}, "all its runs are made", False, False),
        ({"is_exhausted": True}, "there is nothing left to try", False, False),
        ({"deadline": NOW}, "its time is up", True, False),
        ({"deadline": NOW - 1, "is_paused": True}, "its time is up", True, False),
        ({"failures": 3, "failed": 3}, "none of its first 3 runs completed", True, True),
        ({"failures": 3, "failed": 4, "is_paused": True}, "none of its first 3 runs completed", True, True),
        ({"deadline": NOW, "failures": 1, "failed": 1}, "its time is up", True, False),
    ],
)
def test_it_is_over(stands: dict[str, Any], why: str, is_called_off: bool, is_wrong: bool) -> None:
    assert decide(Budget(**stands), NOW) == Decision(is_over=True, why=why, call_off=is_called_off, is_wrong=is_wrong)


@pytest.mark.parametrize(
    "stands",
    [
        {"deadline": NOW + 1},
        {"failures": 3, "failed": 2},
        {"failures": 3, "failed": 9, "good": 1},
        {"failures": 0, "failed": 99},
        {"is_paused": True, "wanted": 2, "asked": 2},
        {"is_paused": True, "is_exhausted": True},
    ],
)
def test_it_goes_on(stands: dict[str, Any]) -> None:
    assert not decide(Budget(**stands), NOW).is_over


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    asked = draw(st.integers(0, 30))
    made = draw(st.integers(0, asked))
    going_on = draw(st.integers(0, made))
    good = draw(st.integers(0, made - going_on))
    return Budget(
        wanted=draw(st.none() | st.integers(asked, 40)), concurrent=draw(st.none() | st.integers(1, 8)),
        deadline=draw(st.none() | st.sampled_from([NOW - 1, NOW, NOW + 1])), asked=asked, made=made, open=going_on,
        good=good, failed=draw(st.integers(0, made - going_on - good)), failures=draw(st.integers(0, 5)),
        ahead=draw(st.sampled_from([1, 1, 2, 7, 1 << 30])), is_paused=draw(st.booleans()),
        is_exhausted=draw(st.booleans()),
    )  # fmt: skip


@given(budgets())
def test_it_never_asks_beyond_what_is_wanted(budget: Budget) -> None:
    ask = decide(budget, NOW).ask
    assert ask >= 0
    assert budget.wanted is None or budget.asked + ask <= budget.wanted


@given(budgets())
def test_who_learns_is_asked_only_for_what_there_is_room_for(budget: Budget) -> None:
    assume(budget.ahead == 1)
    ask, ready = decide(budget, NOW).ask, budget.asked - budget.made
    room = 1 if budget.concurrent is None else max(0, budget.concurrent - budget.open)
    assert ask == 0 or ready + ask <= room


@given(budgets())
def test_no_more_than_so_many_are_asked_ahead(budget: Budget) -> None:
    assume(budget.ahead > 1)
    ask = decide(budget, NOW).ask
    assert ask == 0 or budget.asked - budget.made + ask <= budget.ahead


@given(budgets())
def test_it_asks_for_nothing_when_it_is_over_or_waits(budget: Budget) -> None:
    decision = decide(budget, NOW)
    if decision.is_over or budget.is_paused:
        assert decision.ask == 0
    assert bool(decision.why) == decision.is_over
    assert decision.is_over or not (decision.call_off or decision.is_wrong)


@given(budgets(), st.floats(0, 1e6))
def test_over_is_over_whenever_it_is_looked_at_again(budget: Budget, later: float) -> None:
    assume(decide(budget, NOW).is_over)
    assert decide(budget, NOW + later).is_over


@given(budgets(), st.integers(0, 5))
def test_runs_that_end_well_do_not_take_an_end_back(budget: Budget, more: int) -> None:
    """But for one that was given up because nothing worked."""
    decision = decide(budget, NOW)
    assume(decision.is_over and not decision.is_wrong)
    ended = min(more, budget.open)
    assert decide(replace(budget, open=budget.open - ended, good=budget.good + ended), NOW).is_over


@given(budgets())
def test_if_it_is_not_over_and_does_not_wait_it_moves_on(budget: Budget) -> None:
    """Something is proposed, ready or going on: else it would stand still for ever."""
    decision = decide(budget, NOW)
    if not decision.is_over and not budget.is_paused:
        assert decision.ask or budget.asked - budget.made or budget.open
