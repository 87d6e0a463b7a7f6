"""Names that are nearly right."""

from __future__ import annotations

import pytest

from turnout.model.likeness import instead_of, nearest

KNOWN = ("max-runs", "trialConcurrency", "python")


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("max-run", "max-runs"), ("trial_concurency", "trialConcurrency"), ("TRIALCONCURRENCY", "trialConcurrency"),
        ("Pyhton", "python"), ("nothing like it", None), ("", None), ("x" * 100_000, None),
    ],
)  # fmt: skip
def test_the_name_that_is_most_like_it(written: str, near: str | None) -> None:
    assert nearest(written, KNOWN) == near


def test_what_to_write_instead() -> None:
    assert instead_of("pythn", KNOWN) == "did you mean 'python'?"
    assert instead_of("nothing like it", KNOWN) == "known: max-runs, python, trialConcurrency"
    assert instead_of("x", ()) == "there are none"
