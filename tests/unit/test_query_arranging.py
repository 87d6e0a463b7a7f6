"""Rows in hand: filtered and sorted as the store does it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnout.errors import InvalidInput
from turnout.query import EXPERIMENTS, JOBS, Column, Sort, arrange, expand_columns, parse, parse_columns, parse_sort

NOW = datetime(2024, 5, 2, tzinfo=UTC)
ROWS: list[dict[str, object]] = [
    {"name": "e10", "runs": 3, "last": "2024-05-01T10:00:00Z"},
    {"name": "e9", "runs": 12, "last": "2024-04-01T10:00:00Z"},
    {"name": "x", "runs": None, "last": None},
]


def names(expression: str | None, order: Sort | None) -> list[str]:
    wanted = parse(expression, EXPERIMENTS) if expression else None
    return [str(row["name"]) for row in arrange(ROWS, wanted, order, now=NOW, table=EXPERIMENTS)]


def test_sorted_as_people_count_and_what_lacks_it_last() -> None:
    assert names(None, Sort("name")) == ["e9", "e10", "x"]
    assert names(None, Sort("runs")) == ["e10", "e9", "x"]
    assert names(None, Sort("runs", descending=True)) == ["e9", "e10", "x"]


def test_filtered_by_the_columns_of_that_table() -> None:
    assert names("last < 2d", None) == ["e10"]
    assert names("runs > 2 and name ~ 9", None) == ["e9"]
    with pytest.raises(InvalidInput) as caught:
        parse("metrics.loss < 1", EXPERIMENTS)
    assert "columns are name, workspace" in caught.value.hint
    assert parse_sort("job", JOBS) == Sort("name")


def test_a_pattern_of_columns_becomes_those_that_rows_have() -> None:
    columns = parse_columns("name,metrics.l*:.2f,metrics.loss")
    assert columns[1] == Column("metrics.l*", "metrics.l*", ".2f", is_pattern=True)
    rows = [{"metrics": {"loss": 1.0, "acc": 2.0}}, {"metrics": {"lr": 0.1}}]
    expanded = expand_columns(columns, rows)
    assert [(column.name, column.header) for column in expanded] == [
        ("name", "name"), ("metrics.loss", "loss"), ("metrics.lr", "lr"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fits"),
    [("exit_code:$bz", True), ("created:$do", True), ("created:$to", True), ("created:$bz", False),
     ("exit_code:$do", False), ("name:$bz", False), ("metrics.*:$bz", True), ("name:$xx", False)],
)  # fmt: skip
def test_formats_of_xt(text: str, fits: bool) -> None:
    if fits:
        assert parse_columns(text)[0].format.startswith("$")
    else:
        with pytest.raises(InvalidInput):
            parse_columns(text)
