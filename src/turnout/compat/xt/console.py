"""Where an XT backend shows things: ``console.print(…)``. What it says is what ``turnout status`` shows."""

from __future__ import annotations

import builtins

__all__ = ["print"]


def print(*args: object, sep: str = " ", end: str = "\n", flush: bool = True) -> None:
    """As Python's own, at once."""
    builtins.print(*args, sep=sep, end=end, flush=flush)
