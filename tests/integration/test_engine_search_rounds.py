"""Rounds of searches: what is judged and by what, what comes in between, and searches that keep others waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa

from tests.harness import wait_until
from tests.integration.storing import Agent, Lab, framed, running, spool, staged
from tests.integration.storing import lab as lab
from tests.integration.test_engine_search import LOSS, SPACE, Above, Counting, Studied, only, searched, train
from tests.integration.test_engine_search import plugins as plugins
from turnout.engine import making, study
from turnout.engine.desk import Desk
from turnout.engine.making import Code, Makers
from turnout.model.search import Elsewhere, Search
from turnout.plugin.sampler import Outcome, Proposal, Result
from turnout.plugin.stopper import Point, Stopper
from turnout.store import schema, search_runs, searches
from turnout.store.store import Store
from turnout.wire.messages import Grant


class Watchful(Stopper):
    """Remembers what it was asked; ends nothing."""

    every: ClassVar[float | None] = 1.0
    asked: ClassVar[list[tuple[int, list[Point], float]]] = []
    over: ClassVar[list[tuple[int, list[Point]]]] = []

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        Watchful.asked.append((run, list(points), seconds))
        return None

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        Watchful.over.append((run, list(points)))


@pytest.fixture(autouse=True)
def watchful(plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watchful, "asked", [])
    monkeypatch.setattr(Watchful, "over", [])
    find: Any = vars(making)["plugin_class"]
    monkeypatch.setattr(making, "plugin_class", lambda kind, name: Watchful if name == "watchful" else find(kind, name))


def tell(agent: Agent, grant: Grant, *losses: float) -> None:
    """It runs, and logs these now, one a step."""
    records = [{"t": time.time(), "s": step, "m": {"loss": loss}} for step, loss in enumerate(losses)]
    agent.tell(staged(grant), running(grant), spool(grant, framed(*records)))


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_a_verdict_is_not_lost_when_somebody_changes_the_search_meanwhile(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, agent = searched(lab, stopper="above"), lab.agent()
    grant, _ = agent.take()
    tell(agent, grant, 9.0)
    judge = Above.judge

    def meanwhile(self: Above, run: int, points: Sequence[Point], seconds: float) -> str | None:
        monkeypatch.setattr(Above, "judge", judge)
        search.change(runs=9)
        return judge(self, run, points, seconds)

    monkeypatch.setattr(Above, "judge", meanwhile)
    search.tend(grant)
    assert search.ended == []
    search.tend()
    assert [record.id for record in search.ended] == [grant.run]


def test_a_verdict_is_not_lost_when_it_cannot_be_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, stopper="above"), lab.agent()
    grant, _ = agent.take()
    tell(agent, grant, 9.0)
    with monkeypatch.context() as broken:
        broken.setattr("turnout.engine.proposing.make", lambda tx, move: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            search.tend(grant)
    search.tend()
    assert [record.id for record in search.ended] == [grant.run]


def test_a_verdict_is_not_lost_when_the_next_one_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, stopper="above"), lab.agent()
    first, second = agent.take()
    judge = Above.judge

    def fail_at_second(self: Above, run: int, points: Sequence[Point], seconds: float) -> str | None:
        if run == 2:
            raise ArithmeticError("what now")
        return judge(self, run, points, seconds)

    monkeypatch.setattr(Above, "judge", fail_at_second)
    tell(agent, first, 9.0)
    tell(agent, second, 1.0)
    search.tend(first, second)
    assert [record.id for record in search.ended] == [first.run]
    assert search.standing.message == "its stopper failed: ArithmeticError: what now"


def test_a_verdict_is_of_the_attempt_that_was_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, stopper="above"), lab.agent()
    grant, _ = agent.take()
    tell(agent, grant, 9.0)
    judge = Above.judge

    def meanwhile(self: Above, run: int, points: Sequence[Point], seconds: float) -> str | None:
        lab.lose(agent)
        return judge(self, run, points, seconds)

    monkeypatch.setattr(Above, "judge", meanwhile)
    search.tend(grant)
    assert (lab.states("run1.1"), search.ended) == (["queued"], [])


# --- attempts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def again(lab: Lab) -> tuple[Studied, Agent, Grant]:
    """A run whose first attempt began long ago, told much, and was lost."""
    search, agent = searched(lab, stopper="watchful", concurrent=1), lab.agent()
    grant = only(agent)
    tell(agent, grant, 1.0, 2.0, 3.0)
    for table in (schema.runs.update().values(started=1.0), schema.attempts.update().values(claimed=1.0)):
        lab.store.write(lambda tx, table=table: tx.connection.execute(table))  # type: ignore[misc]
    search.tend(grant, is_glance=True)
    ((_, points, seconds),) = Watchful.asked
    assert len(points) == 3 and seconds > 1e9
    lab.lose(agent)
    Watchful.asked.clear()
    return search, lab.agent(node="node2"), grant


def test_what_waits_is_not_judged(again: tuple[Studied, Agent, Grant]) -> None:
    search, _, grant = again
    search.tend(grant, is_glance=True)
    assert Watchful.asked == []


@pytest.mark.parametrize("is_another_hub", [False, True])
def test_an_attempt_is_judged_by_what_it_told_itself(again: tuple[Studied, Agent, Grant], is_another_hub: bool) -> None:
    search, agent, _ = again
    grant = only(agent)
    assert grant.attempt == 2
    if is_another_hub:
        search.anew()
    search.tend(is_glance=True)
    tell(agent, grant, 7.0)
    search.tend(grant)
    silent, told = Watchful.asked
    assert (silent[1], told[1]) == ([], [Point(0, 7.0)])
    assert max(silent[2], told[2]) < 1000.0, "the time of its first attempt does not count"
    agent.run(grant)
    search.tend()
    assert Watchful.over == [(1, [Point(0, 7.0)])]
    Watchful.over.clear()
    search.anew()
    search.tend()
    assert Watchful.over == [(1, [Point(0, 7.0)])]


# --- what comes in between --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"seconds": 3600.0, "more": True}, {"concurrent": 4}])
def test_it_is_not_called_off_when_somebody_changed_it_while_a_result_was_told(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    search, agent = searched(lab, seconds=1000.0), lab.agent()
    first, second = agent.take()
    agent.tell(staged(second), running(second))
    train(agent, first, 1.0)
    deadline = 1.0 if "seconds" in change else None
    lab.store.write(lambda tx: searches.change(tx, 1, deadline=deadline))
    asked = search.sampler.asked

    def slow(self: Counting, result: Result) -> None:
        search.change(**change)

    monkeypatch.setattr(Counting, "tell", slow)
    search.tend()
    assert (search.ended, asked[:2], search.standing.asked) == ([], [1, 2], 2), "it was not as it had been"
    search.tend()
    assert search.ended == [] and lab.states("run1", "run1.2") == ["running", "running"]
    assert search.standing.asked == (3 if "seconds" in change else 4)


# --- searches that cannot go on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_another_hub", [False, True])
def test_one_whose_sampler_cannot_be_told_ends_with_its_runs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, is_another_hub: bool
) -> None:
    def fail(self: Counting, result: Result) -> None:
        raise ArithmeticError("what now")

    monkeypatch.setattr(Counting, "tell", fail)
    search, agent = searched(lab, concurrent=1), lab.agent()
    train(agent, only(agent), 1.0)
    search.tend()
    assert search.standing.message == "it cannot go on: ArithmeticError: what now"
    lab.cancel("run1")
    if is_another_hub:
        search.anew()
    search.tend(is_glance=True)
    assert (search.standing.state, search.standing.message) == (searches.OVER, "it was cancelled")
    search.change(runs=1, more=True)
    assert search.standing.state == searches.ACTIVE


def test_it_is_not_told_again_and_again_in_vain(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Counting, result: Result) -> None:
        raise ArithmeticError("what now")

    with monkeypatch.context() as broken:
        broken.setattr(Counting, "tell", fail)
        search, agent = searched(lab, concurrent=1), lab.agent()
        train(agent, only(agent), 1.0)
        for _ in range(3):
            search.tend(is_glance=True)
    assert len(Counting.made) == 1
    search.change(action="resume")
    search.tend()
    assert len(Counting.made) == 2 and search.sampler.asked == [2]


def test_one_that_stands_still_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counting, "ask", lambda self, index: None)
    search = searched(lab)
    assert (search.standing.state, search.standing.message) == (
        searches.PAUSED,
        "its sampler proposes nothing, and nothing is under way",
    )


def test_one_that_waits_for_a_result_does_not_stand_still(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, concurrent=1), lab.agent()
    grant = only(agent)
    with monkeypatch.context() as shy:
        shy.setattr(Counting, "ask", lambda self, index: None)
        search.change(concurrent=2)
        search.tend()
        assert search.standing.state == searches.ACTIVE
    train(agent, grant, 1.0)
    search.tend()
    assert search.standing.asked == 3


# --- little is read ---------------------------------------------------------------------------------------------------


def test_proposals_are_read_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    search, agent = searched(lab, whole=True, runs=6), lab.agent()
    monkeypatch.setattr(searches, "tried", lambda *_: pytest.fail("they are known"))
    while grants := agent.take():
        for grant in grants:
            train(agent, grant, 1.0)
        search.tend(*grants)
    search.tend()
    assert sorted(result.index or 0 for result in search.sampler.told) == [1, 2, 3, 4, 5, 6]
    assert search.sampler.told[0].proposal == Proposal({"x": 0.1}, {"mine": 1})


def test_runs_that_ended_before_any_node_had_them_are_found(lab: Lab) -> None:
    search, agent = searched(lab, whole=True, runs=4), lab.agent()
    first, second = agent.take()
    search.tend()
    lab.cancel("run1.3")
    train(agent, first, 1.0)
    train(agent, second, 1.0)
    train(agent, only(agent), 1.0)
    search.tend()
    assert {result.index: result.outcome for result in search.sampler.told} == {
        1: Outcome.COMPLETED, 2: Outcome.COMPLETED, 3: Outcome.CANCELLED, 4: Outcome.COMPLETED,
    }  # fmt: skip


@pytest.mark.parametrize("is_another_hub", [False, True])
def test_a_run_that_was_deleted_is_over(lab: Lab, is_another_hub: bool) -> None:
    search, agent = searched(lab, concurrent=1), lab.agent()
    grant = only(agent)
    search.tend()
    train(agent, grant, 1.0)
    if is_another_hub:
        search.anew()
    lab.store.write(lambda tx: tx.connection.execute(schema.runs.delete().where(schema.runs.c.id == grant.run)))
    search.tend()
    assert [result.outcome for result in search.sampler.told] == [Outcome.CANCELLED]
    assert search.sampler.asked[-1] == 2, "there is room for the next"


@pytest.mark.parametrize("points", [1, 3, 1000])
def test_the_next_hub_reads_what_was_told_bit_by_bit(lab: Lab, monkeypatch: pytest.MonkeyPatch, points: int) -> None:
    monkeypatch.setattr(study, "_POINTS", points)
    monkeypatch.setattr(study, "_PAGE", 2)
    search, agent = searched(lab, stopper="watchful", concurrent=1, runs=5), lab.agent()
    for number in range(1, 5):
        grant = only(agent)
        tell(agent, grant, *map(float, range(number)))
        agent.run(grant)
        search.tend()
    expected = [(run, [Point(step, float(step)) for step in range(run)]) for run in range(1, 5)]
    assert Watchful.over == expected
    Watchful.over.clear()
    search.anew()
    search.tend()
    assert Watchful.over == expected
    assert [result.index for result in search.sampler.told] == [1, 2, 3, 4] and search.sampler.adopted == [5]


def test_only_runs_on_nodes_are_looked_at() -> None:
    """However many have ended, or wait, and before SQLite knows how many there are."""
    engine = sa.create_engine("sqlite://")
    schema.metadata.create_all(engine)
    plans: list[str] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        rows = cursor.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        plans.extend(row[3] for row in rows)

    with engine.connect() as connection:
        sa.event.listen(connection, "after_cursor_execute", explain)
        search_runs.on_nodes(connection, 1)
        search_runs.parents(connection, 1)
        search_runs.children(connection, 1, [1, 2])
    assert [plan for plan in plans if " runs " in plan] == [
        "SEARCH runs USING INDEX ix_runs_job (job_id=? AND state=? AND children_planned=?)",
        "SEARCH runs USING INDEX ix_runs_parents (job_id=?)",
        "SEARCH runs USING INDEX ix_runs_child (job_id=? AND child=?)",
    ]


# --- the desk's threads -----------------------------------------------------------------------------------------------


@contextmanager
def started(lab: Lab) -> Iterator[tuple[Lab, Desk, list[frozenset[str]]]]:
    """A hub of its own on the same database: its desk hears of every commit."""
    topics: list[frozenset[str]] = []

    def committed(some: frozenset[str]) -> None:
        topics.append(some)
        desk.stir(some)

    store = Store(lab.url, on_commit=committed)
    desk = Desk(store, lambda runs: None)
    desk.start()
    try:
        yield Lab(store, lab.url), desk, topics
    finally:
        desk.stop()
        store.close()


def test_a_slow_sampler_keeps_no_other_search_waiting(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, is_asked = threading.Event(), threading.Event()
    ask = Counting.ask

    def slow(self: Counting, index: int) -> Proposal:
        if self.task.seed == 7:
            is_asked.set()
            assert gate.wait(60)
        return ask(self, index)

    monkeypatch.setattr(Counting, "ask", slow)
    with started(lab) as (other, desk, _):
        searched_by(other, seed=7)
        assert is_asked.wait(60)
        searched_by(other)
        wait_until(lambda: asked(other, 2) == 2, what="the other search goes on")
        assert asked(other, 1) == 0
        desk.stir(frozenset({"search:1"}))
        gate.set()
        wait_until(lambda: asked(other, 1) == 2, what="the slow one is asked, too")
    assert len(Counting.made) == 2, "nobody else looked after it meanwhile"


def test_the_desk_hears_of_runs_that_end_and_of_what_they_tell(lab: Lab) -> None:
    with started(lab) as (other, _, _):
        searched_by(other, stopper="above", runs=3)
        wait_until(lambda: asked(other, 1) == 2, what="two are proposed")
        agent = other.agent()
        first, second = agent.take()
        train(agent, second, 1.0)
        wait_until(lambda: asked(other, 1) == 3, what="one is proposed when one has ended")
        tell(agent, first, 9.0)
        wait_until(lambda: other.record("run1.1").cancel == "stopped", what="it is asked to end")


def test_what_runs_told_is_not_forgotten_when_a_round_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    find = searches.standing

    def fail(*arguments: Any, **how: Any) -> Any:
        if threading.current_thread().name.startswith("searches") and is_broken:
            failed.set()
            raise ConnectionError("not now")
        return find(*arguments, **how)

    is_broken = False
    monkeypatch.setattr(searches, "standing", fail)
    with started(lab) as (other, desk, _):
        searched_by(other, stopper="above")
        agent = other.agent()
        wait_until(lambda: asked(other, 1) == 2, what="two are proposed")
        grant, _ = agent.take()
        wait_until(lambda: f"metrics:{grant.run}" in desk._watched, what="the desk listens")
        is_broken = True
        tell(agent, grant, 9.0)
        assert failed.wait(60)
        is_broken = False
        wait_until(lambda: other.record("run1.1").cancel == "stopped", what="it is asked to end")


def test_who_waits_at_another_target_is_woken_when_a_run_ends(lab: Lab) -> None:
    """All are made, and one may run at a time: the run of one target makes room for one at the other."""
    with started(lab) as (other, _, topics):
        searched_by(other, concurrent=1, whole=True, runs=2, also=(Elsewhere(target="far"),))
        wait_until(lambda: made(other, 1) == 2, what="all are made")
        near, far = other.agent(), other.agent(target="far", node="node2")
        grant = only(near)
        assert far.take() == []
        wait_until(lambda: other.read(lambda connection: search_runs.on_nodes(connection, 1)), what="it is there")
        topics.clear()
        train(near, grant, 1.0)
        wait_until(lambda: any("queue" in some for some in topics), what="those that wait are told")
        assert only(far).name == "run2.2"


# --- code of searches -------------------------------------------------------------------------------------------------


class Kept(Makers):
    """Notes which files are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[set[str]] = []

    def keep(self, digests: set[str]) -> None:
        self.kept.append(digests)


def test_the_files_of_searches_are_kept_until_those_are_over(lab: Lab) -> None:
    searched_by(lab, before="a" * 64, runs=1)
    searched_by(lab, before="b" * 64, target="far")
    lab.submit(before="c" * 64, target="far")
    makers = Kept()
    desk = Desk(lab.store, lambda runs: None, makers)
    desk.start()
    desk.stop()
    assert makers.kept == [{"a" * 64, "b" * 64}]
    desk = Desk(lab.store, lambda runs: None, makers)
    desk.tend(1)
    agent = lab.agent()
    train(agent, only(agent), 1.0)
    for _ in range(3):
        desk.tend(1)
    assert asked(lab, 1) == 1 and makers.kept[1:] == [{"b" * 64}]


def test_files_that_nobody_needs_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs: Any = None  # nothing is taken from there
    makers = Makers(Code(blobs, tmp_path / "searches", tmp_path / "logs"))
    makers.keep(set())
    monkeypatch.setattr(making, "lay_out", lambda _blobs, _digest, files: files.mkdir())
    for name in ("old", "open"):
        makers._host("module:Class", name)
    later = time.monotonic() + 601.0
    monkeypatch.setattr(time, "monotonic", lambda: later)
    makers._host("module:Class", "recent")
    makers.keep({"open"})
    assert {path.name for path in (tmp_path / "searches").iterdir()} == {"open", "recent"}


def searched_by(lab: Lab, *, before: str | None = None, target: str = "local", **fields: Any) -> None:
    """Of fields of a search; or of its job."""
    place = {name: fields.pop(name) for name in ("also",) if name in fields}
    concurrent = fields.pop("concurrent", 2)
    search = Search(**{"space": SPACE, "sampler": "counting", "aims": LOSS, "runs": 4, **fields})
    lab.submit(("train",), search=search, concurrent=concurrent, before=before, target=target, **place)


def asked(lab: Lab, job: int) -> int:
    found = lab.read(lambda connection: searches.standing(connection, job))
    return found.asked if found is not None else 0


def made(lab: Lab, job: int) -> int:
    found = lab.read(lambda connection: searches.standing(connection, job))
    return found.made if found is not None else 0
