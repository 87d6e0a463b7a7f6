"""Errors that point at the place."""

from __future__ import annotations

from turnout.errors import InvalidInput

_SHOWN = 72
_QUOTED = 64


def problem(what: str, text: str, start: int, end: int, message: str, hint: str = "") -> InvalidInput:
    """An InvalidInput about ``text[start:end]``, with the line and a caret under it.

    The line is cut to a window around the place. No control character of the text is repeated: it may go to a terminal.
    """
    left = max(0, min(start - _SHOWN // 2, len(text) - _SHOWN))
    window = text[left : left + _SHOWN]
    width = max(1, min(end, left + len(window)) - start)
    caret = " " * (start - left) + "^" * width
    return InvalidInput(
        f"{what}, column {start + 1}: {_printable(message)}\n  {_printable(window)}\n  {caret}", hint=_printable(hint)
    )


def shown(text: str) -> str:
    """A piece of the user's text, quoted and not too long."""
    return repr(text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…")


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
