"""Finding runs: the database finds what `turnout.query.matches` says, in order, page by page, and by its indexes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import filters
from tests.integration.storing import Lab, framed, spool
from tests.integration.storing import lab as lab
from turnout.model.state import Reason, RunState
from turnout.query import (
    COLUMNS,
    Age,
    And,
    Compare,
    Expression,
    Kind,
    Op,
    Scalar,
    Sort,
    matches,
    parse,
    parse_sort,
)
from turnout.query.columns import ORDER, RUNS
from turnout.store import metrics, reads, schema
from turnout.store.database import sqlite_url
from turnout.store.search import find_runs, waiting_ahead
from turnout.store.store import Store
from turnout.store.values import set_params, set_tags
from turnout.store.writer import Tx

# Runs and filters are made of few values, so that they meet; odd ones, so that they are told apart.
LONG = "x" * 300
TEXTS = [
    "a", "A", "ab", "abc", "a*", "a?c", "a_c", "a%c", "a\\c", "a[c", "a]c", "[a]", "é", "É", '"a"', "", " ", "1", "1.0",
    "true", "null", "run1", "run01", "run1.1", "run1.0", "job1", "job01", "*", "?", "~", LONG, LONG + "y", LONG + "z",
]  # fmt: skip
PATTERNS = [*TEXTS, "a*c", "*a*", "??", "a??", "*[*", "*\\*", "*_*", "*%*", '*"', "x*y", "run*", "run?.?", "job*"]
EXPRESSIONS = [
    "", "a", "^a", "a$", "^a.c$", r"^a[\\\]\[]c$", "[^a-z]", r"^\w+$", r"\d\.\d", "^(run|job)0?1", "x{100}y", "(?i)^A",
    "(a|b|)$", "^.$", r"\W", "é|É", '"', "^(?:a|ab)c?$", "(a+)+c", "^[^x]*$",
]  # fmt: skip
NUMBERS: list[int | float] = [-1, 0, 1, 1.0, 2, 1.5, 0.1, -2.5, 1e300, -1e-300]
LARGE: list[int | float] = [2**53, 2**53 + 1, 2.0**53, 10**17, 10**17 + 1, 1e17, 2**62, -(2**53) - 1]
TIMES = [1_700_000_000.0, 1_700_000_001.0, 1_700_003_600.0, 1_800_000_000.25]
NAMES = ["x", "y", "val loss", "é"]

texts, numbers = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
maybe_text, maybe_time = st.none() | texts, st.none() | st.sampled_from(TIMES)
params = st.dictionaries(
    st.sampled_from(NAMES),
    texts | numbers | st.sampled_from(LARGE) | st.booleans()
    | st.sampled_from([None, float("nan"), float("inf"), [1], ["a"], {"a": 1}]),
    max_size=3,
)  # fmt: skip
logged = st.dictionaries(
    st.sampled_from(NAMES), numbers | st.sampled_from([float("nan"), float("inf"), -float("inf")]), max_size=3
)


@dataclass(frozen=True)
class Row:
    """A run to be found; `children` follow it."""

    columns: dict[str, Any]
    params: dict[str, object]
    tags: dict[str, str]
    metrics: dict[str, float]
    children: int = field(default=0)


rows = st.builds(
    Row,
    columns=st.fixed_dictionaries(
        {
            "job_id": st.integers(1, 3),
            "workspace": texts,
            "experiment": texts,
            "target": texts,
            "label": maybe_text,
            "state": st.sampled_from([state.value for state in RunState]),
            "reason": st.none() | st.sampled_from([reason.value for reason in Reason]),
            "exit_code": st.none() | st.sampled_from([-1, 0, 1, 255]),
            "attempt": st.integers(0, 2),
            "priority": st.sampled_from([-1, 0, 1]),
            "node": maybe_text,
            "created": st.sampled_from(TIMES),
            "queued": maybe_time,
            "started": maybe_time,
            "ended": maybe_time,
        }
    ),
    params=params,
    tags=st.dictionaries(st.sampled_from(NAMES), texts, max_size=2),
    metrics=logged,
    children=st.integers(0, 2),
)

columns = st.sampled_from(sorted(COLUMNS)) | st.builds(
    "{}.{}".format, st.sampled_from(["metrics", "params", "tags"]), st.sampled_from(NAMES)
)
moments = st.sampled_from(TIMES).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
VALUES: dict[Kind, st.SearchStrategy[Scalar]] = {
    Kind.TEXT: texts,
    Kind.INT: st.sampled_from([-1, 0, 1, 2, 255, 2**31, 2**62, -(2**63)]),
    Kind.FLOAT: numbers,
    Kind.SPAN: st.sampled_from([0, 1, 3599, 3600.0, 100000000.25, -1]),
    Kind.TIME: moments | st.builds(Age, st.sampled_from([0.5, 3.0]), st.sampled_from(["h", "d"])),
    Kind.ANY: texts | numbers | st.sampled_from(LARGE) | st.booleans(),
}


def values_of(column: str, op: Op) -> st.SearchStrategy[Scalar]:
    about = RUNS.field_of(column)
    if op in (Op.MATCH, Op.NO_MATCH):
        return st.sampled_from(EXPRESSIONS)
    if op in (Op.LIKE, Op.UNLIKE):
        return st.sampled_from(PATTERNS)
    if op in ORDER and about.kind is Kind.ANY:
        return numbers
    return st.sampled_from(about.choices) if about.choices else VALUES[about.kind]


expressions = filters.expressions(columns, values_of, max_leaves=4)


def insert(tx: Tx, given: list[Row]) -> None:
    """Writes runs as if they had lived: run1, its children, run2 …"""
    run = 0
    points: metrics.RunMetrics = {}
    for number, row in enumerate(given, 1):
        parent = run + 1
        for child in range(row.children + 1):
            run += 1
            place = {"id": run, "number": number, "child": child, "parent": parent if child else None, "argv": "[]"}
            tx.connection.execute(schema.runs.insert(), {**place, **row.columns})
            set_params(tx, run, row.params)
            set_tags(tx, run, row.tags)
            metrics.collect(points, run, {"t": 0, "s": 0, "m": row.metrics})
    metrics.insert(tx, points)


def find(
    lab: Lab,
    expression: Expression | None,
    order: Sort | None = None,
    *,
    limit: int = 1000,
    offset: int = 0,
    from_end: bool = False,
) -> list[int]:
    return lab.read(
        lambda connection: find_runs(connection, expression, order, limit=limit, offset=offset, from_end=from_end)
    )


def views(lab: Lab) -> dict[int, dict[str, Any]]:
    """All runs as they are shown, by id."""

    def ask(connection: sa.Connection) -> dict[int, dict[str, Any]]:
        ids = list(connection.execute(sa.select(schema.runs.c.id)).scalars())
        return dict(zip(ids, reads.show_runs(connection, ids), strict=True))

    return lab.read(ask)


several_examples = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@several_examples
@given(given_rows=st.lists(rows, min_size=1, max_size=5), filters=st.lists(expressions, min_size=8, max_size=12))
def test_the_database_finds_what_the_language_means(lab: Lab, given_rows: list[Row], filters: list[Expression]) -> None:
    lab.clear()
    lab.store.write(lambda tx: insert(tx, given_rows))
    shown = views(lab)
    now = datetime.now(UTC)
    for expression in filters:
        expected = [run for run in newest_first(shown) if matches(expression, shown[run], now=now)]
        found = find(lab, expression)
        assert sorted(found) == sorted(expected), expression
        if is_by_creation(expression):
            assert found == expected, expression


def newest_first(shown: dict[int, dict[str, Any]]) -> list[int]:
    return sorted(shown, key=lambda run: (shown[run]["created"], run), reverse=True)


def is_by_creation(expression: Expression) -> bool:
    """Unless it bounds nothing but when runs started, or when they ended."""
    parts = expression.items if isinstance(expression, And) else (expression,)
    return not all(
        isinstance(part, Compare) and part.column in ("started", "ended") and part.op in ORDER for part in parts
    )


def test_whole_and_broken_numbers_in_one_list(lab: Lab) -> None:
    for value in (0, 0.1, 0.4, 1e300):
        lab.submit()
        agent = lab.agent()
        (grant,) = agent.take()
        agent.tell(spool(grant, framed({"t": 1, "m": {"x": value}}, {"p": {"x": value}})))
    for column in ("metrics.x", "params.x"):
        assert find(lab, Compare(column, Op.IN, (0, 0.1))) == [2, 1]
        assert find(lab, Compare(column, Op.NOT_IN, (0, 1e300))) == [3, 2]
    assert find(lab, Compare("duration", Op.IN, (0, 0.5))) == []


def sort_key(view: dict[str, Any], column: str) -> tuple[Any, ...] | None:
    """What a run is sorted by; None when it has no such value. Numbers come before texts, texts before the rest."""
    space, dot, name = column.partition(".")
    value = view[space].get(name) if dot else view[column]
    if column in ("name", "parent", "job") and value is not None:
        return tuple(int(part) for part in value.removeprefix("run").removeprefix("job").split("."))
    if value is None or value != value:
        return None
    if space != "params":
        return (value,)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value))
    return (1, value) if isinstance(value, str) else (2, json.dumps(value))


def in_order(shown: dict[int, dict[str, Any]], order: Sort) -> list[int]:
    keys = {run: sort_key(view, order.column) for run, view in shown.items()}
    having = [run for run in keys if keys[run] is not None]
    is_plain = "." not in order.column and order.column not in ("name", "created", "started", "ended", "duration")
    ties = {run: (shown[run]["created"], run) if is_plain else (run,) for run in shown}
    latest = newest_first(shown) if is_plain or "." in order.column else sorted(shown, reverse=True)
    lacking = [run for run in latest if keys[run] is None]
    groups: dict[object, list[int]] = {}
    for run in having:
        key = keys[run]
        assert key is not None
        groups.setdefault(key[0] if order.column.startswith("params.") else None, []).append(run)
    ordered: list[int] = []
    for group in sorted(groups, key=repr):
        ordered += sorted(groups[group], key=lambda run: (keys[run], ties[run]), reverse=order.descending)
    return ordered + lacking


@several_examples
@given(
    given_rows=st.lists(rows, min_size=1, max_size=6),
    orders=st.lists(
        st.builds(Sort, columns.filter(lambda name: name != "parent"), st.booleans()), min_size=4, max_size=6
    ),
    page=st.integers(2, 6),
)
def test_runs_come_in_order_and_those_without_a_value_last(
    lab: Lab, given_rows: list[Row], orders: list[Sort], page: int
) -> None:
    lab.clear()
    lab.store.write(lambda tx: insert(tx, given_rows))
    shown = views(lab)
    for order in orders:
        expected = in_order(shown, order)
        assert find(lab, None, order) == expected, order
        pages = [find(lab, None, order, limit=page, offset=start) for start in range(0, len(shown) + page, page)]
        assert [run for part in pages for run in part] == expected, order
        assert all(len(part) == page for part in pages[: len(shown) // page])
        assert find(lab, None, order, limit=page, from_end=True) == expected[-page:], order
        assert find(lab, None, order, limit=page, offset=1, from_end=True) == expected[:-1][-page:], order


@several_examples
@given(
    given_rows=st.lists(rows, min_size=1, max_size=5),
    comparison=filters.comparisons(columns, values_of),
    other=expressions,
)
def test_a_filter_on_the_sort_column_is_kept(
    lab: Lab, given_rows: list[Row], comparison: Compare, other: Expression
) -> None:
    lab.clear()
    lab.store.write(lambda tx: insert(tx, given_rows))
    shown, now = views(lab), datetime.now(UTC)
    if comparison.column != "parent":
        both = And((comparison, other))
        found = find(lab, both, Sort(comparison.column))
        assert sorted(found) == sorted(run for run in shown if matches(both, shown[run], now=now))


def row_of(number: float) -> Row:
    """A plain run that logged x, and nothing else."""
    columns = dict.fromkeys(("workspace", "experiment", "target"), "a")
    return Row({**columns, "job_id": 1, "state": "completed", "created": TIMES[0]}, {}, {}, {"x": number})


def test_a_common_value_is_looked_for_on_the_way(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnout.store.conditions._MANY", 1)
    lab.store.write(lambda tx: insert(tx, [row_of(number) for number in (0.0, 1.0, 2.0, 3.0)]))
    assert find(lab, parse("metrics.x >= 1"), limit=2) == [4, 3]
    assert find(lab, parse("metrics.x >= 1 and not metrics.x > 2 or metrics.y exists")) == [3, 2]
    assert find(lab, parse("metrics.x exists"), Sort("name")) == [1, 2, 3, 4]


def test_newest_first_unless_sorted(lab: Lab) -> None:
    lab.submit(("a",), ("b",), ("c",))
    assert find(lab, None) == [3, 2, 1]
    assert find(lab, None, limit=2, offset=1) == [2, 1]
    assert find(lab, parse("name in (run1, run3)"), limit=1) == [3]


def test_a_filter_and_an_order_together(lab: Lab) -> None:
    lab.submit(*[("x",)] * 6)
    agent = lab.agent()
    grants = agent.take()
    for exit_code, grant in zip((3, 1, 2, 0), grants, strict=False):
        agent.run(grant, exit_code=exit_code)
    found = find(lab, parse("state = failed"), parse_sort("exit_code desc"))
    assert found == [grants[0].run, grants[2].run, grants[1].run]
    assert find(lab, parse("state in (failed, starting)"), parse_sort("-exit_code"), limit=2, offset=2) == [
        grants[1].run, grants[5].run,
    ]  # fmt: skip


def test_values_are_never_part_of_the_statement(lab: Lab) -> None:
    lab.submit()
    attack = "x' OR 1=1; DELETE FROM runs; --"
    for column in ("name", "label", "experiment", "state", "params.x", "tags.x", f"tags.{attack}", f"metrics.{attack}"):
        value: Scalar = 1.0 if column.startswith("metrics") else attack
        assert find(lab, Compare(column, Op.EQ, value)) == []
        assert find(lab, Compare(column, Op.IN, (value,))) == []
    assert len(views(lab)) == 1


def test_how_many_wait_before_a_run(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    lab.submit(priority=1)
    lab.submit(target="other")
    names = ["run1", "run2", "run3", "run4"]
    with lab.store.read() as connection:
        ahead = [waiting_ahead(connection, reads.find_run(connection, name)) for name in names]
    assert ahead == [1, 2, 0, 0]
    lab.agent().take(1)
    assert lab.read(lambda connection: waiting_ahead(connection, lab.id("run3"))) is None


# Plans: what is asked for most must not read all runs. SQLite says how it would go about it.


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """Gives what SQLite would do for a search, step by step, one line each."""
    store = Store(sqlite_url(tmp_path_factory.mktemp("plans") / "store.db"))

    def explain(expression: Expression | None, order: Sort | None) -> list[str]:
        seen: list[tuple[str, Any]] = []
        with store.read() as connection:
            sa.event.listen(connection, "before_cursor_execute", lambda *args: seen.append((args[2], args[3])))
            find_runs(connection, expression, order, limit=50, offset=0)
            return [
                str(row.detail)
                for sql, bound in list(seen)
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", bound)
            ]

    yield explain
    store.close()


FILTERS = [
    "name = run7", "name in (run7, run7.2)", "job = job3", "parent = run7", "state = failed",
    "state in (failed, queued)",
    "experiment = vision", "workspace = team", "target = local", "node = n1", "label = best", "exit_code = 3",
    "params.lr = 0.1", "params.lr < 0.1", "params.net = resnet", "params.net in (a, b)", "params.lr exists",
    "tags.stage = final", "tags.stage exists", "metrics.loss < 0.3", "metrics.loss exists",
    "created > 2024-05-01", "created < 2024-05-01", "started > 2h", "started < 2h", "ended < 1d", "ended > 1d",
    "created > 2024-05-01 and created < 2024-06-01", "state = failed and created < 1d",
    "experiment = e and created > 1d",
]  # fmt: skip
SORTS = [
    "name", "job", "state", "experiment", "workspace", "target", "node", "label", "exit_code", "created", "started",
    "ended",
]  # fmt: skip


TIME_RANGES = [text for text in FILTERS if re.search("created|started|ended", text)]


@pytest.mark.parametrize("text", TIME_RANGES)
def test_a_range_of_times_is_read_in_order_and_never_sorted(plans: Callable[..., list[str]], text: str) -> None:
    assert not any("TEMP B-TREE" in line for line in plans(parse(text), None))


def test_what_is_filtered_by_when_it_ended_comes_in_that_order(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    agent = lab.agent()
    first, second = agent.take()
    for grant in (second, first):
        agent.run(grant)
    assert find(lab, parse("ended > 2024-05-01")) == [first.run, second.run]
    assert find(lab, parse("created > 2024-05-01")) == [second.run, first.run]


@pytest.mark.parametrize("text", FILTERS)
def test_a_filter_on_an_indexed_column_does_not_read_all_runs(plans: Callable[..., list[str]], text: str) -> None:
    plan = plans(parse(text), None)
    assert any(line.startswith("SEARCH runs USING") for line in plan), plan
    assert not any(line.startswith("SCAN") for line in plan), plan


def uses_no_index(line: str) -> bool:
    return line.startswith("SCAN") and "USING" not in line


@pytest.mark.parametrize("column", SORTS)
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_by_an_indexed_column_follows_the_index(
    plans: Callable[..., list[str]], column: str, descending: bool
) -> None:
    plan = plans(None, Sort(column, descending))
    assert "USING" in plan[0] and not uses_no_index(plan[0]), plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan, plan


@pytest.mark.parametrize(
    ("column", "index"),
    [("metrics.loss", "ix_metrics_last"), ("params.lr", "ix_params_number"), ("tags.stage", "ix_tags_value")],
)
def test_sorting_by_what_runs_recorded_follows_the_index(
    plans: Callable[..., list[str]], column: str, index: str
) -> None:
    plan = plans(None, Sort(column))
    assert index in plan[0] and not any(uses_no_index(line) for line in plan[:3]), plan
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan[:4], plan
    if column != "tags.stage":  # of a tag the index has the beginning
        assert not any("TEMP B-TREE" in line for line in plan[:4]), plan


def test_the_queue_is_read_by_its_index(tmp_path: Any) -> None:
    store = Store(sqlite_url(tmp_path / "store.db"))
    with store.read() as connection:
        sql = "SELECT id FROM runs WHERE waiting IS NOT NULL AND queue = 'x' ORDER BY waiting, id LIMIT 5"
        (line,) = (row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}"))
    store.close()
    assert "ix_runs_queue" in line
