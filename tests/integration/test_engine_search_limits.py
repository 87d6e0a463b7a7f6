"""What a search may use, and what becomes of that when it is held, extended, or gave up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.integration.storing import Lab, job_spec
from tests.integration.storing import lab as lab
from tests.integration.test_engine_search import LOSS, SPACE, Counting, Studied, only, searched, train
from tests.integration.test_engine_search import plugins as plugins
from turnout.engine import steer
from turnout.engine.making import Makers
from turnout.engine.study import check_search
from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.model.search import LONGEST_SECONDS, MOST_AT_ONCE, Elsewhere, Search
from turnout.spec.check import MOST_RUNS, check
from turnout.store import searches

# --- held -------------------------------------------------------------------------------------------------------------


def held(lab: Lab, *, direct: bool = False, also: tuple[Elsewhere, ...] = (), **fields: Any) -> Studied:
    search = Search(**{"space": SPACE, "sampler": "counting", "aims": LOSS, "runs": 4, **fields})
    runs = lab.submit(("train",), search=search, concurrent=2, held=True, direct=direct, also=also)
    made = Studied(lab, runs)
    made.tend()
    return made


def release(lab: Lab, *names: str) -> None:
    runs = [lab.id(name) for name in names]
    lab.store.write(lambda tx: steer.release(tx, runs))


@pytest.mark.parametrize("way", [{"whole": True}, {"direct": True}, {}])
def test_held_it_makes_no_run_and_none_is_proposed(lab: Lab, way: dict[str, Any]) -> None:
    search = held(lab, **way)
    search.tend(is_glance=True)
    assert (lab.states("run1"), search.standing.asked, search.standing.made) == (["created"], 0, 0)
    release(lab, "run1")
    search.tend()
    made = 0 if not way else 4 if "whole" in way else 2
    assert (search.standing.made, lab.show("run1")["state"]) == (made, "running" if made else "queued")


def test_its_time_begins_when_it_is_let_go(lab: Lab) -> None:
    search = held(lab, seconds=1000.0)
    assert search.shown()["deadline"] is None
    with pytest.raises(Conflict, match="job1 is held, and its time has not begun"):
        search.change(seconds=9.0)
    before = time.time()
    release(lab, "run1")
    assert (search.standing.deadline or 0.0) >= before + 1000.0


def test_its_time_begins_once(lab: Lab) -> None:
    search = held(lab, seconds=1000.0, whole=True, also=(Elsewhere(target="far"),))
    release(lab, "run1")
    begun = search.standing.deadline
    search.tend()
    assert lab.states("run1", "run2") == ["running", "created"] and search.standing.made == 4, "all go to the one"
    agent = lab.agent()
    while grants := agent.take():
        for grant in grants:
            train(agent, grant, 1.0)
    search.tend()
    assert lab.states("run1", "run2") == ["completed", "created"]
    release(lab, "run2")
    assert search.standing.deadline == begun
    search.tend()
    search.tend()
    assert (lab.states("run2"), search.standing.state) == (["completed"], searches.OVER)


def test_held_it_can_be_cancelled(lab: Lab) -> None:
    search = held(lab)
    lab.cancel("run1")
    search.tend()
    assert (search.standing.state, search.standing.message) == (searches.OVER, "it was cancelled")


# --- how much ---------------------------------------------------------------------------------------------------------


def test_many_runs_that_are_made_at_once_leave_room_for_others_to_write(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnout.engine.study._MADE_TOGETHER", 10)
    search = searched(lab, whole=True, runs=25)
    assert search.standing.made == 10
    for made in (20, 25, 25):
        search.tend()
        assert search.standing.made == made
    assert lab.show("run1")["remaining"] == 0 and search.sampler.asked == list(range(1, 26))


@pytest.mark.parametrize(("last", "is_refused"), [(None, True), (MOST_AT_ONCE + 1, True), (MOST_AT_ONCE, False)])
def test_more_than_can_be_made_at_once_are_refused(last: int | None, is_refused: bool) -> None:
    Counting.last = last
    search = Search(space=SPACE, sampler="counting", whole=True)
    if is_refused:
        with pytest.raises(InvalidInput, match=f"more than the {MOST_AT_ONCE} runs that are made at once"):
            check_search(search, None, Makers())
    else:
        check_search(search, None, Makers())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"runs": MOST_AT_ONCE + 1, "whole": True}, "up to 10000 runs are made at once"),
        ({"runs": MOST_RUNS + 1}, "a search may have 1 to 1000000 runs"),
        ({"seconds": LONGEST_SECONDS + 1}, "up to 100 years"),
        ({"seconds": float("nan")}, "up to 100 years"),
    ],
)
def test_limits_when_it_is_submitted(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        check(job_spec(search=Search(space=SPACE, **fields)))
    check(job_spec(search=Search(space=SPACE, runs=MOST_AT_ONCE, seconds=LONGEST_SECONDS, whole=True)))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"runs": MOST_RUNS + 1}, "up to 1000000 runs"),
        ({"runs": MOST_RUNS, "more": True}, "up to 1000000 runs"),
        ({"seconds": LONGEST_SECONDS + 1}, "up to 100 years"),
        ({"seconds": LONGEST_SECONDS, "more": True}, "up to 100 years"),
        ({"seconds": float("inf")}, "up to 100 years"),
    ],
)
def test_the_same_limits_when_it_is_extended(lab: Lab, asked: dict[str, Any], said: str) -> None:
    search = searched(lab, seconds=60.0)
    with pytest.raises(InvalidInput, match=said):
        search.change(**asked)
    assert search.shown()["deadline"]


def test_runs_that_are_made_at_once_are_limited_when_it_is_extended(lab: Lab) -> None:
    search = searched(lab, whole=True, runs=1)
    with pytest.raises(InvalidInput, match=f"a search whose runs are made at once may have up to {MOST_AT_ONCE}"):
        search.change(runs=MOST_AT_ONCE, more=True)


# --- extending --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "wanted"), [({"runs": 3, "more": True}, 5), ({"runs": 4}, 4), ({"runs": 2}, 2)])
def test_what_was_only_proposed_does_not_count(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], wanted: int
) -> None:
    monkeypatch.setattr(Counting, "ahead", 100)
    search, agent = searched(lab, runs=None, seconds=1000.0), lab.agent()
    first = agent.take(2)
    assert (search.standing.asked, search.standing.made) == (100, 2)
    lab.store.write(lambda tx: searches.change(tx, 1, deadline=1.0))
    search.tend()
    for grant in first:
        agent.run(grant, exit_code=None, cause="stopped", signal=15)
    search.tend()
    assert search.standing.state == searches.OVER and lab.record("run1").children_planned == 2
    search.change(**asked)
    search.tend()
    assert search.standing.wanted == wanted
    while grants := agent.take(2):
        for grant in grants:
            train(agent, grant, 1.0)
        search.tend()
    search.tend()
    assert (search.standing.made, search.standing.message) == (wanted, "all its runs are made")
    assert search.sampler.asked == list(range(1, 101)), "what it had proposed was used"


def test_one_that_gave_up_goes_on_when_it_is_extended(lab: Lab) -> None:
    search, agent = searched(lab, failures=2, runs=50), lab.agent()
    for grant in agent.take():
        agent.run(grant, exit_code=3)
    search.tend()
    search.tend()
    assert (search.standing.state, lab.states("run1")) == (searches.OVER, ["failed"])
    search.change(runs=5, more=True)
    search.anew()
    search.tend()
    first, second = agent.take()
    assert (first.name, second.name) == ("run2.3", "run2.4")
    agent.run(first, exit_code=3)
    search.tend()
    assert search.standing.state == searches.ACTIVE, "what failed before does not count"
    agent.run(second, exit_code=3)
    search.tend()
    search.tend()
    assert (search.standing.state, search.standing.message) == (searches.OVER, "none of its first 2 runs completed")


def test_further_failures_change_nothing(lab: Lab) -> None:
    search, agent = searched(lab, failures=1, runs=50, concurrent=3), lab.agent()
    first, *others = agent.take()
    agent.run(first, exit_code=3)
    search.tend()
    said, count = lab.show("run1")["message"], len(lab.events("run1"))
    for grant in others:
        agent.run(grant, exit_code=3)
        search.tend()
    assert lab.show("run1")["message"] == said == "none of its first 1 runs completed"
    assert lab.events("run1")[count:] == ["ended"]


def test_where_a_parent_has_ended_another_goes_on(lab: Lab) -> None:
    search = searched(lab, runs=3, concurrent=2, also=(Elsewhere(target="far"),))
    near, far = lab.agent(), lab.agent(target="far", node="node2")
    lab.cancel("run1")
    search.tend()
    assert lab.states("run1", "run2") == ["cancelled", "queued"] and near.take() == []
    search.change(runs=2, more=True)
    search.tend()
    assert lab.states("run2", "run3") == ["queued", "queued"], "there is one parent for each target"
    train(far, far.take(1)[0], 1.0)
    assert only(near).name == "run3.2"


def test_where_a_parent_goes_on_no_other_is_made(lab: Lab) -> None:
    search = searched(lab, also=(Elsewhere(target="far"),))
    search.change(runs=2, more=True)
    search.tend()
    with pytest.raises(NotFound):
        lab.show("run3")
