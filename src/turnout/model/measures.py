"""Sizes and spans of time as people write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?(?:[eE]\+?[0-9]{1,2})?|\.[0-9]+)\s*([smhd]?)", re.ASCII)
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?", re.ASCII)
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_size(text: str) -> int:
    """Bytes: ``500M``, ``4G``, ``4GiB``, ``1024``. ValueError for what is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size")
    return int(float(found[1]) * _BYTES[found[2].upper()])


def parse_seconds(text: str) -> float:
    """``90s``, ``15m``, ``2h``, ``90``, ``1:30:00``, ``1-12:00:00``. ValueError for what is none."""
    text = text.strip()
    if found := _SPAN.fullmatch(text):
        return float(found[1]) * _SECONDS[found[2]]
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        raise ValueError(f"{text!r} is not a time")
    days, first, second, third = (int(part or 0) for part in clock.groups())
    whole = first * 3600 + second * 60 + third if clock[4] is not None else first * 60 + second
    return float(days * 86400 + whole)


def scaled(count: float, step: int, units: Sequence[str]) -> str:
    """A number with the largest of the units, each `step` times the one before, that leaves it above one."""
    power = 0
    while count >= step and power < len(units) - 1:
        count /= step
        power += 1
    return f"{count:.0f} {units[power]}" if power == 0 or count >= 100 else f"{count:.1f} {units[power]}"


def write_size(count: int) -> str:
    """``64G``, ``23.5G``, ``512M``, ``17 bytes``."""
    for letter in "TGMK":
        if count >= _BYTES[letter]:
            return f"{count / _BYTES[letter]:.1f}".removesuffix(".0") + letter
    return f"{count} bytes"


def span(seconds: float | None) -> str:
    """``1.5 s``, ``12 min``, ``3 h``, ``2 d``; nothing of None."""
    if seconds is None:
        return ""
    for limit, unit, size in ((120.0, "s", 1.0), (7200.0, "min", 60.0), (172800.0, "h", 3600.0)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}" if unit == "s" else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
