"""Paths and patterns of files, as strings: nothing here looks at a disk.

A pattern is what the node takes for one: ``*`` and ``?`` and ``[…]`` stay within a directory, ``**`` is any number of
directories. A *guess* is a pattern for paths that are not known yet; in it, `ANY` is whatever may come.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import lru_cache

from turnout.wire.manifest import BadManifest, check_path
from turnout.wire.patterns import escape as escape

ANY = "\0"
_WILD = re.compile(rf"[*?\[{ANY}]")
_TOKEN = re.compile(rf"((?:(?<=/)|\A)\*\*(?:/|\Z))|\*+|\?|{ANY}|\[!?\]?[^\]/]*\]")


_MOST_TRIED = 100_000


class Wild(Enum):
    """What stands for characters that are not said, as a regular expression."""

    ONE = "[^/]"
    SOME = "[^/]*"
    DIRECTORIES = "(?:[^/]+/)*"
    ALL = ".*"


Token = Wild | str
"""Wild, a character, or characters in brackets."""

_WHOLE_NAMES = {"**/": Wild.DIRECTORIES, "**": Wild.ALL}
_IN_NAMES = {"*": Wild.SOME, "?": Wild.ONE, ANY: Wild.ALL}


def clean(path: str) -> str:
    """The same path without ``./``, ``x/../`` and a slash at the end."""
    return posixpath.normpath(path) if path else ""


def is_pattern(text: str) -> bool:
    return _WILD.search(text) is not None


def objection(path: str) -> str | None:
    """Why a run cannot leave this clean path, or None."""
    if path in ("", "."):
        return "names no file"
    if path.startswith("/"):
        return "is absolute"
    if path == ".." or path.startswith("../"):
        return "leads out of the directory of the run"
    try:
        check_path(path)
    except BadManifest:
        return "cannot be a path"
    return None


def above(path: str) -> list[str]:
    """The directories it is in."""
    found = []
    while (path := posixpath.dirname(path)) not in ("", "/"):
        found.append(path)
    return found


def fixed_beginning(pattern: str) -> str:
    """What every path that matches begins with."""
    found = _WILD.search(pattern)
    return pattern[: found.start()] if found else pattern


@lru_cache(maxsize=10_000)
def matcher(pattern: str) -> Callable[[str], object]:
    """Tells for a clean path, by truth, whether it matches."""
    if pattern.count("*") == 1 and len(_WILD.findall(pattern)) == 1:
        return _around(*pattern.split("*"))
    tokens = _tokens(pattern)
    wild = sum(isinstance(token, Wild) and token is not Wild.ONE for token in tokens)
    compiled = re.compile("".join(map(_regex, tokens)), re.DOTALL).fullmatch

    def matches(path: str) -> object:
        return compiled(path) if wild < 2 or len(path) ** wild <= _MOST_TRIED else _walk(tokens, path)

    return matches


def _around(before: str, after: str) -> Callable[[str], object]:
    """The most frequent pattern. Each run may have its own, and to compile one takes longer than all else of a run."""
    start, least = len(before), len(before) + len(after)

    def matches(path: str) -> bool:
        end = len(path) - len(after)
        return len(path) >= least and path.startswith(before) and path.endswith(after) and "/" not in path[start:end]

    return matches


def _walk(tokens: Sequence[Token], path: str) -> bool:
    """The same in one pass, whatever the pattern: a regular expression tries all that each of many stars may stand for.
    A place is a token, and whether the name of a directory has begun there."""
    places = _onward(tokens, {(0, False)})
    for char in path:
        places = _onward(tokens, {each for place in places for each in _after(tokens, place, char)})
    return (len(tokens), False) in places


def _onward(tokens: Sequence[Token], places: set[tuple[int, bool]]) -> set[tuple[int, bool]]:
    """With those behind what may stand for nothing."""
    left = list(places)
    while left:
        at, is_inside = left.pop()
        is_none = at < len(tokens) and tokens[at] in (Wild.SOME, Wild.ALL, Wild.DIRECTORIES)
        if is_none and not is_inside and (at + 1, False) not in places:
            places.add((at + 1, False))
            left.append((at + 1, False))
    return places


def _after(tokens: Sequence[Token], place: tuple[int, bool], char: str) -> Iterator[tuple[int, bool]]:
    at, is_inside = place
    token = tokens[at] if at < len(tokens) else None
    if token is Wild.DIRECTORIES:
        if char != "/" or is_inside:
            yield at, char != "/"
    elif token is Wild.ALL or (token is Wild.SOME and char != "/"):
        yield at, False
    elif token is Wild.ONE:
        if char != "/":
            yield at + 1, False
    elif isinstance(token, str) and (char == token if len(token) == 1 else _in_brackets(token)(char)):
        yield at + 1, False


@lru_cache(maxsize=1000)
def _in_brackets(token: str) -> Callable[[str], object]:
    return re.compile(_regex(token), re.DOTALL).fullmatch


def _regex(token: Token) -> str:
    if isinstance(token, Wild):
        return token.value
    # What fnmatch makes of brackets alone, without the frame it puts around them.
    return f"(?!/){fnmatch.translate(token)[4:-3]}" if len(token) > 1 else re.escape(token)


@lru_cache(maxsize=10_000)
def _tokens(pattern: str) -> tuple[Token, ...]:
    return tuple(_scan(pattern))


def _scan(pattern: str) -> Iterator[Token]:
    at = 0
    while at < len(pattern):
        if found := _TOKEN.match(pattern, at):
            yield _WHOLE_NAMES[found[1]] if found[1] else _IN_NAMES.get(found[0][0], found[0])
            at = found.end()
        else:
            yield pattern[at]
            at += 1


@lru_cache(maxsize=10_000)
def may_meet(one: str, other: str) -> bool:
    """Whether some path may match both. It says yes too often where there are ``[…]``, never too seldom."""
    beginnings = fixed_beginning(one), fixed_beginning(other)
    if not beginnings[0].startswith(beginnings[1]) and not beginnings[1].startswith(beginnings[0]):
        return False
    a, b = _tokens(one), _tokens(other)
    seen: set[tuple[int, int]] = set()
    left = [(0, 0)]
    while left:
        place = left.pop()
        if place in seen:
            continue
        seen.add(place)
        i, j = place
        if i == len(a) and j == len(b):
            return True
        left.extend(_next(a, i, b, j))
        left.extend((i, j) for j, i in _next(b, j, a, i))
    return False


def _next(a: tuple[Token, ...], i: int, b: tuple[Token, ...], j: int) -> Iterator[tuple[int, int]]:
    """Where to go on when what stands in `a` is taken for what stands in `b`."""
    if i == len(a):
        return
    one, other = a[i], b[j] if j < len(b) else None
    if one in (Wild.SOME, Wild.ALL, Wild.DIRECTORIES):
        yield i + 1, j
        if other is not None and (one is not Wild.SOME or other != "/"):
            yield i, j + 1
    elif other is not None and (one == other or ("/" not in (one, other) and _stands_for_many(one, other))):
        yield i + 1, j + 1


def _stands_for_many(*tokens: Token) -> bool:
    return any(isinstance(token, Wild) or len(token) > 1 for token in tokens)
