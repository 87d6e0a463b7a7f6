"""Pictures as SVG, and as a page that needs nothing else: no network, no library."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from turnout.cli import render
from turnout.cli.search_plots.shapes import Box, Dot, Line, Picture, Shape, Words

_FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ margin: 1rem; background: #fff; }}
svg {{ max-width: 100%; height: auto; }}
[data-told]:hover {{ stroke: #000; stroke-width: 2.5px; stroke-opacity: 1; }}
#told {{ position: fixed; display: none; padding: .4em .6em; background: #222; color: #fff; border-radius: 4px;
  font: 12px {font}; white-space: pre; pointer-events: none; max-width: 60em; overflow: hidden; }}
</style></head><body>
{svg}
<div id="told"></div>
<script>
const box = document.getElementById("told");
document.addEventListener("mousemove", event => {{
  const told = event.target.getAttribute && event.target.getAttribute("data-told");
  box.style.display = told ? "block" : "none";
  if (!told) return;
  box.textContent = told;
  const right = event.clientX + 14 + box.offsetWidth, low = event.clientY + 14 + box.offsetHeight;
  box.style.left = (right < innerWidth ? event.clientX + 14 : event.clientX - 14 - box.offsetWidth) + "px";
  box.style.top = (low < innerHeight ? event.clientY + 14 : event.clientY - 14 - box.offsetHeight) + "px";
}});
</script></body></html>
"""


def as_svg(picture: Picture) -> str:
    """A file of its own; who points at something is told by the viewer."""
    return '<?xml version="1.0" encoding="utf-8"?>\n' + _svg(picture, _NAMESPACE, _titled)


def as_html(picture: Picture) -> str:
    return _PAGE.format(title=_text(picture.title), font=_FONT, svg=_svg(picture, "", _hovered))


#: Makes an element of its opening, without the end of it, and of what is told.
_Close = Callable[[str, str], str]


def _svg(picture: Picture, namespace: str, close: _Close) -> str:
    size = f'width="{picture.width:g}" height="{picture.height:g}" viewBox="0 0 {picture.width:g} {picture.height:g}"'
    title = _text(picture.title)
    lines = [
        f'<svg{namespace} {size} role="img" aria-label="{title}" font-family="{_FONT}">',
        f'<rect width="{picture.width:g}" height="{picture.height:g}" fill="#ffffff"/>',
        *(_WRITERS[type(shape)](shape, close) for shape in picture.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _titled(opening: str, told: str) -> str:
    return f"{opening}><title>{_lines(told)}</title></{opening[1:].split(' ', 1)[0]}>" if told else f"{opening}/>"


def _hovered(opening: str, told: str) -> str:
    return f'{opening} data-told="{_lines(told)}"/>' if told else f"{opening}/>"


def _line(shape: Line, close: _Close) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
    opening = f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="{shape.width:g}"'
    return close(opening + _opacity("stroke-opacity", shape.opacity), shape.told)


def _dot(shape: Dot, close: _Close) -> str:
    x, y, r = shape.x, shape.y, shape.size
    filled = f' fill="{shape.colour}"' + _opacity("fill-opacity", shape.opacity)
    drawn = f' fill="#ffffff" stroke="{shape.colour}" stroke-width="1.5"'
    if shape.mark == "circle":
        return close(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}"{filled}', shape.told)
    if shape.mark == "ring":
        return close(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}"{drawn}', shape.told)
    if shape.mark == "square":
        return close(f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r:g}" height="{2 * r:g}"{filled}', shape.told)
    if shape.mark == "diamond":
        half = r * 1.3
        path = f"M{x:.1f} {y - half:.1f}l{half:.1f} {half:.1f}l{-half:.1f} {half:.1f}l{-half:.1f} {-half:.1f}z"
        return close(f'<path d="{path}"{filled}', shape.told)
    path = f"M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}M{x + r:.1f} {y - r:.1f}l{-2 * r:g} {2 * r:g}"
    return close(f'<path d="{path}" fill="none" stroke="{shape.colour}" stroke-width="1.8"', shape.told)


def _box(shape: Box, close: _Close) -> str:
    place = f'x="{shape.x:.2f}" y="{shape.y:.2f}" width="{shape.width:.2f}" height="{shape.height:.2f}"'
    return close(f'<rect {place} fill="{shape.colour}" shape-rendering="crispEdges"', shape.told)


def _words(shape: Words, _close: _Close) -> str:
    turned = f' transform="rotate(-90 {shape.x:.1f} {shape.y:.1f})"' if shape.turned else ""
    bold = ' font-weight="bold"' if shape.is_bold else ""
    place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:g}" text-anchor="{shape.anchor}"'
    middle = ' dominant-baseline="central"'
    return f'<text {place} fill="{shape.colour}"{bold}{middle}{turned}>{_text(shape.text)}</text>'


_WRITERS: dict[type[Shape], Callable[[Any, _Close], str]] = {Line: _line, Dot: _dot, Box: _box, Words: _words}


def _opacity(name: str, opacity: float) -> str:
    return f' {name}="{opacity:.3g}"' if opacity < 1 else ""


def _text(text: str) -> str:
    return escape(render.harmless(text))


def _lines(text: str) -> str:
    return "&#10;".join(_text(line) for line in text.split("\n"))
