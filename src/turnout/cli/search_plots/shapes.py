"""What a picture is made of. Places are in pixels from the upper left corner; what comes later lies above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

INK, PALE, GRID = "#222222", "#888888", "#e4e4e4"
NO_RESULT = "no result"
#: Of runs by state; shapes differ, too, for colours do not for everybody.
COLOURS = {
    "completed": "#2b6cb0", "stopped": "#dd8a00", "failed": "#c53030", "cancelled": "#777777", "imported": "#6b46c1",
    "running": "#2f9e8f", "finishing": "#2f9e8f", NO_RESULT: "#999999",
}  # fmt: skip
MARKS = {
    "completed": "circle", "stopped": "diamond", "failed": "cross", "cancelled": "cross", "imported": "square",
    "running": "ring", "finishing": "ring", NO_RESULT: "cross",
}  # fmt: skip
#: From light to dark, even in brightness: the viridis map of matplotlib, which its authors gave to everybody.
_RAMP = ("#fde725", "#b5de2b", "#6ece58", "#35b779", "#1f9e89", "#26828e", "#31688e", "#3e4989", "#482878", "#440154")
_WIDE = 0.6  # of a character, in sizes of the font


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """`told` is shown to who points at it, here and below."""

    points: Sequence[tuple[float, float]]
    colour: str = INK
    width: float = 1.0
    opacity: float = 1.0
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """`mark`: circle, ring, square, diamond or cross."""

    x: float
    y: float
    mark: str = "circle"
    colour: str = INK
    size: float = 4.0
    opacity: float = 1.0
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    x: float
    y: float
    width: float
    height: float
    colour: str = INK
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`anchor`: which end of the text is at the place, start, middle or end. `turned`: it reads from below."""

    x: float
    y: float
    text: str
    size: float = 12.0
    colour: str = INK
    anchor: str = "start"
    is_bold: bool = False
    turned: bool = False


Shape = Line | Dot | Box | Words


@dataclass(slots=True)
class Picture:
    """`title` is what it shows, for who cannot see it."""

    width: float
    height: float
    title: str
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        self.shapes += shapes


def shade(share: float) -> str:
    """A colour for 0 (light) to 1 (dark)."""
    place = min(max(share, 0.0), 1.0) * (len(_RAMP) - 1)
    below = min(int(place), len(_RAMP) - 2)
    above = place - below
    parts = [[int(_RAMP[index][at : at + 2], 16) for at in (1, 3, 5)] for index in (below, below + 1)]
    return "#" + "".join(f"{round(one * (1 - above) + other * above):02x}" for one, other in zip(*parts, strict=True))


def width_of(text: str, size: float = 12.0) -> float:
    """About how wide it is; rather too much."""
    return len(text) * size * _WIDE


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
