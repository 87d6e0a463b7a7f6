"""How a value has to be quoted where it stands in a command for bash.

In the open it becomes a word. Where somebody has written quotes around the place, ``"{sample}.fq"`` or
``awk '$1 == "{sample}"'``, it stays within them; in a here-document it is text. So it never ends what it stands in, and
nothing in it is expanded. `Scanner` follows the text as far as that takes; it is no parser of bash.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

Quote = Callable[[str], str]
"""Makes of a value what stands in the command for it."""

_DELIMITER = re.compile(r"(-?)[ \t]*((?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+)")
_BREAKS = frozenset(" \t\n;&|()<>")


class Kind(Enum):
    """What the text at some point is part of."""

    OPEN = auto()  # the command itself, or one in $( ) or backticks
    ARITHMETIC = auto()  # $(( )), where << shifts
    DOUBLE = auto()
    SINGLE = auto()
    ANSI = auto()  # $'…'
    COMMENT = auto()
    HERE = auto()
    HERE_AS_IS = auto()  # a here-document whose delimiter is quoted


@dataclass(slots=True)
class _Frame:
    kind: Kind
    end: str = ""  # the character, or for a here-document the line, that ends it
    strips_tabs: bool = False


@dataclass(slots=True)
class Scanner:
    """Is fed with a command piece by piece, and says where it stands between two of them."""

    _frames: list[_Frame] = field(default_factory=lambda: [_Frame(Kind.OPEN)])
    _documents: list[_Frame] = field(default_factory=list)  # which begin with the next line
    _line: str = ""  # so far, in a here-document
    _is_word: bool = False  # the character before belongs to a word
    is_escaped: bool = False  # by a backslash at the end of the last piece

    @property
    def kind(self) -> Kind:
        return self._frames[-1].kind

    @property
    def quote(self) -> Quote:
        """For a value that stands here."""
        depth = sum(frame.end == "`" for frame in self._frames)
        if depth and self.kind in _IN_BACKTICKS:
            return _IN_BACKTICKS[self.kind]
        quote = _QUOTES[self.kind]
        for _ in range(depth):
            quote = _behind_backslashes(quote)
        return quote

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self.is_escaped:
                self.is_escaped, self._is_word, at = False, True, at + 1
            else:
                at = _STEPS[self.kind](self, text, at)

    def pass_place(self) -> None:
        """A value stands here."""
        self._is_word, self.is_escaped = True, False
        self._line += "\0"  # so that it is not taken for the delimiter

    def _open(self, text: str, at: int) -> int:
        char, is_word = text[at], self._is_word
        self._is_word = char not in _BREAKS
        if char == self._frames[-1].end:
            self._frames.pop()
            self._is_word = True
        elif char == "#" and not is_word:
            self._frames.append(_Frame(Kind.COMMENT))
        elif char == "\n" and self._documents:
            self._frames.extend(reversed(self._documents))
            self._documents.clear()
            self._line = ""
        elif text.startswith("<<", at) and not text.startswith("<<<", at):
            return self._here(text, at + 2)
        elif text.startswith("<<<", at):
            return at + 3
        elif char == "'":
            self._frames.append(_Frame(Kind.SINGLE, "'"))
        elif text.startswith("$'", at):
            self._frames.append(_Frame(Kind.ANSI, "'"))
            return at + 2
        else:
            return self._expansion(text, at)
        return at + 1

    def _arithmetic(self, text: str, at: int) -> int:
        if text[at] == ")":
            self._frames.pop()
            return at + 1
        return self._expansion(text, at)

    def _double(self, text: str, at: int) -> int:
        if text[at] == '"':
            self._frames.pop()
            self._is_word = True
            return at + 1
        return at + 1 if text[at] == "(" else self._expansion(text, at)

    def _expansion(self, text: str, at: int) -> int:
        """What begins something in the open and within double quotes alike."""
        char = text[at]
        if char == "\\":
            self.is_escaped = True
        elif char == "`":
            self._push(Kind.OPEN, "`")
        elif text.startswith("((", at) or text.startswith("$((", at):
            self._push(Kind.ARITHMETIC, ")")
            self._push(Kind.ARITHMETIC, ")")
            return text.index("((", at) + 2
        elif text.startswith("$(", at):
            self._push(Kind.OPEN, ")")
            return at + 2
        elif char == "(":
            self._push(self.kind, ")")
        elif char == '"':
            self._push(Kind.DOUBLE, '"')
        return at + 1

    def _push(self, kind: Kind, end: str) -> None:
        self._frames.append(_Frame(kind, end))
        self._is_word = kind is Kind.DOUBLE

    def _quoted(self, text: str, at: int) -> int:
        if text[at] == "'":
            self._frames.pop()
            self._is_word = True
        elif text[at] == "\\" and self.kind is Kind.ANSI:
            self.is_escaped = True
        return at + 1

    def _comment(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        self._frames.pop()
        return end

    def _here(self, text: str, at: int) -> int:
        found = _DELIMITER.match(text, at)
        if found is None:
            return at
        word = re.sub(r"\\(.)|['\"]", r"\1", found[2])
        kind = Kind.HERE if word == found[2] else Kind.HERE_AS_IS
        self._documents.append(_Frame(kind, word, bool(found[1])))
        return found.end()

    def _document(self, text: str, at: int) -> int:
        end = text.find("\n", at)
        self._line += text[at:] if end < 0 else text[at:end]
        if end < 0:
            return len(text)
        frame = self._frames[-1]
        if (self._line.lstrip("\t") if frame.strips_tabs else self._line) == frame.end:
            self._frames.pop()
            self._is_word = False
        self._line = ""
        return end + 1


_STEPS: dict[Kind, Callable[[Scanner, str, int], int]] = {
    Kind.OPEN: Scanner._open,
    Kind.ARITHMETIC: Scanner._arithmetic,
    Kind.DOUBLE: Scanner._double,
    Kind.SINGLE: Scanner._quoted,
    Kind.ANSI: Scanner._quoted,
    Kind.COMMENT: Scanner._comment,
    Kind.HERE: Scanner._document,
    Kind.HERE_AS_IS: Scanner._document,
}


def _escaping(characters: str) -> Quote:
    table = {ord(char): f"\\{char}" for char in characters}
    return lambda text: text.translate(table)


_BEHIND = _escaping("\\$`")
_ODD = re.compile(rb"[^A-Za-z0-9_./-]")


def _behind_backslashes(quote: Quote) -> Quote:
    """Backticks take away a layer of backslashes before what is in them is looked at."""
    return lambda text: _BEHIND(quote(text))


def _in_octal(before: str, after: str) -> Quote:
    """Within $'…', with no character that could mean anything on the way there."""

    def quote(text: str) -> str:
        raw = text.encode("utf-8", "surrogateescape")
        if text and not _ODD.search(raw):
            return text
        return before + _ODD.sub(lambda found: rb"\%03o" % found[0][0], raw).decode() + after

    return quote


#: In backticks, in which bash itself loses its way: ``"`echo '"{<('`"`` is an error.
_IN_BACKTICKS: dict[Kind, Quote] = {
    Kind.OPEN: _in_octal("$'", "'"),
    Kind.ARITHMETIC: _in_octal("$'", "'"),
    Kind.DOUBLE: _in_octal("\"$'", "'\""),
    Kind.SINGLE: _in_octal("'$'", "''"),
    Kind.ANSI: _in_octal("", ""),
}

#: How a value is written in each of them. Several have a space between them everywhere.
_QUOTES: dict[Kind, Quote] = {
    Kind.OPEN: shlex.quote,
    Kind.ARITHMETIC: shlex.quote,
    Kind.DOUBLE: _escaping('\\"$`'),
    Kind.SINGLE: lambda text: text.replace("'", "'\\''"),
    Kind.ANSI: _escaping("\\'"),
    Kind.COMMENT: lambda text: text.replace("\n", " "),
    Kind.HERE: _escaping("\\$`"),
    Kind.HERE_AS_IS: str,
}
