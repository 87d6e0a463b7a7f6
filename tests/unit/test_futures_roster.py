"""Which workers there are, whatever calls need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.errors import InvalidInput
from turnout.futures.engine import Needs
from turnout.futures.local import roster
from turnout.futures.local.roster import Plan, Seat, Waiting

_GB = 1 << 30

needs = st.builds(Needs, st.integers(1, 4), st.integers(0, 2), st.sampled_from([0, 1, 2, 3]))
usuals = st.builds(Needs, st.integers(1, 2), st.integers(0, 1), st.sampled_from([0, 2]))


@st.composite
def scenes(draw: st.DrawFn) -> tuple[int, Needs, list[Seat], list[Waiting]]:
    """Seats as they can come about: together never more than there is. Only what fits waits."""
    workers, usual = draw(st.integers(1, 4)), draw(usuals)
    all_ = roster.capacity(workers, usual)
    seats: list[Seat] = []
    for each in draw(st.lists(st.builds(Seat, needs, st.booleans(), st.booleans()), max_size=8)):
        if _fits(all_, [*seats, each]):
            seats.append(each)
    kinds = [each for each in draw(st.lists(needs, max_size=4, unique=True)) if _is_possible(each, all_)]
    waiting = [Waiting(each, draw(st.integers(1, 6)), draw(st.floats(0, 5))) for each in kinds]
    return workers, usual, seats, waiting


def _is_possible(wanted: Needs, all_: Needs) -> bool:
    try:
        roster.check(wanted, all_)
    except InvalidInput:
        return False
    return True


def _fits(all_: Needs, seats: list[Seat]) -> bool:
    memory = sum(seat.needs.memory for seat in seats)
    return (
        sum(seat.needs.cpus for seat in seats) <= all_.cpus
        and sum(seat.needs.gpus for seat in seats) <= all_.gpus
        and (memory <= all_.memory or not all_.memory)
    )


def _apply(plan: Plan, seats: list[Seat]) -> list[Seat]:
    """All that is to end has made its calls, and is gone; all that is to start is there, with nothing to do."""
    stay = [seat for place, seat in enumerate(seats) if place not in plan.end and not seat.is_leaving]
    return stay + [Seat(each, True, False) for each in plan.start]


class TestAlways:
    @given(scenes())
    def test_there_are_never_more_than_there_is_room_for(
        self, scene: tuple[int, Needs, list[Seat], list[Waiting]]
    ) -> None:
        """While those that are to end are still there."""
        workers, usual, seats, waiting = scene
        plan = roster.plan(workers, usual, seats, waiting)
        assert _fits(roster.capacity(workers, usual), [*seats, *(Seat(each, True, False) for each in plan.start)])

    @given(scenes())
    def test_nobody_is_ended_twice(self, scene: tuple[int, Needs, list[Seat], list[Waiting]]) -> None:
        workers, usual, seats, waiting = scene
        plan = roster.plan(workers, usual, seats, waiting)
        assert len(set(plan.end)) == len(plan.end) and not any(seats[place].is_leaving for place in plan.end)

    @given(scenes())
    def test_every_kind_gets_its_turn_once_workers_have_time(
        self, scene: tuple[int, Needs, list[Seat], list[Waiting]]
    ) -> None:
        workers, usual, seats, waiting = scene
        left = sorted(waiting, key=lambda each: -each.seconds)
        for _ in range(3 * len(waiting) + 3):
            plan = roster.plan(workers, usual, seats, left)
            seats = [Seat(seat.needs, True, False) for seat in _apply(plan, seats)]
            left = [each for each in left if each.needs not in {seat.needs for seat in seats}]
            if not left:
                return
        raise AssertionError(f"never served: {left} with {seats}")

    @given(scenes())
    def test_with_nothing_to_do_it_comes_to_rest(self, scene: tuple[int, Needs, list[Seat], list[Waiting]]) -> None:
        workers, usual, seats, _ = scene
        settled = _apply(roster.plan(workers, usual, seats, []), seats)
        settled = _apply(roster.plan(workers, usual, settled, []), settled)  # what was leaving has made room
        assert roster.plan(workers, usual, settled, []) == Plan()

    @given(scenes())
    def test_an_idle_worker_is_not_ended_for_another_of_its_kind(
        self, scene: tuple[int, Needs, list[Seat], list[Waiting]]
    ) -> None:
        workers, usual, seats, waiting = scene
        plan = roster.plan(workers, usual, seats, waiting)
        assert not {seats[place].needs for place in plan.end if seats[place].is_idle} & set(plan.start)


class TestStarting:
    def test_at_first_there_are_the_usual_ones(self) -> None:
        assert roster.plan(3, Needs(), [], []) == Plan(start=[Needs()] * 3)

    def test_one_that_is_missing_is_replaced(self) -> None:
        assert roster.plan(2, Needs(), [Seat(Needs(), False, False)], []) == Plan(start=[Needs()])

    def test_a_large_call_takes_the_room_of_small_ones_that_are_idle(self) -> None:
        idle = [Seat(Needs(), True, False)] * 2
        assert roster.plan(2, Needs(), idle, [Waiting(Needs(cpus=2), 1, 0)]) == Plan(end=[0, 1])

    def test_but_not_that_of_busy_ones_unless_it_waits_for_long(self) -> None:
        busy = [Seat(Needs(), False, False)] * 2
        assert roster.plan(2, Needs(), busy, [Waiting(Needs(cpus=2), 1, 0.1)]) == Plan()
        assert roster.plan(2, Needs(), busy, [Waiting(Needs(cpus=2), 1, 2.0)]) == Plan(end=[0, 1])

    def test_while_it_waits_nobody_is_put_where_it_will_be(self) -> None:
        seats = [Seat(Needs(), False, True)]
        assert roster.plan(2, Needs(), seats, [Waiting(Needs(cpus=2), 1, 2.0), Waiting(Needs(), 5, 1.0)]) == Plan()

    def test_when_there_should_be_fewer_the_idle_ones_go(self) -> None:
        seats = [Seat(Needs(), False, False), Seat(Needs(), True, False), Seat(Needs(), False, False)]
        assert roster.plan(2, Needs(), seats, []) == Plan(end=[1])


class TestChecking:
    @pytest.mark.parametrize(
        ("wanted", "what"),
        [(Needs(cpus=9), "9 processors"), (Needs(gpus=1), "1 GPU"), (Needs(memory=9 * _GB), "bytes")],
    )
    def test_what_nobody_could_ever_have_is_said(self, wanted: Needs, what: str) -> None:
        with pytest.raises(InvalidInput, match=what):
            roster.check(wanted, roster.capacity(2, Needs(4, 0, 4 * _GB)))

    def test_memory_that_is_not_counted_is_not_refused(self) -> None:
        roster.check(Needs(memory=9 * _GB), roster.capacity(2, Needs()))
