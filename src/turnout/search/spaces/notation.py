"""Values and functions as people write them in one line: ``.01, "a b", [1, 2], $uniform(0, 1)``.

Numbers, ``true``, ``false`` and ``none`` (or ``null``) are what they look like; whatever else stands without quotes is
text. Nothing is evaluated.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS: dict[str, object] = {"true": True, "false": False, "none": None, "null": None}
_ENDS = ",()]"
_DEEPEST = 20
_LONGEST = 300  # digits of an integer that is still a number


class Unreadable(ValueError):
    """What is wrong, for people."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function that was written, with its arguments."""

    name: str
    args: tuple[object, ...]


def read_values(text: str, mark: str = "$") -> list[object]:
    """All that stand there, with commas between. `mark` comes before the name of a function. Unreadable."""
    reader = _Reader(text, mark)
    return reader.values(end="")


def typed(word: str) -> object:
    """What a word without quotes stands for."""
    if len(word) <= _LONGEST and _WHOLE.fullmatch(word):
        return int(word)
    if _NUMBER.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return _WORDS.get(word.lower(), word)


def meant(value: object) -> object:
    """The number, where YAML makes text of one: it wants ``1.0e-4`` and people write ``1e-4``."""
    return typed(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


class _Reader:
    def __init__(self, text: str, mark: str) -> None:
        self._text = text
        self._mark = mark
        self._at = 0
        self._depth = 0

    def values(self, end: str) -> list[object]:
        """Up to `end`, which is read, too; "" = the end of the text."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unreadable("there are too many brackets in each other")
        found: list[object] = []
        if not (end and self._next() == end):
            found.append(self._value())
            while self._next() == ",":
                self._at += 1
                found.append(self._value())
        if self._next() != end:
            what = f"{self._next()!r} is not expected" if self._next() else f"{end!r} is missing"
            raise Unreadable(f"{what} in {self._text!r}")
        self._at += len(end)
        self._depth -= 1
        return found

    def _next(self) -> str:
        """The next character that is no space; "" = there is none."""
        while self._text[self._at : self._at + 1].isspace():
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _value(self) -> object:
        first = self._next()
        if first == "[":
            self._at += 1
            return self.values(end="]")
        if first in ("'", '"'):
            return self._quoted(first)
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in _ENDS:
            self._at += 1
        word = self._text[start : self._at].strip()
        if self._next() == "(":
            return self._call(word)
        if not word:
            raise Unreadable(f"a value is missing in {self._text!r}")
        return typed(word)

    def _call(self, word: str) -> Call:
        name = word.removeprefix(self._mark)
        if not word.startswith(self._mark) or not _NAME.fullmatch(name):
            raise Unreadable(f"{word!r} is no function; put text with brackets in quotes")
        self._at += 1
        return Call(name, tuple(self.values(end=")")))

    def _quoted(self, quote: str) -> str:
        found: list[str] = []
        self._at += 1
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == quote:
                return "".join(found)
            if char == "\\" and self._text[self._at : self._at + 1] in (quote, "\\"):
                char = self._text[self._at]
                self._at += 1
            found.append(char)
        raise Unreadable(f"a quote is not closed in {self._text!r}")
