"""Which waiting runs a node gets: in order, as many as fit, and none that never could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.schedule.place import Room, Waiting, choose, slots_of
from turnout.wire.gpus import GpuRoom, free_gpus

GB = 1 << 30


def room(**more: Any) -> Room:
    """`gpus` may be how many are free."""
    given = {"max_runs": 4, "slots": 4.0, "memory": 8 * GB, "gpus": 2, "running": {}, **more}
    return Room(**{**given, "gpus": free_gpus(given["gpus"]) if isinstance(given["gpus"], int) else given["gpus"]})


def chosen(*queue: Waiting, most: int = 100, **more: Any) -> list[int]:
    return [placed.run for placed in choose(queue, room(**more), most=most)]


def runs(count: int, **more: Any) -> list[Waiting]:
    return [Waiting(run=number, job=more.pop("job", 1), **more) for number in range(1, count + 1)]


def test_the_first_that_fit_are_taken_in_order() -> None:
    assert chosen(*runs(10)) == [1, 2, 3, 4]
    assert chosen(*runs(2)) == [1, 2]
    assert chosen() == []


def test_no_more_than_asked_for_at_once() -> None:
    assert chosen(*runs(10), most=3) == [1, 2, 3]
    assert chosen(Waiting(run=1, job=1, copies=10), most=3) == [1, 1, 1]


def test_a_full_node_gets_nothing() -> None:
    assert chosen(*runs(3), slots=0.0) == []
    assert chosen(*runs(3), slots=-2.0) == []


def test_a_run_takes_one_slot_or_one_for_each_cpu() -> None:
    assert slots_of(Waiting(run=1, job=1), 4) == 1.0
    assert slots_of(Waiting(run=1, job=1, cpus=3), 4) == 3.0
    assert chosen(Waiting(run=1, job=1, cpus=3), Waiting(run=2, job=2), Waiting(run=3, job=3)) == [1, 2]


def test_a_run_that_does_not_fit_is_passed_over_by_a_smaller_one() -> None:
    assert chosen(Waiting(run=1, job=1, cpus=3), Waiting(run=2, job=2), slots=2.0) == [2]


def test_a_run_larger_than_the_node_is_never_sent_there() -> None:
    """Not even when the node offers more slots than it runs at once, to have short runs at hand."""
    there: dict[str, Any] = {"ahead": 8.0, "short": frozenset({1})}
    assert chosen(Waiting(run=1, job=1, cpus=5), Waiting(run=2, job=2), **there) == [2]
    assert chosen(Waiting(run=1, job=1, cpus=4), slots=0.0, **there) == [1]


def test_runs_of_short_jobs_may_be_had_ahead() -> None:
    short: dict[str, Any] = {"ahead": 2.0, "short": frozenset({1})}
    assert chosen(*runs(10), **short) == [1, 2, 3, 4, 5, 6]
    assert chosen(*runs(10), slots=0.0, **short) == [1, 2]
    assert chosen(*runs(10), slots=-2.0, **short) == []
    assert chosen(*runs(10), slots=-3.0, **short) == [], "there are more at hand than it wants already"


def test_runs_of_other_jobs_are_not_had_ahead() -> None:
    queue = [Waiting(run=1, job=2), *[Waiting(run=number, job=1) for number in (2, 3, 4)]]
    short: dict[str, Any] = {"ahead": 2.0, "short": frozenset({1})}
    assert chosen(*queue, slots=0.0, **short) == [2, 3]
    assert chosen(*queue, slots=1.0, **short) == [1, 2, 3]


def test_what_is_not_known_of_a_job_is_guessed_from_its_kin() -> None:
    """Unless others go by the same order, of which it is known."""
    short: dict[str, Any] = {"ahead": 2.0, "short": frozenset({7, 5}), "known": frozenset({1, 5})}
    queue = [Waiting(run=1, job=1, kin=7), Waiting(run=2, job=2, kin=7), Waiting(run=3, job=3, kin=7, like=1)]
    assert chosen(*queue, slots=0.0, **short) == [2]
    assert chosen(Waiting(run=1, job=3, like=5), Waiting(run=2, job=5), slots=0.0, **short) == [1, 2]


def test_a_queue_is_read_no_further_than_there_is_room() -> None:
    read: list[int] = []

    def queue() -> Iterator[Waiting]:
        for number in range(1, 100):
            read.append(number)
            yield Waiting(run=number, job=1)

    assert len(choose(queue(), room(), most=50)) == 4
    assert read == [1, 2, 3, 4, 5]


def test_the_last_fraction_of_a_slot_counts_only_if_a_run_fits_in() -> None:
    assert chosen(*runs(3), slots=0.9) == []
    assert chosen(*[Waiting(run=n, job=1, concurrent=8) for n in (1, 2, 3)], slots=0.9) == [1]


def test_concurrent_limits_the_runs_of_a_job_on_a_node() -> None:
    queue = [Waiting(run=n, job=1, concurrent=2) for n in (1, 2, 3)] + [Waiting(run=4, job=2)]
    assert chosen(*queue) == [1, 2, 4]
    assert chosen(*queue, running={1: 1}) == [1, 4]
    assert chosen(*queue, running={1: 2}) == [4]
    assert chosen(*queue, running={2: 5}) == [1, 2, 4], "other jobs do not count"


def test_concurrent_above_max_runs_makes_slots_smaller() -> None:
    assert slots_of(Waiting(run=1, job=1, concurrent=8), 4) == 0.5
    assert slots_of(Waiting(run=1, job=1, concurrent=2), 4) == 1.0
    assert slots_of(Waiting(run=1, job=1, concurrent=8, cpus=1), 4) == 1.0, "who asks for cpus gets them"
    queue = [Waiting(run=n, job=1, concurrent=12) for n in range(1, 20)]
    assert len(chosen(*queue)) == 12, "thirds add up to the last run"


@pytest.mark.parametrize(("need", "there"), [({"memory": 3 * GB}, {"memory": 8 * GB}), ({"gpus": 1}, {"gpus": 2})])
def test_memory_and_gpus_are_used_up(need: dict[str, int], there: dict[str, int]) -> None:
    assert chosen(*[Waiting(run=n, job=1, **need) for n in (1, 2, 3)], **there) == [1, 2]


def test_who_needs_no_gpu_is_not_stopped_by_their_lack() -> None:
    assert chosen(Waiting(run=1, job=1, gpus=1), Waiting(run=2, job=2), gpus=0, memory=0) == [2]
    assert chosen(Waiting(run=1, job=1), Waiting(run=2, job=2, gpus=1, memory=1), gpus=1, memory=1) == [1, 2]


def test_a_parent_is_taken_as_often_as_it_has_children_left_and_they_fit() -> None:
    assert chosen(Waiting(run=1, job=1, copies=2), Waiting(run=2, job=2)) == [1, 1, 2]
    assert chosen(Waiting(run=1, job=1, copies=9), Waiting(run=2, job=2)) == [1, 1, 1, 1]
    assert chosen(Waiting(run=1, job=1, copies=9, concurrent=2), Waiting(run=2, job=2)) == [1, 1, 2]


def test_placed_says_what_share_of_the_node_each_gets() -> None:
    placed = choose([Waiting(run=1, job=1, cpus=2), Waiting(run=2, job=2, concurrent=8)], room(), most=9)
    assert [(item.run, item.slots) for item in placed] == [(1, 2.0), (2, 0.5)]


def test_what_is_passed_over_is_told() -> None:
    told: list[Waiting] = []
    choose([Waiting(run=1, job=7, cpus=9), Waiting(run=2, job=8)], room(), most=9, passed=told.append)
    assert [waiting.job for waiting in told] == [7]


def test_runs_share_a_gpu_as_far_as_it_may_be_shared() -> None:
    queue = [Waiting(run=n, job=1, gpus=1) for n in range(1, 9)]
    assert chosen(*queue, gpus=[GpuRoom(runs=2), GpuRoom(runs=1)]) == [1, 2, 3]
    assert chosen(*queue, gpus=[GpuRoom(runs=0, foreign=True), GpuRoom(runs=1)]) == [1]


def test_a_run_goes_where_the_memory_of_a_gpu_is_enough() -> None:
    gpus = [GpuRoom(runs=2, memory=40 * GB), GpuRoom(runs=2, memory=10 * GB)]
    small, large = {"gpus": 1, "gpu_memory": 10 * GB}, {"gpus": 1, "gpu_memory": 30 * GB}
    assert chosen(Waiting(run=1, job=1, **large), Waiting(run=2, job=2, **large), gpus=gpus) == [1]
    queue = [Waiting(run=1, job=1, **small), Waiting(run=2, job=2, **large), Waiting(run=3, job=3, **small)]
    assert chosen(*queue, gpus=gpus) == [1, 2, 3], "the small one leaves the large GPU to who needs it"


def test_a_request_for_exactly_all_gpus_is_granted() -> None:
    assert chosen(Waiting(run=1, job=1, gpus=8), gpus=8) == [1]
    assert chosen(Waiting(run=1, job=1, gpus=9), gpus=8) == []


waiting = st.builds(
    Waiting, run=st.integers(1, 50), job=st.integers(1, 4), copies=st.integers(1, 5),
    cpus=st.none() | st.integers(1, 6), memory=st.none() | st.integers(1, 10), gpus=st.none() | st.integers(0, 3),
    concurrent=st.none() | st.integers(1, 9),
)  # fmt: skip


@given(st.lists(waiting, max_size=12), st.integers(1, 6), st.integers(0, 12), st.integers(0, 10), st.integers(0, 3))
def test_what_is_placed_fits(queue: list[Waiting], max_runs: int, slots: int, memory: int, gpus: int) -> None:
    there = room(max_runs=max_runs, slots=float(slots), memory=memory, gpus=gpus)
    entries = {entry.run: entry for entry in queue}
    queue = list(entries.values())
    placed = choose(queue, there, most=20)
    assert sum(item.slots for item in placed) <= slots + 1e-6
    assert sum(entries[item.run].memory or 0 for item in placed) <= memory
    assert sum(entries[item.run].gpus or 0 for item in placed) <= gpus
    for job in {entries[item.run].job for item in placed}:
        limits = [entry.concurrent for entry in queue if entry.job == job and entry.concurrent is not None]
        limited = [item for item in placed if entries[item.run].concurrent is not None and entries[item.run].job == job]
        assert not limits or len(limited) <= max(limits)
    order = [entry.run for entry in queue]
    assert [item.run for item in placed] == sorted((item.run for item in placed), key=order.index)
    for run in {item.run for item in placed}:
        assert sum(item.run == run for item in placed) <= entries[run].copies
