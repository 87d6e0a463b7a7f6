"""Jobs are chosen and ordered as `list jobs` shows them, whatever columns that takes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.storing import Lab, captured, ended, running
from tests.integration.storing import lab as lab
from turnout import query
from turnout.store import reads
from turnout.store.job_search import Wanted, find_jobs


@pytest.fixture
def jobs(lab: Lab) -> Lab:
    """job1: two runs that completed; job2: one that failed; job3: four children to be made; job4: one that waits."""
    lab.submit(("a",), ("b",), label="l10", experiment="vision")
    lab.submit(("c",), label="l9", experiment="text")
    agent = lab.agent()
    for grant in agent.take():
        code = 1 if grant.run == lab.id("run3") else 0
        agent.tell(running(grant), ended(grant, exit_code=code), captured(grant))
    lab.submit(repeat=4)
    lab.submit(tags={"keep": "yes"})
    return lab


def found(lab: Lab, filter: str = "", sort: str = "", **how: Any) -> list[int]:
    expression = query.parse(filter, query.JOBS) if filter else None
    order = query.parse_sort(sort, query.JOBS) if sort else None
    wanted = Wanted(**{"jobs": None, "expression": expression, "order": order, "limit": 10, **how})
    return lab.read(lambda connection: find_jobs(connection, wanted, datetime.now(UTC)))


def test_newest_first_unless_sorted(jobs: Lab) -> None:
    assert found(jobs) == [4, 3, 2, 1]
    assert found(jobs, sort="created") == found(jobs, sort="name") == [1, 2, 3, 4]
    assert found(jobs, sort="-name") == [4, 3, 2, 1]


def test_by_what_their_runs_do(jobs: Lab) -> None:
    assert found(jobs, sort="-runs") == [3, 1, 4, 2]
    assert found(jobs, sort="-failed", limit=1) == [2]
    assert found(jobs, sort="state") == [1, 2, 4, 3]
    assert found(jobs, "state = queued") == [4, 3]
    assert found(jobs, "counts.queued >= 4") == [3]
    assert found(jobs, "live = 0 and not failed > 0") == [1]


def test_by_text_as_people_count_and_what_lacks_it_last(jobs: Lab) -> None:
    assert found(jobs, sort="label") == [2, 1, 4, 3]
    assert found(jobs, sort="-label") == [1, 2, 4, 3]
    assert found(jobs, "experiment like v* or tags.keep = yes", "experiment") == [4, 1]
    assert found(jobs, "created < 1h", "target") == [4, 3, 2, 1]


@pytest.mark.parametrize("sort", ["", "runs", "-label", "created"])
def test_pages_and_the_end(jobs: Lab, sort: str) -> None:
    whole = found(jobs, sort=sort)
    assert found(jobs, sort=sort, limit=2, offset=1) == whole[1:3]
    assert found(jobs, sort=sort, limit=2, from_end=True) == whole[-2:]
    assert found(jobs, sort=sort, limit=1, offset=1, from_end=True) == whole[-2:-1]
    assert found(jobs, "live >= 0", sort, limit=3, offset=1) == whole[1:4]


def test_among_those_that_were_named(jobs: Lab) -> None:
    assert found(jobs, jobs=[1, 3]) == [3, 1]
    assert found(jobs, sort="runs", jobs=[1, 2, 3]) == [2, 1, 3]
    assert found(jobs, "failed > 0", jobs=[1, 3]) == []


def test_every_column_that_is_shown_can_be_asked_for(jobs: Lab) -> None:
    (view,) = jobs.read(lambda connection: reads.show_jobs(connection, [1]))
    for column in query.JOBS.columns:
        assert len(found(jobs, sort=column)) == 4
        assert found(jobs, f"{column} exists", jobs=[1]) == ([1] if view[column] is not None else [])


def test_parents_that_share_their_children_count_each_of_them_once(lab: Lab) -> None:
    lab.submit(nodes=2, total=3)
    (view,) = lab.read(lambda connection: reads.show_jobs(connection, [1]))
    assert (view["runs"], view["counts"]) == (3, {"queued": 3})
