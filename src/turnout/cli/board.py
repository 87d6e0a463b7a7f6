"""The steps of a pipeline as it goes on: a line for each, drawn anew in a terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from turnout.cli import render
from turnout.model.measures import span
from turnout.model.state import ON_NODE

View = Mapping[str, Any]
_BAR = 20
_COUNT = 7
_LEAST_LINES = 4
_LEAST_NAME = 8
_MARKS = {"failed": "31", "completed": "32", "running": "36"}  # the first that is so
_WORDS = 16


class Board:
    """On the standard error, which has to be a terminal."""

    def __init__(self) -> None:
        self._lines = 0

    def show(self, view: View, seconds: float) -> None:
        """`view` is the job of the pipeline."""
        size = shutil.get_terminal_size()
        head = f"{view['name']}  {view['done']}/{view['runs']} runs  {span(seconds)}"
        columns = size.columns - 1  # a line that were wider would be two, and more than go back
        lines = [_cut(head, columns), *_rows(view["steps"], max(_LEAST_LINES, size.lines - 3), columns)]
        text = "".join(f"{line}\x1b[K\n" for line in lines)
        sys.stderr.write(self._back() + text + "\x1b[J")
        sys.stderr.flush()
        self._lines = len(lines)

    def clear(self) -> None:
        """It goes."""
        sys.stderr.write(self._back() + ("\x1b[J" if self._lines else ""))
        sys.stderr.flush()
        self._lines = 0

    def _back(self) -> str:
        return f"\x1b[{self._lines}A\r" if self._lines else ""


def _rows(steps: Sequence[View], most: int, columns: int) -> list[str]:
    """Where there are more than there is room for, those that go on, and then those that come next."""
    names = max(render.width(step["name"]) for step in steps)
    shown = list(steps)
    if len(shown) > most:
        ordered = sorted(range(len(steps)), key=lambda at: (_order(steps[at]), at))
        shown = [steps[at] for at in sorted(ordered[: most - 1])]
    rows = [_row(step, steps, names, columns) for step in shown]
    if len(steps) > len(shown):
        over = sum(_is_over(step) for step in steps)
        more = f"  … and {len(steps) - len(shown)} more steps; {over} of {len(steps)} are over"
        rows.append(_cut(more, columns))
    return rows


def _order(step: View) -> int:
    return 1 if _is_over(step) else 0 if _going(step) else 2


def _row(step: View, steps: Sequence[View], names: int, columns: int) -> str:
    """Where there is not room for all, its name is cut, then what it does, and then there is no bar."""
    runs = max(1, step["runs"])
    full = _BAR if step["done"] >= runs and not step["is_late"] else int(_BAR * step["done"] / runs)
    count = f"{step['done']}/{step['runs'] if not step['is_late'] else '?'}"
    has_bar = columns >= _BAR + 2 * _COUNT + 8
    beside = 6 + max(_COUNT, len(count)) + (_BAR + 3 if has_bar else 0)
    names = max(1, min(names, max(_LEAST_NAME, columns - beside - _WORDS), columns - beside))
    name = _cut(step["name"], names)
    name += " " * (names - render.width(name))
    words = _cut(render.harmless(_words(step, steps)), columns - beside - names)
    bar = "#" * full + "." * (_BAR - full)
    colour = next((code for state, code in _MARKS.items() if _is(step, state)), None)
    if colour is not None and render.has_colour():
        bar = f"\x1b[{colour}m{bar}\x1b[0m"
    return f"  {name}  {f'[{bar}] ' if has_bar else ''}{count:>{_COUNT}}  {words}".rstrip()


def _cut(text: str, columns: int) -> str:
    if render.width(text) <= columns:
        return text
    while text and render.width(text) >= columns:
        text = text[:-1]
    return f"{text}…" if columns > 0 else ""


def _is(step: View, state: str) -> bool:
    if state == "failed":
        return bool(step["counts"].get("failed"))
    return _is_over(step) if state == "completed" else _going(step)


def _is_over(step: View) -> bool:
    return not step["live"] and not step["is_late"]


def _going(step: View) -> bool:
    return any(step["counts"].get(state) for state in (*ON_NODE, "queued"))


def _words(step: View, steps: Sequence[View]) -> str:
    """What is not well, what goes on, or whom it waits for."""
    told = [f"{count} {state}" for state, count in step["counts"].items() if state not in ("completed", "created")]
    if told:
        return ", ".join(told)
    open_ones = {each["name"] for each in steps if not _is_over(each)}
    waits = [name for name in step["needs"] if name in open_ones]
    return f"after {', '.join(waits)}" if waits and not _is_over(step) else ""
