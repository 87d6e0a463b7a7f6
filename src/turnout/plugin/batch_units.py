"""Times, sizes and exits as schedulers write them."""

from __future__ import annotations

from typing import Optional, Tuple

_WARNING = 120


def wait_status(status: int) -> Tuple[Optional[int], str]:
    """Exit code and reason, of a status as wait(2) has it."""
    if status & 0x7F:
        return None, "signal"
    return status >> 8, "exit_code" if status >> 8 else ""


def warning(seconds: Optional[float]) -> int:
    """How many seconds before the end of its time an agent is told to give back its runs."""
    return int(min(_WARNING, seconds / 20)) if seconds else _WARNING


def clock(seconds: float) -> str:
    """As hours:minutes:seconds, rounded up to a minute, for that is what schedulers count in."""
    minutes = max(1, -int(-seconds // 60))
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def megabytes(memory: int) -> int:
    """Rounded up, of 1024 kilobytes of 1024 bytes."""
    return -(-memory // (1 << 20))
