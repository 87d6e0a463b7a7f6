"""How many agents a place gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turnout.model.spec import Resources
from turnout.schedule.staffing import Demand, Post, Site, merged, openings, surplus

CLUSTER = Site(is_elastic=True, most=10, usual=Resources(cpus=4))


def test_a_machine_gets_one_agent_however_many_runs_wait() -> None:
    demand = Demand(queue="local", runs=500)
    (opening,) = openings([demand], [], Site())
    assert (opening.queue, opening.number) == ("local", 1)
    assert openings([demand], [Post(queue="local", number=1, free=0)], Site()) == []


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
    busy = Post(queue="c", number=1, size=Resources(cpus=4), free=0.0)
    assert len(openings([Demand(queue="c", runs=1)], [busy], CLUSTER)) == 1


def test_a_run_that_needs_more_gets_an_agent_of_that_size() -> None:
    small = Post(queue="c", number=1, size=Resources(cpus=4), free=4.0)
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
    found = openings([Demand(queue="lab", runs=100)], [Post(queue="lab", number=1, seat="b", free=0)], pool)
    assert [opening.seat for opening in found] == ["a", "c"]
    assert [opening.seat for opening in openings([Demand(queue="lab", runs=3)], [], pool)] == ["a", "b"]


def test_nodes_of_a_jobs_own_take_the_emptiest_seats() -> None:
    pool = Site(seats=("a", "b", "c"))
    demands = [Demand(queue=f"lab#job1.{index}", runs=1) for index in range(4)]
    found = openings(demands, [Post(queue="lab", number=1, seat="a", free=0)], pool)
    assert [opening.seat for opening in found] == ["b", "c", "a", "b"]


def test_what_nobody_waits_for_any_more_is_taken_back() -> None:
    posts = [Post(queue="c", is_pending=True), Post(queue="d", is_pending=True), Post(queue="c")]
    assert surplus(posts, {"d"}) == [posts[0]]


_amount = st.none() | st.integers(1, 8)
_needs = st.builds(Resources, cpus=_amount, memory=_amount, gpus=_amount)
_demands = st.lists(st.builds(Demand, queue=st.just("c"), runs=st.integers(1, 50), need=_needs), max_size=6)


@given(demands=_demands, most=st.integers(1, 20), usual=_needs)
def test_runs_that_wait_get_an_agent_that_fits_if_any_may_be_started(
    demands: list[Demand], most: int, usual: Resources
) -> None:
    found = openings(demands, [], Site(is_elastic=True, most=most, usual=usual))
    assert len(found) <= most and len({opening.number for opening in found}) == len(found)
    assert bool(found) == bool(demands)
    if demands:
        assert found[0].need == merged(usual, demands[0].need)
