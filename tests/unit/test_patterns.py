"""Patterns of what a run left, as they are sent to the node of another."""

from __future__ import annotations

import pytest
from hypothesis import given as holds_for
from hypothesis import strategies as st

from turnout.wire.patterns import escape, given, matcher, plain_path


@pytest.mark.parametrize(("patterns", "taken"), [
    (["a/*"], {"a/1", "a/2"}), (["a/*", "b"], {"a/1", "a/2", "b"}), (["a/*", "!./a/*"], set()),
    (["a/*", "b", "!./a/*", "a/2"], {"a/2", "b"}), (["a", "!./a/*", "a/2"], {"a/2"}),
    (["!./b"], set()), (["**", "!./*"], {"a/1", "a/2", "c/a/1"}), (["**", "!./*/**", "a/1"], {"a/1", "b"}),
    (["**", "!./a/**"], {"b", "c/a/1"}), (["**", "!./**/1"], {"a/2", "b"}),
    (["*", "!./a"], {"a/1", "a/2", "b", "c/a/1"}),
])  # fmt: skip
def test_what_is_taken(patterns: list[str], taken: set[str]) -> None:
    assert set(filter(given(patterns), ["a/1", "a/2", "b", "c/a/1"])) == taken


@pytest.mark.parametrize(("pattern", "path"), [
    ("a/b", "a/b"), ("a/[*]b", "a/*b"), ("[[]x]", "[x]"), ("a[?]", "a?"), ("a/*", None), ("[ab]", None), ("[*]*", None),
])  # fmt: skip
def test_what_is_but_one_path(pattern: str, path: str | None) -> None:
    assert plain_path(pattern) == path


@holds_for(st.text(st.characters(exclude_characters="/\0\n", exclude_categories=["Cs"]), min_size=1))
def test_a_path_that_is_escaped_is_itself(path: str) -> None:
    assert plain_path(escape(path)) == path
    assert path in (".", "..") or path.startswith("!") or matcher([escape(path)])(path)
