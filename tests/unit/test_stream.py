"""How a growing stream crosses a bad link: what the receiver takes, and what the sender offers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.wire.stream import Outgoing, fresh_part


@pytest.mark.parametrize(
    ("have", "offset", "size", "fresh"),
    [
        (0, 0, 5, 0),  # the beginning
        (5, 5, 5, 0),  # what comes next
        (5, 3, 5, 2),  # two bytes again, three new ones
        (5, 0, 5, 5),  # all of it again
        (9, 0, 5, 5),  # something old
        (5, 6, 5, None),  # beyond a gap
        (0, 1, 1, None),
        (5, 5, 0, 0),  # nothing, in the right place
        (5, 6, 0, None),
    ],
)
def test_a_piece_is_taken_only_where_it_continues(have: int, offset: int, size: int, fresh: int | None) -> None:
    assert fresh_part(have, offset, size) == fresh


def test_the_sender_goes_on_behind_what_it_sent() -> None:
    sender = Outgoing()
    assert sender.piece(10, 4) == (0, 4)
    sender.mark_sent(0, 4)
    assert sender.piece(10, 4) == (4, 4)
    sender.mark_sent(4, 4)
    assert sender.piece(10, 4) == (8, 2)
    sender.mark_sent(8, 2)
    assert sender.piece(10, 4) == (10, 0)


def test_what_was_not_acknowledged_is_offered_again() -> None:
    sender = Outgoing()
    sender.mark_sent(0, 8)
    sender.ack(3)
    assert sender.piece(10, 9) == (8, 2), "as long as it may be under way it is not repeated"
    sender.rewind()
    assert sender.piece(10, 9) == (3, 7)


def test_a_sender_that_begins_anew_learns_what_is_there_already() -> None:
    sender = Outgoing()
    sender.mark_sent(0, 2)
    sender.ack(7)
    assert sender.piece(10, 9) == (7, 3)


def test_an_old_acknowledgement_takes_nothing_back() -> None:
    sender = Outgoing(acked=6)
    sender.ack(4)
    assert (sender.acked, sender.sent) == (6, 6)


def test_a_piece_sent_earlier_does_not_move_the_sender_back() -> None:
    sender = Outgoing()
    sender.mark_sent(4, 4)
    sender.mark_sent(0, 4)
    assert sender.sent == 8


def test_a_stream_that_was_cut_short_offers_nothing() -> None:
    assert Outgoing(acked=6).piece(4, 9) == (6, 0)


@given(st.binary(max_size=60), st.data())
def test_the_copy_is_always_a_beginning_and_in_the_end_the_whole(content: bytes, data: st.DataObject) -> None:
    copy = b""
    sender = Outgoing()
    under_way: list[tuple[int, bytes]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        written = data.draw(st.integers(len(copy), len(content)))
        offset, size = sender.piece(written, data.draw(st.integers(1, 20)))
        under_way.append((offset, content[offset : offset + size]))
        sender.mark_sent(offset, size)
        arrives = data.draw(st.sampled_from(under_way))  # the newest, an old one, one that came before
        skip = fresh_part(len(copy), arrives[0], len(arrives[1]))
        copy += b"" if skip is None else arrives[1][skip:]
        assert content.startswith(copy)
        if data.draw(st.booleans()):
            sender.ack(len(copy))
        if data.draw(st.booleans()):
            sender.rewind()
    sender.ack(len(copy))
    sender.rewind()
    while copy != content:
        offset, size = sender.piece(len(content), 7)
        assert (offset, size > 0) == (len(copy), True)
        copy += content[offset : offset + size]
        sender.ack(len(copy))
