"""Pictures as PNG or PDF, by matplotlib."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli.search_plots.shapes import Box, Dot, Line, Picture, Shape, Words
from turnout.errors import InvalidInput

_PER_INCH = 100.0  # pixels of a picture
_POINT = 72.0 / _PER_INCH  # of text and lines, for each of these
_DPI = 160
_MARKERS = {"circle": "o", "ring": "o", "square": "s", "diamond": "D", "cross": "x"}
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def save(picture: Picture, path: Path) -> None:
    """InvalidInput with the command to type where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        hint = "pip install 'turnout[plot]'; -o FILE.svg and FILE.html need nothing"
        raise InvalidInput(f"{path.suffix} needs matplotlib", hint=hint) from error
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(picture.width / _PER_INCH, picture.height / _PER_INCH), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    axes.axis("off")
    for order, (_, group) in enumerate(groupby(picture.shapes, _kind), 1):
        _draw(axes, list(group), order)
    figure.savefig(path, dpi=_DPI, metadata={"Title": picture.title})


def _kind(shape: Shape) -> tuple[type[Shape], str]:
    """What is drawn in one go."""
    return type(shape), shape.mark if isinstance(shape, Dot) else ""


def _draw(axes: Any, shapes: list[Any], order: int) -> None:
    if isinstance(shapes[0], Line):
        _draw_lines(axes, shapes, order)
    elif isinstance(shapes[0], Dot):
        _draw_dots(axes, shapes, order)
    elif isinstance(shapes[0], Box):
        _draw_boxes(axes, shapes, order)
    else:
        for words in shapes:
            _draw_words(axes, words, order)


def _draw_lines(axes: Any, shapes: list[Line], order: int) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    colours = [to_rgba(shape.colour, shape.opacity) for shape in shapes]
    widths = [shape.width * _POINT for shape in shapes]
    points = [list(shape.points) for shape in shapes]
    axes.add_collection(LineCollection(points, colors=colours, linewidths=widths, zorder=order), autolim=False)


def _draw_dots(axes: Any, shapes: list[Dot], order: int) -> None:
    from matplotlib.colors import to_rgba

    colours = [to_rgba(shape.colour, shape.opacity) for shape in shapes]
    mark = shapes[0].mark
    sizes = [(2 * shape.size * _POINT) ** 2 for shape in shapes]
    style: dict[str, Any] = {"color": colours, "linewidths": 0}
    if mark == "ring":
        style = {"facecolors": "white", "edgecolors": colours, "linewidths": 1.2}
    elif mark == "cross":
        style = {"color": colours, "linewidths": 1.3}
    x, y = [shape.x for shape in shapes], [shape.y for shape in shapes]
    axes.scatter(x, y, s=sizes, marker=_MARKERS[mark], zorder=order, **style)


def _draw_boxes(axes: Any, shapes: list[Box], order: int) -> None:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    patches = [Rectangle((shape.x, shape.y), shape.width, shape.height) for shape in shapes]
    colours = [shape.colour for shape in shapes]
    fields = PatchCollection(patches, facecolors=colours, edgecolors="none", antialiased=False, zorder=order)
    axes.add_collection(fields, autolim=False)


def _draw_words(axes: Any, words: Words, order: int) -> None:
    axes.text(
        words.x, words.y, render.harmless(words.text), parse_math=False, fontsize=words.size * _POINT,
        color=words.colour,
        ha="center" if words.turned else _ANCHORS[words.anchor], va="center", rotation=90 if words.turned else 0,
        fontweight="bold" if words.is_bold else "normal", zorder=order,
    )  # fmt: skip
