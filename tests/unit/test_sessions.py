"""What the hub believes of an agent, by messages that come late, twice and in any order."""

from __future__ import annotations

from typing import Any

import pytest

from turnout.engine.sessions import Session, Sessions
from turnout.schedule.lease import LeaseTable
from turnout.wire.messages import Attempt, Grant, Hello, NodeFacts, Poll
from turnout.wire.protocol import PROTOCOL

ONE, TWO = (1, 1), (2, 1)
FACTS = NodeFacts("host", 2, 1 << 30, [], "boot", 1, "3.11", "/")


def grant(attempt: Attempt) -> Grant:
    return Grant(*attempt, f"run{attempt[0]}", 7, ["true"], {}, 1.0, 0, 0)


def poll(number: int, *held: Attempt, **said: Any) -> Poll:
    return Poll(
        **{"slots": 1.0, "memory": 0, "gpus": 0, "jobs": [], "wait": 0.0, **said, "held": list(held), "number": number}
    )


def hello(number: int, *held: Attempt) -> Hello:
    return Hello(PROTOCOL, "1", FACTS, list(held), number)


@pytest.fixture
def session() -> Session:
    """An agent that was granted two attempts."""
    session = Session(1, "local", "here", 4)
    session.grant([grant(ONE), grant(TWO)])
    return session


def test_a_grant_is_repeated_until_it_is_named(session: Session) -> None:
    session.hear(poll(1, ONE))
    assert set(session.unconfirmed) == {TWO} and set(session.held) == {ONE, TWO}


def test_what_comes_late_says_nothing_any_more(session: Session) -> None:
    session.hear(poll(5, slots=1.0, jobs=[7]))
    session.hear(poll(4, ONE, slots=9.0, jobs=[7, 8], ahead=3.0, short=[7]))
    assert session.slots == 1.0 and session.ahead == 0.0 and not session.short
    assert session.orders_known == {7}
    assert set(session.unconfirmed) == {ONE, TWO}


def test_even_so_it_is_a_sign_of_life(session: Session) -> None:
    session.newest_poll = 5
    session.hear(poll(4))
    assert session.heard


def test_the_same_poll_may_come_twice(session: Session) -> None:
    for _ in range(2):
        session.hear(poll(5, ONE, slots=2.0))
    assert session.slots == 2.0 and session.dropped == set()


# An agent that begins anew


def test_polls_from_before_a_hello_are_overtaken_by_it(session: Session) -> None:
    """A process that never started the run is gone; what it said last must not stand for the next one."""
    session.greet(hello(100))
    session.hear(poll(99, ONE, TWO, slots=9.0))
    assert set(session.unconfirmed) == {ONE, TWO}, "they are granted again"
    assert session.slots == 0.0
    session.hear(poll(101, slots=2.0))
    assert session.slots == 2.0


def test_a_hello_says_what_the_agent_has(session: Session) -> None:
    session.greet(hello(100, ONE))
    assert set(session.unconfirmed) == {TWO}


# What an agent lets go of without a word


def test_what_an_agent_named_and_names_no_more_was_dropped(session: Session) -> None:
    session.hear(poll(1, ONE, TWO))
    session.hear(poll(2, TWO))
    assert session.dropped == {ONE}


def test_what_it_had_at_its_hello_too(session: Session) -> None:
    session.greet(hello(100, ONE))
    session.hear(poll(101))
    assert session.dropped == {ONE}


def test_what_ended_was_not_dropped(session: Session) -> None:
    session.hear(poll(1, ONE, TWO))
    session.release([ONE])
    session.hear(poll(2, TWO))
    assert session.dropped == set()


def test_what_it_was_just_granted_was_not_dropped(session: Session) -> None:
    session.hear(poll(1, ONE))
    session.hear(poll(2, ONE))
    assert session.dropped == set()


def test_a_late_message_that_does_not_name_it_yet_is_no_sign(session: Session) -> None:
    session.hear(poll(3, ONE, TWO))
    session.hear(poll(2))
    assert session.dropped == set()


def test_what_is_named_again_is_there(session: Session) -> None:
    session.hear(poll(1, ONE))
    session.hear(poll(2))
    session.hear(poll(3, ONE))
    assert session.dropped == set()


def test_what_was_dropped_is_told_until_it_is_released(session: Session) -> None:
    sessions = Sessions(LeaseTable(30.0, 15.0))
    sessions.open(session, 0.0)
    assert sessions.dropped() == {}
    session.hear(poll(1, ONE, TWO))
    session.hear(poll(2, TWO))
    assert sessions.dropped() == sessions.dropped() == {1: {ONE}}
    sessions.release(1, [ONE])
    assert sessions.dropped() == {} and set(session.held) == {TWO}
    sessions.release(9, [ONE])  # an agent that is gone meanwhile


def test_who_hangs_up_waits_no_more_but_one_who_waits_with_another_poll_does(session: Session) -> None:
    seen: list[int | None] = []
    for do, poll in [
        (session.wait, 5),
        (session.wait, 4),  # it comes late
        (session.hang_up, 4),
        (session.hang_up, 5),
        (session.wait, 6),
    ]:
        do(poll)
        seen.append(session.waits_at)
    assert seen == [5, 5, 5, None, 6]
