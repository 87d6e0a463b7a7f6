"""A run is a process of the same user as its agent; that alone must not let it read what the agent knows."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def keep_memory_private() -> bool:
    """Closes this process's memory and ``/proc/PID/environ`` to other processes of this user, and to core dumps.

    Children have it too until they execute something. False where that cannot be had (only Linux has it).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes

        return int(ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0
    except (ImportError, AttributeError, OSError):
        return False
