"""How a list of runs is ordered, and which columns it shows."""

from __future__ import annotations

import pytest

from turnout.errors import InvalidInput
from turnout.query import Column, Sort, parse_columns, parse_sort


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("created", Sort("created")),
        ("created asc", Sort("created")),
        ("-metrics.loss", Sort("metrics.loss", descending=True)),
        ("metrics.loss desc", Sort("metrics.loss", descending=True)),
        ("  -status ", Sort("state", descending=True)),
        ('-metrics."val loss"', Sort("metrics.val loss", descending=True)),
        ("hparams.lr DESC", Sort("params.lr", descending=True)),
    ],
)
def test_sort(text: str, expected: Sort) -> None:
    assert parse_sort(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a column is missing"),
        ("-", "a column is missing"),
        ("stat", "no column 'stat'"),
        ("--state", "no column '-state'"),
        ("state desc name", "'name' is not expected"),
        ("state, name", "',' is not expected"),
        ("-state desc", "both `-` and `desc`"),
        ("x" * 5000, "longer than"),
    ],
)
def test_sort_mistakes(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_sort(text)
    assert message in caught.value.message


def test_the_place_of_a_mistake_counts_from_the_start() -> None:
    with pytest.raises(InvalidInput, match="sort, column 4:"):
        parse_sort("  -stat")
    with pytest.raises(InvalidInput, match="columns, column 8:"):
        parse_columns("state, stat")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state", [Column("state", "state")]),
        ("status=S", [Column("state", "S")]),
        (
            "state,metrics.loss:.3f,params.lr=LR",
            [Column("state", "state"), Column("metrics.loss", "metrics.loss", ".3f"), Column("params.lr", "LR")],
        ),
        (
            'name , metrics."val, loss" = "loss, val":>8.2e',
            [Column("name", "name"), Column("metrics.val, loss", "loss, val", ">8.2e")],
        ),
        ("duration=s:,.1f,exit_code=x:,d", [Column("duration", "s", ",.1f"), Column("exit_code", "x", ",d")]),
        ("duration=s:,.1f,state:>10", [Column("duration", "s", ",.1f"), Column("state", "state", ">10")]),
        ("exit_code=x:10,duration=s:8.1f", [Column("exit_code", "x", "10"), Column("duration", "s", "8.1f")]),
        ("created=when:%H:%M", [Column("created", "when", "%H:%M")]),
        ("params.opt=o:>10,params.n=n:d", [Column("params.opt", "o", ">10"), Column("params.n", "n", "d")]),
    ],
)
def test_columns(text: str, expected: list[Column]) -> None:
    assert parse_columns(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a column"),
        ("state,", "'' is not a column"),
        ("state,,name", "'' is not a column"),
        ("stat", "no column 'stat'"),
        ("state:.3f", "'.3f' does not format state"),
        ("exit_code:s", "'s' does not format exit_code"),
        ("metrics.loss:d", "'d' does not format"),
        ("metrics.loss:", "'' does not format"),
        ("metrics.loss:.3q", "does not format"),
        ("metrics.loss:999999999f", "does not format"),
        ("metrics.loss:.999999f", "does not format"),
        ("created:>10", "does not format created"),
        ("created:%999999d", "not a column"),
        ("metrics.a%b", "needs quotes"),
        (",".join(["state"] * 65), "more than 64"),
    ],
)
def test_columns_mistakes(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_columns(text)
    assert message in caught.value.message
