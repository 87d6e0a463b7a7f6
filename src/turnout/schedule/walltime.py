"""The time for which a site gives a node, and how much of it is for runs."""

from __future__ import annotations

#: Of that time, how much is kept back for the end; and not more seconds than that.
_SHARE, _MOST = 0.1, 300.0
#: Seconds that may go by between the begin of a node's time and that of its first run.
_START = 60.0


def usable(wall: float, drain: float | None) -> float:
    """How long a run may take that begins together with its node; `drain` is what is kept back, if somebody said it."""
    kept_back = min(_MOST, wall * _SHARE) if drain is None else drain
    return max(0.0, wall - kept_back)


def wall_for(seconds: float, drain: float | None) -> float:
    """The time to ask for, so that a run that may take so long has room when its node has begun."""
    taken = seconds + _START
    return min(taken / (1 - _SHARE), taken + _MOST) if drain is None else taken + drain
