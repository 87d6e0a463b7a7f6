"""What the agent says to ``agent.log``, its standard error."""

from __future__ import annotations

import sys
import time
import traceback


def say(text: str) -> None:
    """One line. A full disk must not end the agent, so nothing is raised."""
    try:
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass


def say_error(what: str) -> None:
    """The same, with the exception that is being handled."""
    say(f"{what}\n{traceback.format_exc()}")
