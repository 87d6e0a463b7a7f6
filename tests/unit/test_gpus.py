"""Which GPUs a run gets: never one beyond its share or its memory, and always some when there are enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnout.wire.gpus import GpuRoom, free_gpus, pick, reserve

rooms = st.lists(
    st.builds(GpuRoom, runs=st.integers(0, 3), memory=st.none() | st.integers(0, 40), foreign=st.booleans()), max_size=8
)
wishes = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), max_size=12)


def test_the_least_used_come_first_and_of_those_the_smallest_that_do() -> None:
    assert pick([GpuRoom(runs=1), GpuRoom(runs=2)], 1) == [1]
    assert pick([GpuRoom(memory=40), GpuRoom(memory=20), GpuRoom(memory=10)], 1, 15) == [1]
    assert pick(free_gpus(4), 2) == [0, 1]


def test_there_may_not_be_enough() -> None:
    assert pick(free_gpus(2), 3) is None
    assert pick([GpuRoom(runs=0)], 1) is None
    assert pick([GpuRoom(memory=10)], 1, 11) is None
    assert pick([GpuRoom(memory=None)], 1, 11) == [0], "what nobody knows is no reason to wait for ever"


def test_what_is_on_its_way_takes_its_gpus_though_they_do_not_fit_by_what_is_known_now() -> None:
    assert reserve([GpuRoom(memory=5), GpuRoom(memory=20)], 1, 10) == [GpuRoom(memory=5), GpuRoom(runs=0, memory=10)]
    assert [room.runs for room in reserve([GpuRoom(memory=5)], 1, 10)] == [0]
    assert [room.runs for room in reserve(free_gpus(1), 2)] == [0]


@given(rooms, wishes)
def test_no_gpu_is_given_beyond_its_share_or_its_memory(there: list[GpuRoom], wanted: list[tuple[int, int]]) -> None:
    left, runs, promised = list(there), [0] * len(there), [0] * len(there)
    for count, memory in wanted:
        places = pick(left, count, memory)
        if places is None:
            continue
        assert len(set(places)) == count
        for at in places:
            runs[at] += 1
            promised[at] += memory
        left = reserve(left, count, memory)
    for at, room in enumerate(there):
        assert runs[at] <= room.runs
        assert room.memory is None or promised[at] <= room.memory
        assert left[at].runs == room.runs - runs[at]


@given(rooms, st.integers(1, 8), st.integers(0, 40))
def test_who_fits_is_never_refused(there: list[GpuRoom], count: int, memory: int) -> None:
    fit = [room for room in there if room.runs > 0 and (room.memory is None or room.memory >= memory)]
    assert (pick(there, count, memory) is not None) == (len(fit) >= count)
