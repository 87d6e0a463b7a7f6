"""Searches as they are read while they go on: quickly, however many runs and results they have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.storing import Lab, framed, logged, running, spool, staged
from tests.integration.storing import lab as lab
from turnout.engine.desk import Desk
from turnout.model.search import Aim, Search
from turnout.plugin.space import Range
from turnout.search.spaces import to_plain
from turnout.store import search_views, searches
from turnout.store.database import sqlite_url
from turnout.store.queue import children_on_nodes
from turnout.store.store import Store
from turnout.store.writer import Tx

SPACE = to_plain({"x": Range(0, 1)})
LOSS, SIZE = Aim(metric="loss"), Aim(metric="size", goal="maximize")


def searched(lab: Lab, *told: dict[str, float], aims: tuple[Aim, ...] = (LOSS,)) -> None:
    """job1: a search whose runs told these metrics."""
    lab.submit(("train",), search=Search(space=SPACE, sampler="random", aims=aims, runs=max(1, len(told))))
    Desk(lab.store, lambda runs: None).tend(1)
    agent = lab.agent()
    for metrics in told:
        (grant,) = agent.take(1)
        agent.tell(staged(grant), running(grant), spool(grant, framed(logged(0, **metrics))))
        agent.run(grant)


def bring(lab: Lab, *results: dict[str, float]) -> None:
    given = [({"x": 0.5}, result) for result in results]
    lab.store.write(lambda tx: searches.add_results(tx, 1, given, "loss"))


def best(lab: Lab, most: int = 1) -> list[tuple[str | None, list[float]]]:
    views = lab.read(lambda connection: search_views.best(connection, 1, most))
    return [(view["run"], view["values"]) for view in views]


def shown(lab: Lab) -> list[tuple[str | None, list[float]]]:
    views = lab.read(lambda connection: search_views.show(connection, 1))["best"]
    return [(view["run"], view["values"]) for view in views]


class TestTheBest:
    def test_runs_and_imports_stand_in_one_order(self, lab: Lab) -> None:
        searched(lab, {"loss": 3.0}, {"loss": 1.0}, {"loss": 5.0})
        bring(lab, {"loss": 4.0}, {"loss": 2.0})
        assert best(lab, 4) == [("run1.2", [1.0]), (None, [2.0]), ("run1.1", [3.0]), (None, [4.0])]
        assert shown(lab) == [("run1.2", [1.0])]

    def test_more_is_better_where_that_was_said(self, lab: Lab) -> None:
        searched(lab, {"size": 3.0}, {"size": 7.0}, aims=(SIZE,))
        given = [({"x": 0.5}, {"size": value}) for value in (9.0, 5.0)]
        lab.store.write(lambda tx: searches.add_results(tx, 1, given, "size"))
        assert best(lab, 3) == [(None, [9.0]), ("run1.2", [7.0]), (None, [5.0])]

    def test_of_several_objectives_as_many_as_were_asked_for(self, lab: Lab) -> None:
        front = [{"loss": 1.0, "size": 1.0}, {"loss": 2.0, "size": 2.0}, {"loss": 3.0, "size": 3.0}]
        searched(lab, front[1], {"loss": 2.5, "size": 2.0}, front[0], aims=(LOSS, SIZE))
        bring(lab, front[2])
        everything = [("run1.3", [1.0, 1.0]), ("run1.1", [2.0, 2.0]), (None, [3.0, 3.0])]
        assert best(lab, 10) == everything and best(lab, 2) == everything[:2]

    def test_one_that_is_shown_is_beaten_by_none(self, lab: Lab) -> None:
        """Of those with the lowest loss, the largest."""
        searched(lab, {"loss": 1.0, "size": 1.0}, {"loss": 1.0, "size": 2.0}, aims=(LOSS, SIZE))
        assert shown(lab) == [("run1.2", [1.0, 2.0])]
        bring(lab, {"loss": 1.0, "size": 1.0}, {"loss": 1.0, "size": 3.0}, {"loss": 2.0, "size": 9.0})
        assert shown(lab) == [(None, [1.0, 3.0])] == best(lab)

    def test_imports_are_more_than_a_statement_takes(self, lab: Lab) -> None:
        searched(lab, {"loss": 0.5})
        bring(lab, *({"loss": float(value)} for value in range(66_000, 0, -1)))
        assert best(lab, 2) == [("run1.1", [0.5]), (None, [1.0])] and shown(lab) == [("run1.1", [0.5])]
        assert len(lab.read(lambda connection: search_views.tried(connection, 1))) == 66_001

    def test_what_is_shown_does_not_read_all_that_was_tried(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        searched(lab, *({"loss": float(value), "size": 1.0} for value in range(1, 9)), aims=(LOSS, SIZE))
        asked: list[Any] = []
        summaries = searches.summaries

        def noted(connection: sa.Connection, runs: list[int], metrics: set[str]) -> Any:
            asked.extend(runs)
            return summaries(connection, runs, metrics)

        monkeypatch.setattr(searches, "summaries", noted)
        assert shown(lab) == [("run1.1", [1.0, 1.0])] and len(asked) == 1


# --- plans: what is asked for at every turn must not read all children for each of them. SQLite tells ----------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """With a search of two objectives, job1, and one of one, job2."""
    made = Store(sqlite_url(tmp_path_factory.mktemp("plans") / "store.db"))
    lab = Lab(made, "")
    for aims in ((LOSS, SIZE), (LOSS,)):
        searched(lab, aims=aims)
    yield made
    made.close()


def plan(store: Store, ask: Callable[[Tx], object]) -> list[str]:
    """What SQLite would do for each statement, step by step, one line each."""

    def work(tx: Tx) -> list[str]:
        seen: list[tuple[str, Any]] = []

        def note(*args: Any) -> None:
            seen.append((args[2], args[3]))

        sa.event.listen(tx.connection, "before_cursor_execute", note)
        try:
            ask(tx)
        finally:
            sa.event.remove(tx.connection, "before_cursor_execute", note)
        return [
            str(row.detail)
            for sql, bound in seen
            for row in tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", bound)
        ]

    return store.write(work)


READS: dict[str, Callable[[Tx], object]] = {
    "all": lambda tx: searches.tried(tx.connection, 1),
    "some": lambda tx: searches.tried(tx.connection, 1, [1, 2]),
    "imported": lambda tx: searches.imported(tx.connection, 1, 1),
    "results": lambda tx: search_views.tried(tx.connection, 1),
    "front": lambda tx: search_views.best(tx.connection, 1, 5),
}


@pytest.mark.parametrize("read", READS)
def test_each_proposal_finds_its_run_by_its_number(store: Store, read: str) -> None:
    lines = [line for line in plan(store, READS[read]) if "SEARCH runs" in line or "SCAN runs" in line]
    assert lines and all("ix_runs_child (job_id=? AND child=?)" in line for line in lines), lines


def test_a_claim_reads_those_alone_that_nodes_have(store: Store) -> None:
    (line,) = plan(store, lambda tx: children_on_nodes(tx, 1))
    assert "ix_runs_job (job_id=? AND state=?" in line


@pytest.mark.parametrize("job", [1, 2])
def test_the_best_are_looked_for_in_their_own_job(store: Store, job: int) -> None:
    """Not among the losses of all others; and imports by their values."""
    lines = plan(store, lambda tx: search_views.show(tx.connection, job))
    assert "SEARCH runs USING INDEX ix_runs_child (job_id=? AND child>?)" in lines
    assert not any("ix_metrics_last" in line for line in lines), lines
    (imports,) = (line for line in lines if "proposals" in line)
    assert "ix_proposals_value (job_id=? AND value>?)" in imports
    assert not any("LAST TERM OF ORDER BY" in line for line in lines), lines
