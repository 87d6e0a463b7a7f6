"""What is wrong with a file: each with its place and what to write instead, all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe.file import Spot

_MOST_SHOWN = 20
_LONGEST = 40  # of what is quoted from a file


def place(name: str, spot: Spot) -> str:
    return f"{shown(name, whole=True)}:{spot.line}:{spot.column}"


def problem(where: str, what: str, instead: str) -> InvalidInput:
    """`where` is a `place`."""
    return InvalidInput(f"{where}: {what}", hint=instead)


def together(problems: Sequence[InvalidInput]) -> InvalidInput:
    """All of them as one error, each once; the first ones in full."""
    each = {error.message: error for error in problems}
    if len(each) == 1:
        return problems[0]
    lines = [f"{error.message}; {error.hint}" for error in each.values()]
    if len(lines) > _MOST_SHOWN:
        lines[_MOST_SHOWN:] = [f"… and {len(lines) - _MOST_SHOWN} more"]
    return InvalidInput("\n".join(lines), hint="nothing was started; correct these lines first")


def shown(text: str, *, whole: bool = False) -> str:
    """Text of a file as a message may hold it: short, and on one line."""
    text = text if whole or len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return text if text.isprintable() else repr(text)[1:-1]
