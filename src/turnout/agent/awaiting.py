"""Waiting for a program that leads a group of its own, for as long as anybody wants what it makes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Callable, Optional

from turnout.agent.cache import Abandoned

_PAUSE = 0.05


def wait_for(child: "subprocess.Popen[bytes]", seconds: float, is_wanted: Callable[[], bool]) -> Optional[int]:
    """Its exit code; None when it took longer than so many seconds. Abandoned when it is not wanted any more. In both
    cases all of its group is killed."""
    deadline = time.monotonic() + seconds
    while child.poll() is None:
        is_late = time.monotonic() > deadline
        if is_late or not is_wanted():
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if is_late:
                return None
            raise Abandoned("what it makes is not wanted any more")
        time.sleep(_PAUSE)
    return int(child.returncode)
