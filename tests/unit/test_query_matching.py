"""What a filter finds. The store's SQL is held to the same answers."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

import pytest

from turnout.query import And, Compare, Exists, Not, Op, matches, parse, resolve
from turnout.query.matching import like

NOW = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)
RUN = {
    "name": "run12.3",
    "job": "job7",
    "experiment": "vision-2",
    "state": "failed",
    "reason": None,
    "exit_code": 1,
    "priority": 0,
    "parent": "run12",
    "created": "2024-05-01T09:00:00.000Z",
    "started": "2024-05-01T11:30:00.000Z",
    "ended": None,
    "duration": 90.5,
    "metrics": {"loss": 0.25, "val loss": 0.5, "broken": math.nan, "top": math.inf, "stored_nan": None},
    "params": {"lr": 0.1, "n": 3, "opt": "adam", "warm": True, "digits": "3", "nothing": None, "layers": [1, 2]},
    "tags": {"keep": "", "stage": "final", "fold": "3"},
}


@pytest.mark.parametrize(
    "text",
    [
        "state = failed",
        "state != completed",
        "state in (failed, cancelled)",
        "state not in (completed, cancelled)",
        "state like fail*",
        "state not like comp*",
        "name = run12.3 and parent = run12",
        "experiment like vision-?",
        "exit_code > 0 and exit_code <= 1 and exit_code in (1, 2)",
        "priority = 0",
        "duration > 1m and duration < 2m",
        "metrics.loss < 0.3",
        'metrics."val loss" = 0.5',
        "metrics.top > 1e308",
        "params.lr <= 0.1 and params.n = 3 and params.n = 3.0 and params.n in (3, adam)",
        "params.opt = adam and params.opt like a* and params.opt in (sgd, adam)",
        "params.warm = true and params.warm != false",
        "params.digits = '3'",
        "tags.fold = 3 and tags.stage != draft",
        "tags.keep exists and tags.keep = ''",
        "created < 1d and created > 2h and started < 1h",
        "created >= 2024-05-01 and created < 2024-05-02",
        "created > 2024-05-01T10:59+02:00",
        "reason = none and ended = none and not node exists",
    ],
)
def test_found(text: str) -> None:
    assert matches(parse(text), RUN, now=NOW)


@pytest.mark.parametrize(
    "text",
    [
        "state = completed",
        "state like ail",
        "state like FAIL*",
        "experiment like vision",
        "exit_code > 1",
        "metrics.loss > 0.3",
        "metrics.loss in (0.1, 0.2)",
        "params.n = '3'",
        "params.digits = 3",
        "params.digits > 1",
        "params.warm = 1",
        "params.warm > 0",
        "params.n like 3",
        "params.layers = 1",
        "started > 1h",
        "created < 2h",
    ],
)
def test_not_found(text: str) -> None:
    assert not matches(parse(text), RUN, now=NOW)


@pytest.mark.parametrize("column", ["node", "tags.absent", "params.absent", "params.nothing"])
@pytest.mark.parametrize("condition", ["= x", "!= x", "like *", "not like x", "~ x", "!~ x", "in (x)", "not in (x)"])
def test_comparing_what_is_missing_is_false_and_not_turns_it_round(column: str, condition: str) -> None:
    assert not matches(parse(f"{column} {condition}"), RUN)
    assert matches(parse(f"not {column} {condition}"), RUN)


@pytest.mark.parametrize("column", ["metrics.absent", "metrics.broken", "metrics.stored_nan"])
@pytest.mark.parametrize("condition", ["= 1", "!= 1", "< 1", "<= 1", "> 1", ">= 1", "in (1)", "not in (1)"])
def test_nan_counts_as_missing(column: str, condition: str) -> None:
    assert not matches(parse(f"{column} {condition}"), RUN)
    assert matches(parse(f"not {column} {condition}"), RUN)


def test_what_was_recorded_exists_even_as_nan_or_null() -> None:
    assert matches(parse("metrics.broken exists and metrics.stored_nan exists and params.nothing exists"), RUN)
    assert not matches(parse("metrics.absent exists or reason exists"), RUN)
    assert not matches(parse("tags.keep exists"), {"name": "run1"})


def test_times_may_be_text_datetimes_or_seconds() -> None:
    later = parse("created > 2024-05-01")
    for created in ("2024-05-01T00:00:01Z", datetime(2024, 5, 1, 0, 0, 1, tzinfo=UTC), 1714521601.0):
        assert matches(later, {"created": created})
    assert not matches(later, {"created": "some day"})


def test_an_age_becomes_a_time_and_the_comparison_turns() -> None:
    recent = resolve(parse("not started < 2h and tags.keep exists"), NOW)
    two_hours_ago = datetime(2024, 5, 1, 10, 0, tzinfo=UTC)
    assert recent == And((Not(Compare("started", Op.GT, two_hours_ago)), Exists("tags.keep")))


def test_an_age_without_a_now_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="now"):
        matches(parse("started < 2h"), RUN)


@pytest.mark.parametrize(
    ("text", "pattern", "fits"),
    [
        ("", "", True),
        ("", "*", True),
        ("", "?", False),
        ("abc", "abc", True),
        ("abc", "a*", True),
        ("abc", "*c", True),
        ("abc", "a?c", True),
        ("abc", "ab", False),
        ("abc", "*b", False),
        ("aXbXc", "a*b*c", True),
        ("mississippi", "m*iss*ppi", True),
        ("mississippi", "m*iss*ppx", False),
        ("a[b]c", "a[b]c", True),
        ("abc", "a[b]c", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("line\nbreak", "line*break", True),
    ],
)
def test_patterns(text: str, pattern: str, fits: bool) -> None:
    assert like(text, pattern) is fits


def test_no_pattern_takes_for_ever() -> None:
    begin = time.perf_counter()
    assert not like("a" * 2000, "*a" * 1000 + "b")
    assert time.perf_counter() - begin < 5
