"""How many agents a place gets."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from turnout.model.spec import Resources
from turnout.schedule.staffing import Demand, Free, Opening, Post, Site, merged, openings, surplus
from turnout.wire.gpus import GpuRoom, free_gpus

CLUSTER = Site(is_elastic=True, most=10, usual=Resources(cpus=4))
FULL = Free()


def test_a_machine_gets_one_agent_however_many_runs_wait() -> None:
    demand = Demand(queue="local", runs=500)
    (opening,) = openings([demand], [], Site())
    assert (opening.queue, opening.number) == ("local", 1)
    assert openings([demand], [Post(queue="local", number=1, free=FULL)], Site()) == []


def test_a_cluster_gets_as_many_as_the_runs_need() -> None:
    assert len(openings([Demand(queue="c", runs=9)], [], CLUSTER)) == 3


def test_and_not_more_than_the_site_allows() -> None:
    assert len(openings([Demand(queue="c", runs=900)], [], CLUSTER)) == 10
    few = Site(is_elastic=True, most=10, most_pending=2, usual=Resources(cpus=4))
    assert len(openings([Demand(queue="c", runs=900)], [], few)) == 2
    waiting = Post(queue="c", number=1, is_pending=True)
    assert len(openings([Demand(queue="c", runs=900)], [waiting], few)) == 1


def test_what_is_on_its_way_counts() -> None:
    coming = [Post(queue="c", number=number, size=Resources(cpus=4), is_pending=True) for number in (1, 2)]
    assert openings([Demand(queue="c", runs=8)], coming, CLUSTER) == []
    (opening,) = openings([Demand(queue="c", runs=9)], coming, CLUSTER)
    assert opening.number == 3


def test_who_is_there_and_full_does_not_count() -> None:
    busy = Post(queue="c", number=1, size=Resources(cpus=4), free=FULL)
    assert len(openings([Demand(queue="c", runs=1)], [busy], CLUSTER)) == 1


def test_a_run_that_needs_more_gets_an_agent_of_that_size() -> None:
    small = Post(queue="c", number=1, size=Resources(cpus=4), free=Free(slots=4.0, gpus=()))
    (opening,) = openings([Demand(queue="c", runs=1, need=Resources(cpus=8, gpus=1, seconds=60.0))], [small], CLUSTER)
    assert opening.need == Resources(cpus=8, gpus=1, seconds=60.0)


def test_a_run_with_a_time_limit_gets_a_node_that_has_so_much_left_for_it() -> None:
    for drain in (None, 0.0, 600.0):
        site = Site(is_elastic=True, most=10, usual=Resources(cpus=4, seconds=180.0), has_wall_time=True, drain=drain)
        for limit in (300.0, 3600.0, 86400.0):
            demand = Demand(queue="c", runs=1, need=Resources(seconds=limit))
            (opening,) = openings([demand], [], site)
            left = site.room(opening.need).seconds
            assert left is not None and limit + 60.0 <= left + 0.001
            there = Post(queue="c", number=1, size=site.room(opening.need), is_pending=True)
            assert openings([demand], [there], site) == []


def test_and_the_usual_one_if_that_is_long_enough() -> None:
    site = Site(is_elastic=True, usual=Resources(cpus=4, seconds=3600.0), has_wall_time=True)
    for limit, asked in ((60.0, 3600.0), (3300.0, 3600.0), (3301.0, 3661.0)):
        (opening,) = openings([Demand(queue="c", runs=1, need=Resources(seconds=limit))], [], site)
        assert opening.need.seconds == asked


def test_nothing_is_opened_for_a_run_that_takes_more_slots_than_a_node_may_have() -> None:
    site = Site(is_elastic=True, usual=Resources(cpus=2), max_runs=2)
    assert openings([Demand(queue="c", runs=1, need=Resources(cpus=8))], [], site) == []
    assert len(openings([Demand(queue="c", runs=1, need=Resources(cpus=2))], [], site)) == 1


def test_what_was_opened_for_one_job_serves_the_next() -> None:
    demands = [Demand(queue="c", runs=1, need=Resources(cpus=2)), Demand(queue="c", runs=2)]
    assert len(openings(demands, [], CLUSTER)) == 1


def test_each_seat_gets_one_agent() -> None:
    pool = Site(seats=("a", "b", "c"), max_runs=2)
    found = openings([Demand(queue="lab", runs=100)], [Post(queue="lab", number=1, seat="b", free=FULL)], pool)
    assert [opening.seat for opening in found] == ["a", "c"]
    assert [opening.seat for opening in openings([Demand(queue="lab", runs=3)], [], pool)] == ["a", "b"]


def test_nodes_of_a_jobs_own_take_the_emptiest_seats() -> None:
    pool = Site(seats=("a", "b", "c"))
    demands = [Demand(queue=f"lab#job1.{index}", runs=1) for index in range(4)]
    found = openings(demands, [Post(queue="lab", number=1, seat="a", free=FULL)], pool)
    assert [opening.seat for opening in found] == ["b", "c", "a", "b"]


def test_what_nobody_waits_for_any_more_is_taken_back() -> None:
    posts = [Post(queue="c", is_pending=True), Post(queue="d", is_pending=True), Post(queue="c")]
    assert surplus(posts, {"d"}) == [posts[0]]


def test_a_run_that_wants_gpus_or_memory_does_not_count_on_free_slots_alone() -> None:
    busy = Post(queue="c", number=1, size=Resources(cpus=4), free=Free(slots=3.0, memory=8, gpus=()))
    for need in (Resources(gpus=1), Resources(memory=16)):
        (opening,) = openings([Demand(queue="c", runs=1, need=need)], [busy], CLUSTER)
        assert opening.need == merged(Resources(cpus=4), need)
    assert openings([Demand(queue="c", runs=1, need=Resources(memory=8))], [busy], CLUSTER) == []


def test_one_on_its_way_has_the_gpus_it_was_asked_for_and_no_others() -> None:
    coming = Post(queue="c", number=1, size=Resources(cpus=4), is_pending=True)
    with_gpus = Post(queue="c", number=2, size=Resources(cpus=4, gpus=2), is_pending=True)
    demand = Demand(queue="c", runs=2, need=Resources(gpus=1))
    assert len(openings([demand], [coming], CLUSTER)) == 2
    assert openings([demand], [coming, with_gpus], CLUSTER) == []


def test_and_the_memory_if_any_was_asked_for() -> None:
    demand = Demand(queue="c", runs=3, need=Resources(memory=16))
    usual = Post(queue="c", number=1, size=Resources(cpus=4), is_pending=True)
    assert openings([demand], [usual], CLUSTER) == []
    small = Post(queue="c", number=1, size=Resources(cpus=4, memory=32), is_pending=True)
    assert len(openings([demand], [small], CLUSTER)) == 1


def test_runs_that_need_all_the_gpus_or_memory_of_an_agent_get_one_each() -> None:
    for usual, need in (
        (Resources(cpus=8, gpus=1), Resources(gpus=1)), (Resources(cpus=8, memory=16), Resources(memory=16)),
    ):  # fmt: skip
        site = Site(is_elastic=True, most=10, usual=usual)
        assert len(openings([Demand(queue="c", runs=8, need=need)], [], site)) == 8


def test_unless_they_share_a_gpu() -> None:
    site = Site(is_elastic=True, most=10, usual=Resources(cpus=8, gpus=1), runs_per_gpu=4)
    assert len(openings([Demand(queue="c", runs=8, need=Resources(gpus=1))], [], site)) == 2


def test_a_gpu_with_too_little_memory_is_none() -> None:
    need = Resources(gpus=1, gpu_memory=40)
    for memory, count in ((24, 1), (80, 0), (None, 0)):
        there = Post(queue="c", number=1, free=Free(slots=4.0, gpus=[GpuRoom(memory=memory)]))
        assert len(openings([Demand(queue="c", runs=1, need=need)], [there], CLUSTER)) == count


def test_a_seat_that_is_known_to_be_unfit_is_left_out() -> None:
    pool = Site(seats=("a", "b", "c"), max_runs=8)
    there = Post(queue="lab", number=1, seat="a", free=Free(slots=8.0, gpus=()))
    coming = Post(queue="lab", number=1, seat="a")
    demand = Demand(queue="lab", runs=2, need=Resources(gpus=1), unfit={"a"})
    for posts in ([], [there], [coming]):
        assert [opening.seat for opening in openings([demand], posts, pool)] == ["b"]
    nowhere = Demand(queue="lab", runs=2, need=Resources(gpus=1), unfit={"a", "b", "c"})
    assert openings([nowhere], [], pool) == []
    own = Demand(queue="lab#job1.0", runs=1, need=Resources(gpus=1), unfit={"a", "b"})
    assert [opening.seat for opening in openings([own], [], pool)] == ["c"]


def test_a_seat_that_turns_out_to_have_no_gpus_is_passed_over() -> None:
    pool = Site(seats=("a", "b"), max_runs=8)
    there = Post(queue="lab", number=1, seat="a", free=Free(slots=8.0, gpus=()))
    gpus, plain = Demand(queue="lab", runs=1, need=Resources(gpus=1)), Demand(queue="lab", runs=1)
    assert [opening.seat for opening in openings([gpus], [there], pool)] == ["b"]
    assert openings([plain], [there], pool) == []


_amount = st.none() | st.integers(1, 8)
_needs = st.builds(Resources, cpus=_amount, memory=_amount, gpus=_amount)
_demands = st.lists(st.builds(Demand, queue=st.just("c"), runs=st.integers(1, 50), need=_needs), max_size=6)
_free = st.builds(
    Free, slots=st.integers(0, 8).map(float), memory=st.integers(0, 16), gpus=st.integers(0, 4).map(free_gpus)
)
_sized = st.builds(Resources, cpus=st.integers(1, 8), memory=st.integers(1, 8), gpus=_amount)


def _coming(found: Sequence[Opening]) -> list[Post]:
    return [
        Post(queue=each.queue, number=each.number, seat=each.seat, size=each.need, is_pending=True) for each in found
    ]


@given(demands=_demands, most=st.integers(1, 20), usual=_needs)
def test_runs_that_wait_get_an_agent_that_fits_if_any_may_be_started(
    demands: list[Demand], most: int, usual: Resources
) -> None:
    found = openings(demands, [], Site(is_elastic=True, most=most, usual=usual))
    assert len(found) <= most and len({opening.number for opening in found}) == len(found)
    assert bool(found) == bool(demands)
    if demands:
        assert found[0].need == merged(usual, demands[0].need)


@given(demands=_demands, usual=_sized, there=st.lists(_free, max_size=5))
def test_what_is_opened_is_enough_for_all_and_no_more_are_asked_for(
    demands: list[Demand], usual: Resources, there: list[Free]
) -> None:
    site = Site(is_elastic=True, usual=usual)
    posts = [Post(queue="c", number=100 + at, free=free) for at, free in enumerate(there)]
    found = openings(demands, posts, site)
    assert len(found) <= sum(demand.runs for demand in demands)
    assert openings(demands, [*posts, *_coming(found)], site) == []
    free = [*there, *(site.free(opening.need) for opening in found)]
    assert sum(each.runs * (each.need.cpus or 1) for each in demands) <= sum(each.slots for each in free)
    assert sum(each.runs * (each.need.memory or 0) for each in demands) <= sum(each.memory or 0 for each in free)
    assert sum(each.runs * (each.need.gpus or 0) for each in demands) <= sum(len(each.gpus or ()) for each in free)


@given(demands=_demands, there=st.lists(_free, max_size=5), most=st.integers(1, 9), most_pending=st.integers(1, 9))
def test_however_much_is_wanted_a_site_is_asked_for_no_more_than_it_allows(
    demands: list[Demand], there: list[Free], most: int, most_pending: int
) -> None:
    posts = [Post(queue="c", number=100 + at, free=free) for at, free in enumerate(there)]
    unlimited = openings(demands, posts, Site(is_elastic=True))
    found = openings(demands, posts, Site(is_elastic=True, most=most, most_pending=most_pending))
    assert len(found) == min(len(unlimited), max(0, most - len(posts)), most_pending)


@given(
    demands=st.lists(
        st.builds(
            Demand, queue=st.just("lab"), runs=st.integers(1, 9), need=_needs,
            unfit=st.frozensets(st.sampled_from("abc")),
        ),
        max_size=6,
    )
)  # fmt: skip
def test_a_run_gets_a_seat_if_any_is_left_that_may_be_fit_for_it(demands: list[Demand]) -> None:
    site = Site(seats=("a", "b", "c"))
    found = openings(demands, [], site)
    seats = {opening.seat for opening in found}
    assert len(seats) == len(found) <= sum(demand.runs for demand in demands)
    assert all(seats - set(demand.unfit) or len(demand.unfit) == 3 for demand in demands)
    assert all(any(seat not in demand.unfit for demand in demands) for seat in seats)
    assert openings(demands, _coming(found), site) == []
