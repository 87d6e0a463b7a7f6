"""Names of many runs at once, tags that people set, and overviews: the same on both databases."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.integration.storing import Lab
from tests.integration.storing import lab as lab
from turnout import query
from turnout.engine.tagging import Tagged, clear_tags, set_tags
from turnout.errors import InvalidInput, NotFound
from turnout.model.limits import MOST_NAMES
from turnout.store import naming, overviews, reads, schema, search
from turnout.store.distinct import few_values


def names(lab: Lab, *words: str) -> list[str]:
    def ask(connection: sa.Connection) -> list[str]:
        return [view["name"] for view in reads.show_runs(connection, naming.resolve(connection, words))]

    return lab.read(ask)


@pytest.fixture
def some(lab: Lab) -> Lab:
    """run1 to run3 of job1, called `old`; run4 with two children; run5, called `old` too, of another experiment."""
    lab.submit(("a",), ("b",), ("c",), label="old")
    lab.submit(repeat=2)
    lab.agent().take()
    lab.submit(label="old", experiment="vision", workspace="team")
    return lab


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run5", "run2"], ["run2", "run5"]),
        (["run4.2", "run4"], ["run4", "run4.2"]),
        (["run2-run4"], ["run2", "run3", "run4"]),
        (["run4.1-run4.9"], ["run4.1", "run4.2"]),
        (["run4*"], ["run4", "run4.1", "run4.2"]),
        (["run4.*"], ["run4.1", "run4.2"]),
        (["run?"], ["run1", "run2", "run3", "run4", "run5"]),
        (["*"], ["run1", "run2", "run3", "run4", "run4.1", "run4.2", "run5"]),
        (["job2"], ["run4", "run4.1", "run4.2"]),
        (["job2-job3"], ["run4", "run4.1", "run4.2", "run5"]),
        (["job?"], ["run1", "run2", "run3", "run4", "run4.1", "run4.2", "run5"]),
        (["old"], ["run5"]),
        (["vision", "run1", "run1", "run1-run2"], ["run1", "run2", "run5"]),
        (["vis*"], ["run5"]),
        ([], []),
    ],
)
def test_what_names_mean(some: Lab, words: list[str], expected: list[str]) -> None:
    assert names(some, *words) == expected


@pytest.mark.parametrize("word", ["run6", "run4.3", "run6-run9", "run4.3-run4.9", "run6*", "job9", "nobody", "nob*"])
def test_a_name_that_nothing_has(some: Lab, word: str) -> None:
    with pytest.raises(NotFound) as caught:
        names(some, "run1", word)
    assert "turnout list" in caught.value.hint


def test_too_many(some: Lab) -> None:
    with pytest.raises(InvalidInput, match="more than 2 runs"):
        some.read(lambda connection: naming.resolve(connection, ["run1-run3"], most=2))
    with pytest.raises(InvalidInput, match="too many"):
        names(some, *["run1"] * (naming.MOST_NAMES + 1))


def test_many_names_at_once(some: Lab) -> None:
    words = ["run1", "run4.1", *["run2"] * 2000]
    assert names(some, *words) == ["run1", "run2", "run4.1"]


def test_a_long_range_is_a_test_not_a_way(some: Lab) -> None:
    within = some.read(lambda connection: naming.chosen(connection, ["run2-run999999"]))

    def ask(connection: sa.Connection) -> list[int]:
        return search.find_runs(connection, None, None, limit=10, offset=0, within=within)

    assert len(some.read(ask)) == 4


def test_jobs(some: Lab) -> None:
    def ask(*words: str) -> list[int]:
        return some.read(lambda connection: naming.resolve_jobs(connection, words))

    assert ask("job3", "job1-job2") == [3, 1, 2] and ask("old") == [3] and ask("job*") == [1, 2, 3]
    with pytest.raises(NotFound):
        ask("run1")


class TestTags:
    def meant(self, lab: Lab, *words: str) -> Tagged:
        return Tagged(lab.read(lambda connection: naming.resolve(connection, words)), [])

    def test_set_replaced_and_cleared_with_events(self, some: Lab) -> None:
        meant = self.meant(some, "run1-run2")
        assert some.store.write(lambda tx: set_tags(tx, meant, {"a": "1", "b": ""})) == ["run1", "run2"]
        some.store.write(lambda tx: set_tags(tx, meant, {"a": "2"}))
        assert some.show("run1")["tags"] == {"a": "2", "b": ""}
        assert some.store.write(lambda tx: clear_tags(tx, meant, ["b", "other"])) == ["run1", "run2"]
        assert some.store.write(lambda tx: clear_tags(tx, meant, ["b"])) == []
        assert some.show("run2")["tags"] == {"a": "2"}
        events = some.read(lambda connection: reads.run_events(connection, some.id("run1")))
        told = [event["data"] for event in events if event["event"] == "tags"]
        assert told == [{"a": "1", "b": ""}, {"a": "2"}, {"b": None, "other": None}]

    def test_a_job_keeps_its_own(self, some: Lab) -> None:
        meant = Tagged(self.meant(some, "job1").runs, [1])
        some.store.write(lambda tx: set_tags(tx, meant, {"stage": "final"}))
        (job,) = some.read(lambda connection: reads.show_jobs(connection, [1]))
        assert job["tags"] == {"stage": "final"} and some.show("run3")["tags"] == {"stage": "final"}
        some.store.write(lambda tx: clear_tags(tx, meant, ["stage"]))
        (job,) = some.read(lambda connection: reads.show_jobs(connection, [1]))
        assert job["tags"] == {}

    def test_more_than_a_run_may_have_changes_none(self, some: Lab) -> None:
        some.store.write(lambda tx: set_tags(tx, self.meant(some, "run3"), {f"t{n}": "" for n in range(MOST_NAMES)}))
        with pytest.raises(InvalidInput, match="run3 would have too many tags"):
            some.store.write(lambda tx: set_tags(tx, self.meant(some, "run1-run3"), {"more": ""}))
        assert some.show("run1")["tags"] == {}


@pytest.mark.parametrize(("pattern", "fits"), [("a[b]*", True), ("a[*", True), ("ab*", False), ("a?b]c", True)])
def test_brackets_in_a_pattern_are_themselves(lab: Lab, pattern: str, fits: bool) -> None:
    lab.submit(tags={"x": "a[b]c"})
    found = lab.read(
        lambda connection: search.find_runs(
            connection, query.parse(f"tags.x like '{pattern}'"), None, limit=9, offset=0
        )
    )
    assert bool(found) is fits


class TestOverviews:
    def test_experiments_and_workspaces(self, some: Lab) -> None:
        rows = {row["name"]: row for row in some.read(overviews.experiments)}
        assert rows["vision"]["workspace"] == "team" and rows["vision"]["live"] == 1
        jobs = some.read(lambda connection: reads.show_jobs(connection, [1, 2, 3]))
        counted = [job["runs"] for job in jobs if job["experiment"] == "default"]
        assert (rows["default"]["jobs"], rows["default"]["runs"]) == (len(counted), sum(counted)) == (2, 5)
        assert {row["name"]: row["jobs"] for row in some.read(overviews.workspaces)} == {"default": 2, "team": 1}

    def test_queues_and_nodes(self, some: Lab) -> None:
        counts = some.read(overviews.queues)["local"]
        assert counts["waiting"] >= 1 and counts["running"] >= 5
        (node,) = some.read(overviews.nodes)
        assert node["target"] == "local" and node["running"] == 5
        assert some.read(lambda connection: overviews.is_node(connection, node["name"]))
        at_node = some.read(lambda connection: overviews.live_runs_at(connection, node["name"]))
        assert len(at_node) == 5 and len(some.read(lambda c: overviews.live_runs_at(c, "local"))) == 7

    def test_different_values_of_a_column(self, some: Lab) -> None:
        def ask(most: int) -> list[str] | None:
            return some.read(lambda connection: few_values(connection, schema.runs.c.experiment, most=most))

        assert ask(10) == ["default", "vision"] and ask(1) is None
        assert some.read(lambda connection: few_values(connection, schema.tags.c.name)) == []
