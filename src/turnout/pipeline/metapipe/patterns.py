"""Patterns of file names, as a shell has them: ``*``, ``?`` and ``[…]`` stay within one directory."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

_SIGNS = re.compile(r"[*?\[]")
_TOKENS = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)
_THIS = re.compile(r"(?:\./+)+")


def is_pattern(text: str) -> bool:
    return _SIGNS.search(text) is not None


def plain(path: str) -> str:
    """Without ``./`` in front."""
    return _THIS.sub("", path, count=1) if path.startswith("./") else path


@lru_cache(maxsize=256)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a path is one that `pattern` stands for. As in a shell, ``*`` in front does not find hidden files."""
    segments = [(re.compile(translate(each)).match, each.startswith(".")) for each in plain(pattern).split("/")]

    def matches(path: str) -> bool:
        names = plain(path).split("/")
        return len(names) == len(segments) and all(
            match(name) is not None and (takes_hidden or not name.startswith("."))
            for name, (match, takes_hidden) in zip(names, segments, strict=True)
        )

    return matches


def may_meet(one: str, other: str) -> bool:
    """False only when no path matches both patterns."""
    ones, others = plain(one).split("/"), plain(other).split("/")
    return len(ones) == len(others) and all(map(_meet, ones, others))


def _meet(one: str, other: str) -> bool:
    """Whether a name can match both: walks through both at once, keeping the places in `other` that can be reached."""
    left, right = _TOKENS.findall(one), _TOKENS.findall(other)
    reached = _skipping({0}, right)
    for token in left:
        if token[0] == "*":
            reached = set(range(min(reached, default=len(right) + 1), len(right) + 1))
        else:
            inside = {at for at in reached if at < len(right) and right[at][0] == "*"}
            passed = {at + 1 for at in reached if at < len(right) and _alike(token, right[at])}
            reached = _skipping(inside | passed, right)
    return len(right) in reached


def _skipping(places: set[int], tokens: list[str]) -> set[int]:
    """With those behind stars, which may stand for nothing."""
    for at in range(len(tokens)):
        if at in places and tokens[at][0] == "*":
            places.add(at + 1)
    return places


def _alike(one: str, other: str) -> bool:
    """Two tokens that are no stars: whether a character can be both. Classes are taken to hold anything."""
    return one == other or one[0] == "?" or other[0] == "?" or len(one) > 1 or len(other) > 1
