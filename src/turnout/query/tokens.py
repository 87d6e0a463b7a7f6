"""The text of a filter as words, strings and signs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from turnout.query.problem import problem

MAX_LENGTH = 4096


class Shape(Enum):
    WORD = auto()  # a column, a keyword or an unquoted value
    STRING = auto()  # `text` is what stood between the quotes
    SIGN = auto()  # an operator, a parenthesis, a comma, or XT's :exists:
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    shape: Shape
    text: str
    start: int
    end: int


# A colon may stand inside a word (a time of day), unless it begins XT's way to write an operator, ``:exists:``.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<word>(?:[\w./@+*?%$-]|(?<=\w):(?![a-z]+:)(?=\w))+)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sign>:[a-z]+:|<=|>=|<>|!=|!~|==|[=<>~(),])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def tokenize(text: str, what: str) -> list[Token]:
    """All tokens of `text` and an END. Raises InvalidInput for what is too long, or no part of the language."""
    check_text(text, what)
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unreadable(text, position, what)
        start, position = position, found.end()
        if found["word"] is not None:
            tokens.append(Token(Shape.WORD, found["word"], start, position))
        elif found["string"] is not None:
            tokens.append(Token(Shape.STRING, _ESCAPED.sub(r"\1", found["string"][1:-1]), start, position))
        elif found["sign"] is not None:
            tokens.append(Token(Shape.SIGN, found["sign"], start, position))
    tokens.append(Token(Shape.END, "", len(text), len(text)))
    return tokens


def check_text(text: str, what: str) -> None:
    """Raises InvalidInput for text that is too long, or that no database could be asked for."""
    if len(text) > MAX_LENGTH:
        shown = text[:MAX_LENGTH]
        raise problem(what, shown, MAX_LENGTH - 1, MAX_LENGTH, f"longer than {MAX_LENGTH} characters", "ask for less")
    for position, character in enumerate(text):
        if character == "\0" or "\ud800" <= character <= "\udfff":
            message = f"the character {character!r} is not text"
            raise problem(what, text, position, position + 1, message, "leave it out")


def _unreadable(text: str, position: int, what: str) -> Exception:
    character = text[position]
    if character in "\"'":
        return problem(what, text, position, len(text), "the quote is not closed", f"end it with {character}")
    hints = {"!": "write `not`, `!=` or `!~`", "&": "write `and`", "|": "write `or`", ":": "write = or exists"}
    hint = hints.get(character, "put text with unusual characters in quotes")
    return problem(what, text, position, position + 1, f"{character!r} is not expected here", hint)
