"""How a job is: one answer, from its four."""

from __future__ import annotations

from enum import Enum
from typing import Any


class State(Enum):
    RUNNING = "running"
    QUEUED = "queued"
    ERROR = "error"
    COMPLETE = "complete"
    SILENT = "silent"
    """it says nothing of itself"""


#: In the order in which a job is asked; the first that is so counts. Many are complete when they are over, and in
#: error besides when their exit code was not 0.
_ASKED = {
    "is_running": State.RUNNING,
    "is_queued": State.QUEUED,
    "is_error": State.ERROR,
    "is_complete": State.COMPLETE,
}


def look(job: Any) -> State:
    """Each is asked once at most. Whatever they raise: then nothing is known."""
    return next((state for name, state in _ASKED.items() if getattr(job, name, _no)()), State.SILENT)


def _no() -> bool:
    return False
