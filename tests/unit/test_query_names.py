"""What people type for runs, and what it means."""

from __future__ import annotations

import pytest

from turnout.errors import InvalidInput
from turnout.query.names import JobRange, Named, OneRun, Pattern, RunRange, Word, parse_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run12", OneRun(12, 0)),
        ("run12.3", OneRun(12, 3)),
        ("run3-run9", RunRange(3, 9)),
        ("run3-9", RunRange(3, 9)),
        ("run3-run3", RunRange(3, 3)),
        ("run3.1-run3.5", RunRange(1, 5, parent=3)),
        ("job4", JobRange(4, 4)),
        ("job4-job6", JobRange(4, 6)),
        ("run1*", Pattern("run1*")),
        ("run?.?", Pattern("run?.?")),
        ("baseline", Word("baseline")),
        ("run-fast", Word("run-fast")),
        ("2024-05-01", Word("2024-05-01")),
    ],
)
def test_a_name(text: str, expected: Named) -> None:
    assert parse_name(text) == expected


@pytest.mark.parametrize("text", ["run9-run3", "run3.5-run3.1", "run3.1-run4.2", "run3-job4", "run3-run4.1", "", "  "])
def test_what_can_be_no_name(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_name(text)
    assert "run" in caught.value.hint
