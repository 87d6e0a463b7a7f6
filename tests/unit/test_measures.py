"""Sizes and times as people write them, the same on the command line and in settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.config.values import SECONDS, SIZE, Single
from turnout.model.measures import parse_seconds, parse_size, write_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("500M", 500 << 20), ("4g", 4 << 30), ("4GiB", 4 << 30), (" 1.5 K ", 1536), ("1_000", 1000), ("0", 0)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400), ("1e3", 1000), ("1:30", 90),
     ("1:30:00", 5400), ("1-12:00:00", 129_600)],
)  # fmt: skip
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "4X", "1:2:3:4", "1 2", "inf", "nan", "1e999", "٤", "_1", "5m\n5"])
def test_what_is_neither(text: str) -> None:
    for parse in (parse_size, parse_seconds):
        with pytest.raises(ValueError, match="is not a"):
            parse(text)


@given(st.integers(min_value=1 << 10, max_value=1 << 50))
def test_a_size_is_written_so_that_it_can_be_read(size: int) -> None:
    assert abs(parse_size(write_size(size)) - size) <= size * 0.05


@pytest.mark.parametrize("kind", [SIZE, SECONDS])
def test_as_a_setting_it_is_more_than_nothing(kind: Single[float]) -> None:
    assert kind.parse("1") == 1
    with pytest.raises(ValueError, match="0"):
        kind.parse("0")
