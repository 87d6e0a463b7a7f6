"""Names as they are typed: ``$lastrun``, and ``-`` for those that come through a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from turnout.errors import InvalidInput

_FROM_PIPE = ("-", "$")
_HEADERS = frozenset({"name", "run", "job", "run_name"})
_MARKS = ("run", "job", "$last", "@last")


def one(name: str) -> str:
    """The run or job that is meant by ``$lastrun`` or ``$lastjob``; any other name as it is."""
    if not name.startswith(("$", "@")):
        return name
    from turnout.client import Client

    return Client(start=False).stands_for(name)


def several(names: Sequence[str]) -> list[str]:
    """The same for many; ``-`` (or ``$``) stands for the first word of each line of stdin, headers apart."""
    found: list[str] = []
    for name in names:
        found += _from_pipe() if name in _FROM_PIPE else [one(name)]
    return found


def _from_pipe() -> list[str]:
    if sys.stdin.isatty():
        raise InvalidInput("- takes names from a pipe", hint="turnout list runs --names | turnout set tags - key=value")
    words = [line.replace(",", " ").split() for line in sys.stdin.read().splitlines()]
    found = [line[0] for line in words if line and line[0] not in _HEADERS]
    if not found:
        raise InvalidInput("no names came through the pipe", hint="nothing was done")
    return found


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names, and what comes behind them: all from the first ``key=value`` on; without one, from the first word on that
    does not look like a name of turnout's. The first is always a name."""
    for place, word in enumerate(words):
        if place and "=" in word:
            return list(words[:place]), list(words[place:])
    for place, word in enumerate(words):
        if place and word not in _FROM_PIPE and not word.startswith(_MARKS) and "*" not in word:
            return list(words[:place]), list(words[place:])
    return list(words), []
