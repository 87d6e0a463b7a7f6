"""What an agent says of itself: its polls are numbered, and no later one ever has a smaller number."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from turnout.agent.holding import Holding, poll_numbers
from turnout.wire.messages import NodeFacts

FACTS = NodeFacts("host", 2, 1 << 30, [], "boot", 1, "3.11", "/")


def test_numbers_grow_with_each_poll() -> None:
    held = Holding(FACTS, poll_numbers(0))
    numbers = [held.poll().number for _ in range(5)]
    assert numbers == sorted(set(numbers))


def test_a_hello_is_numbered_between_what_was_said_before_and_after_it() -> None:
    held = Holding(FACTS, poll_numbers(0))
    before, number, after = held.poll().number, held.next_number(), held.poll().number
    assert before < number < after


def test_the_next_process_of_an_agent_goes_on_above(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Holding(FACTS, poll_numbers(0)).poll().number
    later = time.time_ns() + 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert Holding(FACTS, poll_numbers(0)).poll().number > first


def test_a_process_that_begins_anew_goes_on_above_even_when_the_clock_was_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Holding(FACTS, poll_numbers(0))
    last = [held.poll().number for _ in range(1000)][-1]
    monkeypatch.setattr(time, "time_ns", lambda: 1)
    assert Holding(FACTS, poll_numbers(held.next_number())).poll().number > last


def test_who_is_about_to_leave_says_so_and_offers_nothing() -> None:
    held = Holding(FACTS, poll_numbers(0))
    held.welcome = replace(held.welcome, max_runs=2)
    assert (held.poll().slots, held.poll().leaving) == (2, False)
    held.is_going = True
    assert (held.poll().slots, held.poll().leaving) == (0.0, True)
