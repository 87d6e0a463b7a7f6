"""How things look in a terminal: tables, colours only where they belong, text of others made harmless."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from turnout.model.measures import span as span

#: Control characters could move the cursor, change the title or the clipboard. Names and values come from anywhere.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: What JSON lets stand in a string although terminals act on it, and surrogates, which are no text at all.
_JSON_LEAVES = re.compile(r"[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COLOURS = {
    "completed": "32", "failed": "31", "cancelled": "33", "stopped": "33", "running": "36", "starting": "36",
    "finishing": "36", "queued": "34", "problem": "31", "warning": "33", "ok": "32",
}  # fmt: skip
_NARROWEST = 20  # of a column that wraps
#: What became of a run that was to be cancelled.
OUTCOMES = {
    "cancelled": "cancelled", "requested": "is being ended", "over": "was over already",
    "elsewhere": "was ended by its service",
}  # fmt: skip


def harmless(value: object) -> str:
    """Text as one line that does nothing to a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(value)).replace("\n", " ").replace("\t", " ")


def has_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def coloured(text: str, key: str) -> str:
    code = _COLOURS.get(key)
    return f"\x1b[{code}m{text}\x1b[0m" if code and has_colour() else text


def print_json(value: object) -> None:
    text = json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False)
    text = _JSON_LEAVES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    sys.stdout.write(text + "\n")


def complain(message: str, hint: str = "") -> None:
    red, end = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    first, *more = (harmless(line) for line in message.split("\n"))
    hints = [f"  {harmless(line)}" for line in hint.split("\n") if line]
    print("\n".join([f"{red}turnout: {first}{end}", *more, *hints]), file=sys.stderr)


def table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, right: frozenset[int] = frozenset(), state: int = -1,
    wraps: bool = False,
) -> None:  # fmt: skip
    """Aligned columns; the widest text columns are cut when the terminal is too narrow, never when piped. With `wraps`,
    none is: the last column goes on below itself."""
    headers = [harmless(header) for header in headers]
    cells = [[harmless("" if cell is None else cell) for cell in row] for row in rows]
    widths = [max([width(header), *(width(row[i]) for row in cells)]) for i, header in enumerate(headers)]
    if sys.stdout.isatty() and wraps:
        room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(room, _NARROWEST))
        cells = [line for row in cells for line in _wrapped(row, widths[-1])]
    elif sys.stdout.isatty():
        _shrink(widths, shutil.get_terminal_size().columns)
    aligned(headers, cells, widths, right=right, state=state)


def aligned(
    headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], *, right: frozenset[int], state: int
) -> None:
    """Prints harmless cells in columns of these widths; what is wider is cut. `state` is the column with colours."""
    for number, row in enumerate([headers, *rows]):
        fitting = [_fit(cell, wanted) for cell, wanted in zip(row, widths, strict=True)]
        cells = [_pad(cell, wanted, i in right) for i, (cell, wanted) in enumerate(zip(fitting, widths, strict=True))]
        if number and 0 <= state < len(row):
            cells[state] = cells[state].replace(fitting[state], coloured(fitting[state], row[state]), 1)
        print("  ".join(cells).rstrip())


def width(text: str) -> int:
    """How many columns of a terminal it takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def _pad(cell: str, wanted: int, to_right: bool) -> str:
    space = " " * (wanted - width(cell))
    return space + cell if to_right else cell + space


def _fit(cell: str, wanted: int) -> str:
    if width(cell) <= wanted:
        return cell
    while cell and width(cell) > wanted - 1:
        cell = cell[:-1]
    return cell + "…"


def _wrapped(row: list[str], wanted: int) -> list[list[str]]:
    """The row as lines whose last cell is not wider than that; the other cells stand in the first of them."""
    lines = [""]
    for word in row[-1].split(" "):
        if lines[-1] and width(lines[-1]) + 1 + width(word) > wanted:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
        while width(lines[-1]) > wanted:  # a word that is longer than a line
            most = next(end for end in range(len(lines[-1]), 0, -1) if end == 1 or width(lines[-1][:end]) <= wanted)
            lines[-1:] = [lines[-1][:most], lines[-1][most:]]
    return [[*(row[:-1] if not number else [""] * (len(row) - 1)), line] for number, line in enumerate(lines)]


def _shrink(widths: list[int], total: int) -> None:
    while sum(widths) + 2 * (len(widths) - 1) > total and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1


def count(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def ago(text: str | None) -> str:
    """How long ago a moment was, as people say it."""
    if text is None:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()
    return f"{span(max(0, int(seconds)))} ago"


def shown(value: Any, spec: str = "") -> str:
    if value is None:
        return ""
    if spec:
        try:
            return format(value, spec)
        except (ValueError, TypeError):
            return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}={shown(each)}" for name, each in value.items())
    if isinstance(value, list):
        from turnout.client.plan_text import command_line

        return command_line(value) if all(isinstance(part, str) for part in value) else json.dumps(value)
    return str(value)
