"""Why a worker is no more."""

from __future__ import annotations

import signal


def describe(code: int, ooms: int) -> str:
    """By its exit code, as `subprocess` tells it, and how many processes the kernel killed for lack of memory since the
    worker began."""
    if code >= 0:
        return f"the process that made the call ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    said = f"the process that made the call was killed by {name}"
    if -code == signal.SIGKILL and ooms:
        said += ": this machine ran out of memory"
    return said


def ooms() -> int:
    """How many processes the kernel of this machine has killed for lack of memory, so far."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def resident(pid: int) -> int:
    """Bytes of memory that a process has; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


_PAGE = 4096
