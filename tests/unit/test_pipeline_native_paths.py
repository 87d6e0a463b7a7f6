"""Patterns of files: what matches, and what two may have in common."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.agent.after import capture_after
from turnout.pipeline.native import paths as matching
from turnout.pipeline.native.paths import ANY, escape, fixed_beginning, is_pattern, matcher, may_meet

names = st.text(st.sampled_from("ab[*"), min_size=1, max_size=3)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
patterns = st.lists(
    st.lists(st.sampled_from(["a", "b", "*", "?", "[ab]", "[!a]", "[[]"]), min_size=1, max_size=3).map("".join)
    | st.just("**"),
    min_size=1,
    max_size=3,
).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("a/*.txt", "a/b.txt", True),
        ("a/*.txt", "a/b/c.txt", False),
        ("a/*", "a/.b", True),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("a/**", "a/b/c", True),
        ("a/**/x", "a/x", True),
        ("a**b", "a/b", False),
        ("a?", "a/", False),
        ("[!a]b", "/b", False),
        ("[[]x]", "[x]", True),
        ("a[z-a]", "az", False),
        ("[a", "[a", True),
        ("x.y", "xzy", False),
    ],
)
def test_matching(pattern: str, path: str, matches: bool) -> None:
    assert bool(matcher(pattern)(path)) is matches


FILES = ("a", "b.txt", "c/a", "c/b.txt", "c/d/a", "c/d/e/b.txt", "c/[x]", ".h", "c/.h")


@pytest.mark.parametrize(
    "pattern", ["*", "*.txt", "c/*", "**/a", "**/*.txt", "c/**/a", "?", "c/[[]*", "*/*/a", "[a-c]"]
)
def test_what_a_node_takes_for_the_outputs_of_a_run_matches(tmp_path: Path, pattern: str) -> None:
    """A directory that matches stands for all it holds there; nothing else is different."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    taken, _ = capture_after(str(tmp_path), [pattern], [])
    ways = {file: [file[:at] for at, char in enumerate(file) if char == "/"] + [file] for file in FILES}
    assert {entry.path for entry in taken} == {file for file in FILES if any(map(matcher(pattern), ways[file]))}


@given(paths)
def test_an_escaped_path_matches_itself(path: str) -> None:
    assert matcher(escape(path))(path)
    assert is_pattern(escape(path)) == is_pattern(path)


@given(paths, patterns, patterns)
def test_two_patterns_that_match_the_same_may_meet(path: str, one: str, other: str) -> None:
    if matcher(one)(path):
        assert path.startswith(fixed_beginning(one))
        assert may_meet(one, escape(path)) and may_meet(escape(path), one)
        if matcher(other)(path):
            assert may_meet(one, other)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a/*", "a/b-*", True),
        ("parts/*", "notes/*.txt", False),
        ("*.txt", "parts/*", False),
        ("**/*.txt", "parts/*", True),
        ("**/*.txt", "parts/x", False),
        ("a*c", "ab*", True),
        ("a*c", "a*d", False),
        (f"{ANY}.fq", "raw/*.fq", True),
        (f"raw/{ANY}.fq", "raw/x/*.bam", False),
        ("a/*b", "a/c/*", False),
        ("x-?", "x-ab", False),
    ],
)
def test_meeting(one: str, other: str, meet: bool) -> None:
    assert (may_meet(one, other), may_meet(other, one)) == (meet, meet)


HARD = "/".join(["x", "*a" * 30 + "b"])


def test_a_pattern_of_many_stars_is_matched_in_no_time() -> None:
    """A regular expression would try all that each may stand for."""
    matches = matcher(HARD)
    assert not matches("x/" + "a" * 200) and matches("x/" + "a" * 200 + "b") and not matches("x/" + "a" * 9 + "b")


@given(
    st.lists(st.sampled_from(["*", "?", "**/", "[ab]", "[!a]", "a", "b", "/"]), max_size=8).map("".join),
    st.text("ab/", max_size=8),
)
def test_both_ways_to_match_agree(pattern: str, path: str) -> None:
    tokens = matching._tokens(pattern)
    by_regex = re.compile("".join(map(matching._regex, tokens)), re.DOTALL).fullmatch(path) is not None
    assert matching._walk(tokens, path) is by_regex
