"""Several jobs in one sentence."""

from __future__ import annotations

import pytest

from turnout.model.ids import list_jobs, span_of


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ([7], "job7"),
        ([8, 7], "job7, job8"),
        ([7, 8, 9], "job7 to job9"),
        ([2, 6], "job2, job6"),
        ([1, 2, 3, 5], "job1, job2, job3, job5"),
        ([1, 3, 5, 7, 9, 11, 13], "job1, job3, job5, job7, job9 and 2 more"),
    ],
)
def test_none_is_named_that_is_not_meant(jobs: list[int], said: str) -> None:
    assert list_jobs(jobs) == said


def test_a_span_of_one_is_one() -> None:
    assert span_of("run3", "run3") == "run3" and span_of("run3", "run9") == "run3 to run9"
