"""Errors that point at the place."""

from __future__ import annotations

from collections.abc import Iterable

from turnout.errors import InvalidInput

_SHOWN = 72
_COMPARED = 64


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
    return repr(text if len(text) <= _COMPARED else text[: _COMPARED - 1] + "…")


def nearest(written: str, known: Iterable[str]) -> str | None:
    """The known name that is most like what was written, if one is."""
    import difflib  # only who errs pays for it

    close = difflib.get_close_matches(written[:_COMPARED].lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
