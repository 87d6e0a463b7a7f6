"""The grammar of one statement: a command, a file or a path. They are read one by one, so each can have its error."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

# Blanks between the names of a pattern belong to its signs: outside of patterns, every blank is text. A backslash
# takes the meaning of the brace behind it, and stays: shells, sed and grep want it there.
_GRAMMAR = r"""
command: (TEXT | DOUBLE | variable | output | inputs)*

variable: VARIABLE _inner* END
_inner: INNER | nested
nested: (VARIABLE | BRACE) _inner* END

output: _OPEN OUTPUT _CLOSE
inputs: _OPEN group (_OR group)* each? _CLOSE
group: ITEM (_AND ITEM)* _AND?
each: _OR

TEXT: /(?:[^\\{}$]+|\\.|\\\Z|\$(?!\{))+/s
DOUBLE: "{{" | "}}"
VARIABLE: "${"
INNER: /(?:[^\\{}$]+|\\.|\\\Z|\$(?!\{))+/s
BRACE: "{"
END: "}"

_OPEN: /\{(?!\{)(?:\s|\\\n)*/
_CLOSE: /(?:\s|\\\n)*\}/
_AND: /(?:\s|\\\n)*,(?:\s|\\\n)*|(?:\s|\\\n)+(?=[\w.*?:\/+@%=~^!\[\]-])/
_OR: /(?:\s|\\\n)*\|\|(?:\s|\\\n)*/
OUTPUT.2: /[oO](?:[.:][\w.*?:\/+@%=~^!\[\]-]*)?(?![\w.*?:\/+@%=~^!\[\]-])/
ITEM: /[\w.*?:\/+@%=~^!\[\]-]+/

file: ALIAS _DOT VALUE
path: WORD _BLANKS VALUE

ALIAS: /[A-Za-z0-9]+/
_DOT: /\.\s+/
WORD: /[^\s{}]+/
_BLANKS: /\s+/
VALUE: /\S.*/s
"""

#: What may follow, in words, in the order in which they are said.
_PHRASES = {
    "ITEM": "a file",
    "OUTPUT": "o",
    "_AND": "a comma",
    "_OR": "||",
    "_CLOSE": "}",
    "END": "}",
    "DOUBLE": "}}",
    "ALIAS": "an alias of letters and digits",
    "_DOT": "a dot and a blank",
    "WORD": "a word without braces",
    "_BLANKS": "a blank and a path",
    "VALUE": "a path",
}


class Inside(Enum):
    """Where a command stops making sense."""

    TEXT = "text"
    VARIABLE = "variable"
    OUTPUT = "output"
    PATTERN = "pattern"


class Unexpected(Exception):
    """At `at` (the length of the text: at its end) there is not what was `expected`, said in words."""

    def __init__(self, at: int, expected: str, inside: Inside) -> None:
        super().__init__(at, expected)
        self.at = at
        self.expected = expected
        self.inside = inside


def tree_of(text: str, start: str) -> Tree[Token]:
    """`text` as a ``command``, ``file`` or ``path``. Raises `Unexpected`."""
    try:
        return _parser().parse(text, start=start)
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None


@cache
def _parser() -> Lark:
    starts = ["command", "file", "path"]
    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", start=starts, propagate_positions=True)


def _unexpected(text: str, error: UnexpectedInput) -> Unexpected:
    is_over = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    at = len(text) if is_over else cast(int, error.pos_in_stream)
    while text[at : at + 1].isspace() or text.startswith("\\\n", at):
        at += 1
    allowed: set[str] = getattr(error, "expected", None) or getattr(error, "allowed", None) or set()
    phrases = [phrase for name, phrase in _PHRASES.items() if name in allowed]
    expected = " or ".join([", ".join(phrases[:-1]), phrases[-1]] if phrases[1:] else phrases)
    return Unexpected(at, expected, _inside(allowed))


def _inside(allowed: set[str]) -> Inside:
    if "TEXT" in allowed:
        return Inside.TEXT
    if "END" in allowed:
        return Inside.VARIABLE
    return Inside.OUTPUT if allowed == {"_CLOSE"} else Inside.PATTERN
