"""Regular expressions: the same as Python's where both know them, and never slow."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.query.regex import BadPattern, check, search

atoms = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\W", r"\.", "[]x]", "[a-]"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    signs = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
    return (
        st.builds("{}{}".format, inner, inner)
        | st.builds("({}|{})".format, inner, inner)
        | st.builds("(?:{}){}".format, inner, signs)
        | st.builds("(^{}|)".format, inner)
        | st.builds("({}$)?".format, inner)
    )


patterns = st.recursive(atoms, larger, max_leaves=8)


@given(patterns, st.text("abcA1.]-x\n", max_size=10))
def test_as_python_has_it(pattern: str, text: str) -> None:
    expected = re.search(pattern.replace("$", r"\Z"), text, re.DOTALL | re.ASCII) is not None
    assert search(pattern, text) == expected


def test_upper_and_lower_case() -> None:
    assert search("(?i)^VISION-[a-z]$", "vision-X") and not search("^VISION", "vision")
    assert search("(?i)É", "é")


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "(.*){20}b", "(a?){50}a{50}b"])
def test_the_worst_takes_no_longer_than_others(pattern: str) -> None:
    begin = time.perf_counter()
    assert not search(pattern, "a" * 5000)
    assert time.perf_counter() - begin < 2.0


@pytest.mark.parametrize(
    ("pattern", "at"),
    [("(", 0), ("a)", 1), ("*a", 0), ("x[a", 1), ("a{3,1}", 2), (r"ab\b", 2), ("(?=a)", 0), ("\\", 1), ("x{", 2),
     ("[z-a]", 2), ("a{101}", 2), ("^*", 0)],
)  # fmt: skip
def test_what_is_none_is_pointed_at(pattern: str, at: int) -> None:
    with pytest.raises(BadPattern) as caught:
        check(pattern)
    assert caught.value.at == at


def test_too_large_is_refused() -> None:
    with pytest.raises(BadPattern, match="too large"):
        check("((a{100}){100}){100}")
    with pytest.raises(BadPattern, match="too deeply"):
        check("(" * 100 + "a" + ")" * 100)
