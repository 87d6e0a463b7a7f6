"""Which workers there should be, by what calls need. Decides only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from turnout.errors import InvalidInput
from turnout.futures.engine import Needs

_PATIENCE = 1.0  # seconds a call waits before a worker that is busy with calls of another kind has to go for it
_UNCOUNTED = 1 << 62  # bytes: where workers have no limit, those of calls that have one are not added up


class Seat(NamedTuple):
    """One worker. One that `is_leaving` has what it needs until it is gone."""

    needs: Needs
    is_idle: bool
    is_leaving: bool


class Waiting(NamedTuple):
    """Calls that no worker has, the oldest of which waits for so many seconds."""

    needs: Needs
    calls: int
    seconds: float


@dataclass(slots=True)
class Plan:
    """Workers to start, and which of the seats to end once they have made their calls."""

    start: list[Needs] = field(default_factory=list)
    end: list[int] = field(default_factory=list)


def capacity(workers: int, usual: Needs) -> Needs:
    """What so many have together."""
    return Needs(workers * usual.cpus, workers * usual.gpus, workers * usual.memory)


def check(needs: Needs, all_: Needs) -> None:
    """InvalidInput when no worker could ever have that."""
    wishes = (("processors", needs.cpus, all_.cpus), ("GPUs", needs.gpus, all_.gpus))
    for what, wanted, there in wishes:
        if wanted > there:
            hint = "give the executor more workers or larger ones, or ask for less"
            raise InvalidInput(f"a call needs {wanted} {what}, and the executor has {there} in all", hint=hint)
    if all_.memory and needs.memory > all_.memory:
        hint = "give the executor more workers or larger ones, or ask for less"
        raise InvalidInput(f"a call needs {needs.memory} bytes, and the executor has {all_.memory} in all", hint=hint)


def plan(workers: int, usual: Needs, seats: Sequence[Seat], waiting: Iterable[Waiting]) -> Plan:
    """Who waits longest comes first: while there is no room for its worker, none is started for others. What is left is
    for workers of the usual kind, which are kept though nothing waits."""
    made = Plan()
    all_ = capacity(workers, usual)
    free = _less(all_ if all_.memory else replace(all_, memory=_UNCOUNTED), (seat.needs for seat in seats))
    coming = _less(free, (), plus=[seat.needs for seat in seats if seat.is_leaving])
    kept: set[int] = set()
    for wanted in sorted(waiting, key=lambda each: -each.seconds):
        mine = [place for place, seat in enumerate(seats) if seat.needs == wanted.needs and not seat.is_leaving]
        idle = [place for place in mine if seats[place].is_idle][: wanted.calls]
        kept.update(idle)  # they are about to have something to do
        missing = wanted.calls - len(idle)
        while missing > 0 and _fits(wanted.needs, free):
            made.start.append(wanted.needs)
            free, coming = _less(free, [wanted.needs]), _less(coming, [wanted.needs])
            missing -= 1
        if mine or wanted.needs in made.start:
            continue  # there is one; it gets to them
        for place in _others(seats, wanted, kept):
            if _fits(wanted.needs, coming):
                break
            made.end.append(place)
            coming = _less(coming, (), plus=[seats[place].needs])
        return made
    usuals = sum(seat.needs == usual and not seat.is_leaving for seat in seats) + made.start.count(usual)
    while usuals < workers and _fits(usual, free):
        made.start.append(usual)
        free = _less(free, [usual])
        usuals += 1
    _shrink(free, seats, made)
    return made


def _others(seats: Sequence[Seat], wanted: Waiting, kept: set[int]) -> list[int]:
    """Which might go for it, those first that have nothing to do."""
    found = [place for place, seat in enumerate(seats) if not seat.is_leaving and place not in kept]
    may = [place for place in found if seats[place].is_idle or wanted.seconds >= _PATIENCE]
    return sorted(may, key=lambda place: not seats[place].is_idle)


def _shrink(free: Needs, seats: Sequence[Seat], made: Plan) -> None:
    """Where there are more than there should be: those first that have nothing to do."""
    staying = [place for place, seat in enumerate(seats) if not seat.is_leaving and place not in made.end]
    free = _less(free, (), plus=[seat.needs for seat in seats if seat.is_leaving])
    for place in sorted(staying, key=lambda place: not seats[place].is_idle):
        if min(free.cpus, free.gpus) >= 0:
            return
        made.end.append(place)
        free = _less(free, (), plus=[seats[place].needs])


def _less(there: Needs, taken: Iterable[Needs], plus: Iterable[Needs] = ()) -> Needs:
    signed = [*((-1, each) for each in taken), *((1, each) for each in plus)]
    return Needs(
        there.cpus + sum(sign * each.cpus for sign, each in signed),
        there.gpus + sum(sign * each.gpus for sign, each in signed),
        there.memory + sum(sign * each.memory for sign, each in signed),
    )


def _fits(needs: Needs, free: Needs) -> bool:
    return needs.cpus <= free.cpus and needs.gpus <= free.gpus and (not needs.memory or needs.memory <= free.memory)
