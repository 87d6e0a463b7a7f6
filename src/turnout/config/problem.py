"""What is wrong with settings: said for all of them at once, each with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnout.errors import InvalidInput

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` is ``file:line``, a variable or an option; `instead` is what to write or type."""

    where: str
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.instead}"


def as_error(problems: Sequence[Problem]) -> InvalidInput:
    """All of them as one error; the first ones in full."""
    if len(problems) == 1:
        (only,) = problems
        return InvalidInput(f"{only.where}: {only.what}", hint=only.instead)
    lines = [str(problem) for problem in problems[:_MOST_SHOWN]]
    if len(problems) > _MOST_SHOWN:
        lines.append(f"… and {len(problems) - _MOST_SHOWN} more")
    return InvalidInput("\n".join(lines), hint="`turnout config check` lists them all")
