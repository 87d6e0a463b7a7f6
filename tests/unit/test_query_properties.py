"""What holds for every filter, and for every text that is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import filters
from turnout.errors import InvalidInput
from turnout.query import (
    COLUMNS,
    Age,
    And,
    Expression,
    Kind,
    Not,
    Op,
    Scalar,
    matches,
    parse,
    parse_all,
    parse_columns,
    parse_sort,
    unparse,
)
from turnout.query.columns import ORDER, PATTERNS, RUNS

NOW = datetime(2024, 5, 1, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = texts.filter(bool)
columns = st.sampled_from(sorted(COLUMNS)) | st.builds(
    "{}.{}".format, st.sampled_from(["metrics", "params", "tags"]), names
)
integers = st.integers(-(2**63), 2**63 - 1)
numbers = integers | st.floats(allow_nan=False, allow_infinity=False)
ages = st.builds(Age, st.integers(0, 1000).map(float) | st.sampled_from([0.5, 1.25]), st.sampled_from("smhdw"))
VALUES: dict[Kind, st.SearchStrategy[Scalar]] = {
    Kind.TEXT: texts,
    Kind.INT: integers,
    Kind.FLOAT: numbers,
    Kind.SPAN: numbers,
    Kind.TIME: st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0)) | ages,
    Kind.ANY: texts | numbers | st.booleans(),
}


def values(column: str, op: Op) -> st.SearchStrategy[Scalar]:
    field = RUNS.field_of(column)
    if op in (Op.LIKE, Op.UNLIKE):
        return texts
    if op in PATTERNS:
        return st.sampled_from(["", "^run", "a|b", r"\d+\.", '"', r"\\", "[\"']x{2}", "(?i)vision-.*$"])
    if op in ORDER and field.kind is Kind.ANY:
        return numbers
    return st.sampled_from(field.choices) if field.choices else VALUES[field.kind]


expressions = filters.expressions(columns, values, max_leaves=6)

#: text made of pieces of the language, which gets deeper than random characters do
WORDS = "metrics.loss params. tags.x and or not exists :exists: failed 0.3 2h 2024-05-01 10:30 none $true = == : , ( )"
pieces = st.sampled_from([*COLUMNS, *(op.value for op in Op), *WORDS.split(), *"'\"\\*-. \t"])
nearly = st.lists(pieces, max_size=25).map(" ".join) | st.lists(pieces, max_size=25).map("".join)


def mistake(read: Callable[[str], object], text: str) -> InvalidInput | None:
    try:
        read(text)
    except InvalidInput as error:
        return error
    return None


@given(expressions)
def test_written_and_read_again_it_is_the_same(expression: Expression) -> None:
    again = parse(unparse(expression))
    assert again == expression
    assert repr(again) == repr(expression)  # for == alone, true is 1 and 1 is 1.0


@given(expressions, expressions)
def test_several_filters_are_one_joined_by_and(left: Expression, right: Expression) -> None:
    both = parse_all([unparse(left), unparse(right)])
    assert both == And((left, right))
    assert parse(f"{unparse(left)}, {unparse(right)}") == both


@given(expressions, st.dictionaries(st.sampled_from(sorted(COLUMNS)), st.none() | texts | numbers | st.booleans()))
def test_every_run_matches_a_filter_or_its_opposite(expression: Expression, record: dict[str, object]) -> None:
    assert matches(expression, record, now=NOW) is not matches(Not(expression), record, now=NOW)


@given(st.text() | nearly)
@example("state = 'failed")
@example("(" * 4096)
@example("metrics." * 500)
def test_any_text_is_a_filter_or_a_clear_error(text: str) -> None:
    for read in (parse, parse_sort, parse_columns):
        error = mistake(read, text)
        if error is not None:
            assert "column" in error.message and "^" in error.message
            assert all(c == "\n" or c.isprintable() for c in error.message + error.hint)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4096,
        "not " * 1024,
        "'" + "\\" * 4095,
        '"' + "a" * 4095,
        "state=" + " " * 4080 + '"',
        "a:" * 2048,
        "a" * 4096,
        "metrics." + "." * 4000,
        "state," * 682,
        "created:" + "%Y" * 2000,
        "exit_code in (" + "1," * 2000,
        "9" * 4096,
        "exit_code = " + "9" * 4000,
        "metrics.x < " + "9" * 4000,
        "metrics.x < 1e" + "9" * 4000,
    ],
)
def test_nothing_takes_long(text: str) -> None:
    begin = time.perf_counter()
    for read in (parse, parse_sort, parse_columns):
        mistake(read, text)
    assert time.perf_counter() - begin < 2
