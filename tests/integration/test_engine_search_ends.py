"""How searches end, and who takes their runs: what seeds of the simulation showed, told one by one."""

from __future__ import annotations

import pytest

from tests.integration.storing import Lab, running, staged
from tests.integration.storing import lab as lab
from tests.integration.test_engine_search import Counting, only, searched, train
from tests.integration.test_engine_search import plugins as plugins
from turnout.model.search import Elsewhere
from turnout.store import searches


def test_one_that_was_cancelled_makes_no_more_runs(lab: Lab) -> None:
    search, agent = searched(lab, runs=6), lab.agent()
    first, second = agent.take()
    for grant in (first, second):
        agent.tell(staged(grant), running(grant))
    lab.cancel("run1")
    agent.run(first, exit_code=None, cause="cancelled", signal=15)
    search.tend()
    assert agent.take(running={1: 1}) == [] and search.sampler.asked == [1, 2]
    agent.run(second, exit_code=None, cause="cancelled", signal=15)
    search.tend()
    assert (lab.states("run1"), search.standing.state) == (["cancelled"], searches.OVER)


def test_one_that_was_cancelled_at_one_target_goes_on_at_the_other(lab: Lab) -> None:
    search = searched(lab, runs=3, concurrent=2, also=(Elsewhere(target="far"),))
    near, far = lab.agent(), lab.agent(target="far", node="node2")
    (first,) = near.take(1)
    near.tell(staged(first), running(first))
    lab.cancel("run1")
    train(far, only(far), 1.0)
    search.tend()
    assert near.take(running={1: 1}) == []
    train(far, only(far), 1.0)
    near.run(first, exit_code=None, cause="cancelled", signal=15)
    search.tend()
    search.tend()
    assert lab.states("run1", "run2") == ["cancelled", "completed"]
    assert (search.standing.made, search.standing.message) == (3, "all its runs are made")


def test_a_node_that_has_none_of_its_runs_waits_for_those_elsewhere(lab: Lab) -> None:
    searched(lab, concurrent=1)
    only(lab.agent())
    assert lab.agent(node="node2").take() == []


def test_all_made_at_once_they_still_run_as_many_at_once_as_may(lab: Lab) -> None:
    search = searched(lab, whole=True, concurrent=2, also=(Elsewhere(target="far"),))
    near, far = lab.agent(), lab.agent(target="far", node="node2")
    first, second = near.take()
    assert far.take() == [], "two at once, wherever they are"
    train(near, first, 1.0)
    grant = only(far)
    search.change(concurrent=3)
    assert len(near.take(running={1: 1})) == 0, "its other run is the other target's"
    assert len(far.take(running={1: 1})) == 1
    assert {second.name, grant.name} == {"run1.3", "run2.2"}


@pytest.mark.parametrize("is_another_hub", [False, True])
def test_it_says_that_nothing_was_left_whoever_closed_it(lab: Lab, is_another_hub: bool) -> None:
    Counting.last = 1
    search, agent = searched(lab), lab.agent()
    train(agent, only(agent), 1.0)
    if is_another_hub:
        search.anew()
    search.tend()
    assert (search.standing.state, search.standing.message) == (searches.OVER, "there is nothing left to try")


def test_its_sampler_hears_of_the_last_run_before_it_is_over(lab: Lab) -> None:
    """A run ends after the desk has looked and before it writes."""
    search, agent = searched(lab, runs=1, concurrent=1), lab.agent()
    grant = only(agent)
    search.anew()
    write = lab.store.write

    def meanwhile(work: object) -> object:
        lab.store.write = write  # type: ignore[method-assign]
        train(agent, grant, 1.0)
        return write(work)  # type: ignore[arg-type]

    lab.store.write = meanwhile  # type: ignore[method-assign, assignment]
    search.tend()
    assert lab.states("run1") == ["completed"]
    search.tend()
    assert [result.index for result in search.sampler.told] == [1] and search.standing.state == searches.OVER
