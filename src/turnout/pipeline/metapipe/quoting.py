"""Names of files in a command, as a shell has to see them where they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from enum import Enum

_MARKS = re.compile(r"\\.|\$\(|['\"()#\n]", re.DOTALL)
_IN_DOUBLE = re.compile(r'[\\"$`]')


class Quotes(Enum):
    """What a place in a command is surrounded by."""

    NONE = "none"
    SINGLE = "single"
    DOUBLE = "double"
    COMMENT = "comment"

    def fit(self, paths: Iterable[str]) -> str:
        """The names with blanks between them; outside of quotes each is one word, whatever is in it."""
        return " ".join(map(_FITS[self], paths))


class Scanner:
    """Reads a command from its beginning, and knows at each point what quotes it is in."""

    def __init__(self) -> None:
        self._open = [Quotes.NONE]  # `"$(cat "` has quotes in quotes
        self._last = " "

    @property
    def quotes(self) -> Quotes:
        return self._open[-1]

    def read(self, text: str) -> None:
        for mark in _MARKS.finditer(text):
            before = text[mark.start() - 1] if mark.start() else self._last
            self._mark(mark[0], before)
        self._last = text[-1:] or self._last

    def skip(self) -> None:
        """A name stands here."""
        self._last = "x"

    def _mark(self, mark: str, before: str) -> None:
        now = self.quotes
        if now is Quotes.COMMENT:
            if mark[-1] == "\n":
                self._open.pop()
        elif now is Quotes.SINGLE:
            if mark[-1] == "'":
                self._open.pop()
        elif mark == '"':
            self._open.pop() if now is Quotes.DOUBLE else self._open.append(Quotes.DOUBLE)
        elif mark == "$(" or (mark == "(" and now is Quotes.NONE):
            self._open.append(Quotes.NONE)
        elif now is Quotes.NONE:
            self._mark_bare(mark, before)

    def _mark_bare(self, mark: str, before: str) -> None:
        if mark == "'":
            self._open.append(Quotes.SINGLE)
        elif mark == ")" and len(self._open) > 1:
            self._open.pop()
        elif mark == "#" and (before.isspace() or before in ";&|()"):
            self._open.append(Quotes.COMMENT)


def _in_double(path: str) -> str:
    return _IN_DOUBLE.sub(r"\\\g<0>", path)


def _in_single(path: str) -> str:
    return path.replace("'", "'\\''")


def _in_comment(path: str) -> str:
    return path.replace("\n", " ")


_FITS = {
    Quotes.NONE: shlex.quote,
    Quotes.SINGLE: _in_single,
    Quotes.DOUBLE: _in_double,
    Quotes.COMMENT: _in_comment,
}
