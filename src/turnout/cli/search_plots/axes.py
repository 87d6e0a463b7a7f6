"""What the plots of a search share: frames, axes, legends, and what is told of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.cli.search_plots.contents import Point
from turnout.cli.search_plots.scales import Scale, text
from turnout.cli.search_plots.shapes import (
    COLOURS,
    GRID,
    MARKS,
    PALE,
    Box,
    Dot,
    Line,
    Picture,
    Words,
    shade,
    shortened,
    width_of,
)
from turnout.model.search import Aim

WIDTH = 960.0
SMALL = 11.0
#: Into how many colours results are divided.
LEVELS = 14

_TITLE = 15.0
_MOST_TOLD = 20  # parameters, to who points at a run


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the axes are."""

    left: float
    top: float
    right: float
    bottom: float

    def x(self, share: float) -> float:
        return self.left + share * (self.right - self.left)

    def y(self, share: float) -> float:
        return self.bottom - share * (self.bottom - self.top)


def title(picture: Picture, words: str, top: float) -> None:
    picture.add(Words(x=24, y=top + 24, text=shortened(words, 100), size=_TITLE, is_bold=True))


def padded(function: Callable[[Any], float], pad: float) -> Callable[[Any], float]:
    """So that what is at the ends does not lie on the frame."""
    return lambda value: pad + function(value) * (1 - 2 * pad)


def room_for(scale: Scale) -> float:
    """What is needed on the left."""
    return 52 + max((width_of(label, SMALL) for _, label in scale.ticks(8)), default=0.0)


def axis_up(picture: Picture, frame: Frame, scale: Scale, name: str, *, grid: bool = True, pad: float = 0.0) -> None:
    picture.add(Line(points=[(frame.left, frame.top), (frame.left, frame.bottom)]))
    for share, label in scale.ticks(8):
        y = frame.y(padded(float, pad)(share))
        if grid:
            picture.add(Line(points=[(frame.left, y), (frame.right, y)], colour=GRID))
        picture.add(Line(points=[(frame.left - 5, y), (frame.left, y)]))
        picture.add(Words(x=frame.left - 9, y=y, text=label, size=SMALL, anchor="end"))
    picture.add(Words(x=20, y=frame.y(0.5), text=shortened(name, 40), anchor="middle", turned=True))


def axis_across(picture: Picture, frame: Frame, scale: Scale, name: str, *, pad: float = 0.0) -> None:
    picture.add(Line(points=[(frame.left, frame.bottom), (frame.right, frame.bottom)]))
    free = -1.0
    for share, label in scale.ticks(9):
        x = frame.x(padded(float, pad)(share))
        picture.add(Line(points=[(x, frame.bottom), (x, frame.bottom + 5)]))
        half = width_of(label, SMALL) / 2
        if x - half >= free:
            picture.add(Words(x=x, y=frame.bottom + 16, text=label, size=SMALL, anchor="middle"))
            free = x + half + 6
    picture.add(Words(x=frame.x(0.5), y=frame.bottom + 40, text=shortened(name, 60), anchor="middle"))


def legend(picture: Picture, entries: Sequence[str], x: float, y: float) -> None:
    for entry in entries:
        if entry == "best so far":
            picture.add(Line(points=[(x, y), (x + 16, y)], width=1.8))
            picture.add(Words(x=x + 22, y=y, text=entry, size=SMALL))
        else:
            x = legend_entry(picture, x, y, entry, MARKS.get(entry, "circle"), COLOURS.get(entry, PALE))


def legend_entry(picture: Picture, x: float, y: float, words: str, mark: str, colour: str) -> float:
    """Where the next one begins."""
    picture.add(Dot(x=x + 5, y=y, mark=mark, colour=colour, size=4.5))
    picture.add(Words(x=x + 16, y=y, text=words, size=SMALL))
    return x + 34 + width_of(words, SMALL)


def goodness(aim: Aim, results: Scale, value: float | None) -> float:
    """From 0, the worst, to 1."""
    share = results.share(value) or 0.0
    return 1 - share if aim.goal == "minimize" else share


def colour_bar(picture: Picture, aim: Aim, results: Scale, x: float, frame: Frame, *, is_named: bool = True) -> None:
    tall = (frame.bottom - frame.top) / LEVELS
    for index in range(LEVELS):
        share = index / (LEVELS - 1)
        colour = shade(1 - share if aim.goal == "minimize" else share)
        picture.add(Box(x=x, y=frame.bottom - tall * (index + 1), width=16, height=tall + 0.5, colour=colour))
    for share, label in results.ticks(8):
        picture.add(Words(x=x + 22, y=frame.y(share), text=label, size=SMALL))
    if is_named:
        picture.add(Words(x=x + 8, y=frame.top - 16, text=shortened(aim.metric, 14), size=SMALL, anchor="middle"))


def all_about(each: Point, aims: Sequence[Aim]) -> str:
    """All about a run, to who points at it."""
    results = [
        f"{aim.metric} = {text(value)}" for aim, value in zip(aims, each.values, strict=True) if value is not None
    ]
    params = [f"{name} = {shortened(text(value), 60)}" for name, value in list(each.params.items())[:_MOST_TOLD]]
    name = each.run if each.run == each.state else f"{each.run}, {each.state}"
    return "\n".join([name, *results, *params])
