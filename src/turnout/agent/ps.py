"""The process table by way of ``ps``, for systems without ``/proc`` (macOS)."""

from __future__ import annotations

import os
import subprocess
import time
from typing import List, NamedTuple


class Row(NamedTuple):
    """One process. `start` is in whole seconds of wall time, `memory` the resident set in bytes."""

    pid: int
    parent: int
    group: int
    memory: int
    state: str
    start: int


def rows(*which: str) -> List[Row]:
    """The processes that ``ps`` selects by these options (``-A``, ``-p PID``). None selected is an empty list."""
    command = ["ps", *which, "-o", "pid=,ppid=,pgid=,rss=,stat=,lstart="]
    output = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"}).stdout
    return [_row(line) for line in output.decode(errors="replace").splitlines()]


def boot_id() -> str:
    """macOS's name for the time since its last boot."""
    command = ["sysctl", "-n", "kern.bootsessionuuid"]
    return subprocess.run(command, stdout=subprocess.PIPE).stdout.decode().strip()


def _row(line: str) -> Row:
    pid, parent, group, memory, state, began = line.split(None, 5)
    start = time.mktime(time.strptime(began.strip(), "%a %b %d %H:%M:%S %Y"))
    return Row(int(pid), int(parent), int(group), int(memory) * 1024, state[0], int(start))
