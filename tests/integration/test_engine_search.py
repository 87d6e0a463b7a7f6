"""Searches in the store: proposals become runs once, results are told once, whatever dies in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from tests.integration.storing import Agent, Lab, framed, logged, running, spool, staged
from tests.integration.storing import lab as lab
from turnout.engine import making
from turnout.engine.changing import Change, change
from turnout.engine.desk import Desk
from turnout.errors import Conflict, InvalidInput
from turnout.model.search import Aim, Elsewhere, Search
from turnout.plugin.sampler import Exhausted, Outcome, Proposal, Result, Sampler
from turnout.plugin.space import Range
from turnout.plugin.stopper import Point, Stopper
from turnout.schedule.record import RunRecord
from turnout.search.spaces import to_plain
from turnout.store import search_views, searches
from turnout.wire.messages import Grant

SPACE = to_plain({"x": Range(0, 1)})
LOSS = (Aim(metric="loss"),)


class Counting(Sampler):
    """Proposes its own number; remembers what it was told and handed over."""

    made: ClassVar[list[Counting]] = []
    last: ClassVar[int | None] = None
    is_broken: ClassVar[bool] = False

    def __init__(self, task: Any) -> None:
        super().__init__(task)
        self.told: list[Result] = []
        self.adopted: list[int] = []
        self.asked: list[int] = []
        Counting.made.append(self)

    def ask(self, index: int) -> Proposal:
        if Counting.is_broken:
            raise RuntimeError("no idea")
        if Counting.last is not None and index > Counting.last:
            raise Exhausted
        self.asked.append(index)
        return Proposal({"x": index / 10}, {"mine": index})

    def tell(self, result: Result) -> None:
        self.told.append(result)

    def adopt(self, index: int, proposal: Proposal) -> None:
        self.adopted.append(index)


class Above(Stopper):
    """Ends what is above 5."""

    ends: ClassVar[list[tuple[int, Outcome]]] = []
    seen: ClassVar[list[tuple[int, list[Point]]]] = []

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        return f"{points[-1].value:g} is above 5" if points and points[-1].value > 5 else None

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        Above.ends.append((run, outcome))
        Above.seen.append((run, list(points)))


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "made", [])
    monkeypatch.setattr(Counting, "last", None)
    monkeypatch.setattr(Counting, "is_broken", False)
    monkeypatch.setattr(Above, "ends", [])
    monkeypatch.setattr(Above, "seen", [])
    classes = {"counting": Counting, "above": Above}
    monkeypatch.setattr(making, "plugin_class", lambda kind, name: classes[name])


@dataclass
class Studied:
    """A job that is a search, and the desk that tends it."""

    lab: Lab
    runs: list[str]
    job: int = 1
    ended: list[RunRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.anew()

    def anew(self) -> None:
        """Another hub takes it up."""
        self.desk = Desk(self.lab.store, self.ended.extend)

    def tend(self, *told: Grant, is_glance: bool = False) -> None:
        self.desk.tend(self.job, [grant.run for grant in told], is_glance=is_glance)

    @property
    def sampler(self) -> Counting:
        return Counting.made[-1]

    def change(self, **asked: Any) -> None:
        self.lab.store.write(lambda tx: change(tx, self.job, Change(**asked)))

    @property
    def standing(self) -> searches.Standing:
        found = self.lab.read(lambda connection: searches.standing(connection, self.job))
        assert found is not None
        return found

    def shown(self) -> dict[str, Any]:
        return self.lab.read(lambda connection: search_views.show(connection, self.job))


def searched(lab: Lab, *, concurrent: int | None = 2, also: tuple[Elsewhere, ...] = (), **fields: Any) -> Studied:
    asked = {"space": SPACE, "sampler": "counting", "aims": LOSS, "runs": 4, **fields}
    runs = lab.submit(("train",), search=Search(**asked), concurrent=concurrent, also=also)
    made = Studied(lab, runs)
    made.tend()
    return made


def train(agent: Agent, grant: Grant, loss: float, **end: Any) -> None:
    agent.tell(staged(grant), running(grant), spool(grant, framed(logged(0, loss=loss))))
    agent.run(grant, **end)


def only(agent: Agent) -> Grant:
    (grant,) = agent.take()
    return grant


# --- proposals become runs --------------------------------------------------------------------------------------------


def test_a_child_has_its_parameters_before_a_node_hears_of_it(lab: Lab) -> None:
    search = searched(lab)
    first, second = lab.agent().take()
    assert (first.name, first.params, first.argv) == ("run1.1", {"x": 0.1}, ["train", "--x=0.1"])
    assert (second.name, second.params, second.argv) == ("run1.2", {"x": 0.2}, ["train", "--x=0.2"])
    assert lab.show("run1.1")["params"] == {"x": 0.1}
    assert search.standing.made == 2


def test_one_is_proposed_when_one_ends(lab: Lab) -> None:
    search, agent = searched(lab), lab.agent()
    first, second = agent.take()
    search.tend()
    assert agent.take(running={1: 2}) == [] and search.sampler.asked == [1, 2]
    train(agent, second, 0.5)
    search.tend()
    assert search.sampler.asked == [1, 2, 3]
    (told,) = search.sampler.told
    assert (told.index, told.values, told.outcome) == (2, (0.5,), Outcome.COMPLETED)
    assert told.proposal == Proposal({"x": 0.2}, {"mine": 2})
    (third,) = agent.take(running={1: 1})
    assert third.name == "run1.3"
    for grant in (first, third):
        train(agent, grant, 1.0)
    search.tend()
    train(agent, only(agent), 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"]
    assert sorted(result.index or 0 for result in search.sampler.told) == [1, 2, 3, 4]
    assert search.standing.state == searches.OVER
    assert search.shown()["best"][0]["run"] == "run1.2"


def test_without_a_limit_one_waits_at_a_time(lab: Lab) -> None:
    search, agent = searched(lab, concurrent=None), lab.agent()
    names = []
    for _ in range(4):
        names += [grant.name for grant in agent.take()]
        search.tend()
    assert names == ["run1.1", "run1.2", "run1.3", "run1.4"]


def test_all_are_made_at_once_where_that_was_asked_for(lab: Lab) -> None:
    search = searched(lab, whole=True)
    assert lab.states("run1", "run1.1", "run1.4") == ["running", "queued", "queued"]
    agent = lab.agent()
    while grants := agent.take():
        assert len(grants) == 2
        for grant in grants:
            assert grant.params == {"x": int(grant.name[-1]) / 10}
            train(agent, grant, 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"] and len(search.sampler.told) == 4


def test_targets_share_what_is_proposed(lab: Lab) -> None:
    search = searched(lab, concurrent=3, also=(Elsewhere(target="far"),), runs=5)
    assert search.runs == ["run1", "run2"]
    near, far = lab.agent(), lab.agent(target="far", node="node2")
    (one,) = near.take(1)
    (two,) = far.take(1, running={})
    (three,) = far.take(1, running={1: 1})
    assert [one.name, two.name, three.name] == ["run1.1", "run2.2", "run2.3"]
    assert near.take(running={1: 1}) == [], "three at once, wherever they are"
    for agent, grant in ((near, one), (far, two), (far, three)):
        train(agent, grant, 1.0)
    search.tend()
    (four, five) = near.take()
    assert [four.name, five.name] == ["run1.4", "run1.5"]
    for grant in (four, five):
        train(near, grant, 1.0)
    search.tend()
    assert lab.states("run1", "run2") == ["completed", "completed"]


def test_no_target_takes_more_than_it_has_room_for(lab: Lab) -> None:
    searched(lab, concurrent=4, also=(Elsewhere(target="far"),))
    near, far = lab.agent(), lab.agent(target="far", node="node2")
    (one,) = near.take(1, max_runs=1)
    assert (one.name, one.slots) == ("run1.1", 1.0)
    assert [grant.name for grant in far.take(2, max_runs=2)] == ["run2.2", "run2.3"]


# --- when it is over --------------------------------------------------------------------------------------------------


def test_what_has_nothing_more_to_try_is_over(lab: Lab) -> None:
    Counting.last = 1
    search, agent = searched(lab), lab.agent()
    train(agent, only(agent), 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"] and search.standing.message == "there is nothing left to try"


def test_when_its_time_is_up_what_runs_is_stopped(lab: Lab) -> None:
    search, agent = searched(lab, seconds=1000.0), lab.agent()
    first, _ = agent.take()
    agent.tell(staged(first), running(first))
    lab.store.write(lambda tx: searches.change(tx, 1, deadline=1.0))
    search.tend()
    assert {record.id for record in search.ended} == {lab.id("run1.1"), lab.id("run1.2")}
    agent.run(first, exit_code=None, cause="stopped", signal=15)
    shown = lab.show("run1.1")
    assert (shown["state"], shown["reason"], shown["message"]) == ("stopped", "budget", "its time is up")


def test_a_search_in_which_nothing_works_gives_up(lab: Lab) -> None:
    search, agent = searched(lab, failures=2, runs=50), lab.agent()
    for grant in agent.take():
        agent.run(grant, exit_code=3)
    search.tend()
    assert agent.take() == [] and lab.states("run1") == ["failed"]
    assert lab.show("run1")["message"] == "none of its first 2 runs completed"


def test_what_it_calls_off_when_it_gives_up_does_not_make_it_a_success(lab: Lab) -> None:
    search, agent = searched(lab, failures=1, runs=50), lab.agent()
    first, second = agent.take()
    agent.tell(staged(second), running(second))
    agent.run(first, exit_code=3)
    search.tend()
    agent.run(second, exit_code=None, cause="stopped", signal=15)
    search.tend()
    assert lab.states("run1", "run1.2") == ["failed", "stopped"]
    assert search.standing.message == "none of its first 1 runs completed"
    search.anew()
    search.tend()
    assert search.standing.message == "none of its first 1 runs completed"


def test_a_search_in_which_some_work_completes(lab: Lab) -> None:
    search, agent = searched(lab, runs=2), lab.agent()
    first, second = agent.take()
    agent.run(first, exit_code=3)
    train(agent, second, 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"] and lab.show("run1")["exit_code"] == 0
    assert [result.outcome for result in search.sampler.told] == [Outcome.FAILED, Outcome.COMPLETED]


def test_cancelling_it_cancels_all_of_it(lab: Lab) -> None:
    search, agent = searched(lab), lab.agent()
    (first, second) = agent.take()
    agent.tell(staged(first), running(first))
    lab.cancel("run1")
    search.tend()
    assert agent.take() == []
    for grant in (first, second):
        agent.run(grant, exit_code=None, cause="cancelled", signal=15)
    search.tend()
    assert lab.states("run1", "run1.1", "run1.2") == ["cancelled"] * 3
    assert (search.standing.state, search.standing.message) == (searches.OVER, "it was cancelled")


# --- stoppers ---------------------------------------------------------------------------------------------------------


def test_a_stopped_run_keeps_what_it_told_and_is_no_failure(lab: Lab) -> None:
    search, agent = searched(lab, stopper="above", runs=2), lab.agent()
    bad, good = agent.take()
    agent.tell(staged(bad), running(bad), spool(bad, framed(logged(0, loss=4.0), logged(1, loss=9.0))))
    agent.tell(staged(good), running(good), spool(good, framed(logged(0, loss=3.0))))
    search.tend(bad, good)
    assert [record.id for record in search.ended] == [bad.run]
    search.tend(bad, good)
    assert len(search.ended) == 1, "asked for once"
    agent.run(bad, exit_code=None, cause="stopped", signal=15)
    agent.run(good)
    search.tend()
    shown = lab.show("run1.1")
    assert (shown["state"], shown["reason"]) == ("stopped", "pruned")
    assert shown["message"] == "above: 9 is above 5"
    assert shown["metrics"] == {"loss": 9.0}
    assert lab.states("run1") == ["completed"]
    assert sorted(Above.ends, key=str) == [(1, Outcome.STOPPED), (2, Outcome.COMPLETED)]
    assert [result.outcome for result in search.sampler.told] == [Outcome.STOPPED, Outcome.COMPLETED]


def test_a_stop_that_comes_too_late_changes_nothing(lab: Lab) -> None:
    search, agent = searched(lab, stopper="above", runs=1), lab.agent()
    (grant,) = agent.take()
    agent.tell(staged(grant), running(grant), spool(grant, framed(logged(0, loss=9.0))))
    search.tend(grant)
    agent.run(grant)
    search.tend()
    assert lab.states("run1.1") == ["completed"]


def test_the_next_hub_tells_its_stopper_what_ended_runs_had_told(lab: Lab) -> None:
    search, agent = searched(lab, stopper="above", concurrent=1), lab.agent()
    train(agent, only(agent), 2.0)
    search.anew()
    search.tend()
    assert Above.seen == [(1, [Point(0, 2.0)])]


def test_a_stopper_that_fails_pauses_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, stopper="above"), lab.agent()
    first, _ = agent.take()
    agent.tell(staged(first), running(first), spool(first, framed(logged(0, loss=float("nan")))))

    def judge(self: Above, run: int, points: Sequence[Point], seconds: float) -> str | None:
        raise ArithmeticError("what now")

    monkeypatch.setattr(Above, "judge", judge)
    search.tend(first)
    assert (search.standing.state, search.standing.message) == (
        "paused",
        "its stopper failed: ArithmeticError: what now",
    )


# --- changing it ------------------------------------------------------------------------------------------------------


def test_paused_it_makes_no_more_until_it_is_resumed(lab: Lab) -> None:
    search, agent = searched(lab), lab.agent()
    (first,) = agent.take(1)
    search.change(action="pause")
    search.tend()
    assert agent.take(running={1: 1}) == [] and search.shown()["state"] == "paused"
    train(agent, first, 1.0)
    search.tend()
    assert lab.states("run1") == ["running"], "it is not over"
    search.change(action="resume")
    search.tend()
    assert [grant.name for grant in agent.take()] == ["run1.2", "run1.3"]


@pytest.mark.parametrize("is_another_hub", [False, True])
def test_paused_it_is_not_over_although_all_is_proposed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, is_another_hub: bool
) -> None:
    monkeypatch.setattr(Counting, "ahead", 100)
    search, agent = searched(lab, concurrent=1), lab.agent()
    first = only(agent)
    search.change(action="pause")
    train(agent, first, 1.0)
    if is_another_hub:
        search.anew()
    search.tend()
    assert agent.take() == [] and lab.states("run1") == ["running"]
    search.change(action="resume")
    for number in (2, 3, 4):
        search.tend()
        grant = only(agent)
        assert grant.name == f"run1.{number}"
        train(agent, grant, 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"] and search.standing.message == "all its runs are made"


def test_extended_it_goes_on(lab: Lab) -> None:
    search, agent = searched(lab, runs=2), lab.agent()
    (first, second) = agent.take()
    search.tend()
    search.change(runs=1, more=True)
    train(agent, first, 1.0)
    search.tend()
    (third,) = agent.take()
    for grant in (second, third):
        train(agent, grant, 1.0)
    search.tend()
    assert lab.states("run1") == ["completed"]
    search.change(runs=5)
    search.tend()
    assert [grant.name for grant in agent.take()] == ["run2.4", "run2.5"], "what is over stays so: another parent"
    assert search.standing.state == searches.ACTIVE


def test_more_at_once_from_now_on(lab: Lab) -> None:
    search, agent = searched(lab, concurrent=1), lab.agent()
    assert len(agent.take()) == 1
    search.change(concurrent=3)
    search.tend()
    assert len(agent.take(running={1: 1})) == 2


@pytest.mark.parametrize("asked", [{"action": "pause"}, {"action": "resume"}, {"concurrent": 4}])
def test_what_is_over_is_not_changed(lab: Lab, asked: dict[str, Any]) -> None:
    search, agent = searched(lab, runs=1), lab.agent()
    train(agent, only(agent), 1.0)
    search.tend()
    with pytest.raises(Conflict, match="is over"):
        search.change(**asked)


def test_fewer_runs_than_there_are_is_a_mistake(lab: Lab) -> None:
    search = searched(lab)
    assert len(lab.agent().take()) == 2
    with pytest.raises(InvalidInput, match="it has made 2 runs already"):
        search.change(runs=1)


def test_a_job_that_is_none_is_said_to_be_none(lab: Lab) -> None:
    lab.submit()
    with pytest.raises(Conflict, match="job1 is no search"):
        lab.store.write(lambda tx: change(tx, 1, Change(action="pause")))


def test_a_sampler_that_fails_pauses_it(lab: Lab) -> None:
    Counting.is_broken = True
    search, agent = searched(lab), lab.agent()
    assert search.standing.state == searches.PAUSED
    assert search.standing.message == "its sampler failed: RuntimeError: no idea"
    Counting.is_broken = False
    search.change(action="resume")
    search.tend()
    assert len(agent.take()) == 2


# --- deaths -----------------------------------------------------------------------------------------------------------


def test_the_next_hub_is_told_all_of_it_once(lab: Lab) -> None:
    search, agent = searched(lab), lab.agent()
    first, second = agent.take()
    train(agent, first, 0.7)
    search.anew()
    search.tend()
    assert [result.index for result in search.sampler.told] == [1]
    assert search.sampler.adopted == [2] and search.sampler.asked == [3]
    search.anew()
    search.tend()
    assert search.sampler.adopted == [2, 3] and search.sampler.asked == []
    train(agent, second, 0.1)
    search.tend()
    assert [result.index for result in search.sampler.told] == [1, 2] and search.sampler.asked == [4]


def test_parameters_survive_a_lost_node(lab: Lab) -> None:
    search, agent = searched(lab), lab.agent()
    (first, _) = agent.take()
    agent.tell(staged(first), running(first))
    lab.lose(agent)
    search.tend()
    again = {grant.name: grant for grant in lab.agent(node="node2").take()}
    assert again["run1.1"].params == first.params and again["run1.1"].attempt == 2
    assert search.sampler.told == [] and search.sampler.asked == [1, 2]


def test_what_came_in_between_is_not_overwritten(lab: Lab) -> None:
    """A person changes it after the desk has looked and before it writes."""
    search, agent = searched(lab, concurrent=1), lab.agent()
    train(agent, only(agent), 1.0)
    ask = search.sampler.ask

    def meanwhile(index: int) -> Proposal:
        search.change(action="pause")
        return ask(index)

    search.sampler.ask = meanwhile  # type: ignore[method-assign]
    search.tend()
    assert search.standing.asked == 1 and agent.take() == []
    search.sampler.ask = ask  # type: ignore[method-assign]
    search.change(action="resume")
    search.tend()
    assert [grant.params for grant in agent.take()] == [{"x": 0.2}]
