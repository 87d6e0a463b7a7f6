"""The steps of a pipeline drawn: as text, for Graphviz, or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from turnout.client import plan_text
from turnout.pipeline.plan import Plan, StepPlan

_HIGH, _GAP_X, _GAP_Y, _MARGIN = 44, 60, 18, 16
_LETTER = 8  # how wide one is, about


class Node(NamedTuple):
    """A step, what is written under its name, and the steps that it waits for."""

    name: str
    below: str
    needs: tuple[str, ...]


def nodes_of(plan: Plan) -> list[Node]:
    return [Node(step.name, _below(step), tuple(plan_text.waits_for(step))) for step in plan.steps]


def draw(plan: Plan, kind: str) -> str:
    """`kind` is ``text``, ``dot`` or ``svg``."""
    return _KINDS[kind](nodes_of(plan))


def _below(step: StepPlan) -> str:
    if step.is_late:
        return "runs known later"
    return "1 run" if len(step.runs) == 1 else f"{len(step.runs)} runs"


def _text(nodes: Sequence[Node]) -> str:
    wide = max(len(node.name) for node in nodes)
    under = max(len(node.below) for node in nodes)
    lines = []
    for node in nodes:
        after = f"  after {', '.join(node.needs)}" if node.needs else ""
        lines.append(f"{node.name:<{wide}}  {node.below:<{under}}{after}".rstrip())
    return "\n".join(lines) + "\n"


def _dot(nodes: Sequence[Node]) -> str:
    lines = ["digraph pipeline {", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    lines += [f"  {_quoted(node.name)} [label={_quoted(node.name + chr(10) + node.below)}];" for node in nodes]
    lines += [f"  {_quoted(need)} -> {_quoted(node.name)};" for node in nodes for need in node.needs]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class _Box(NamedTuple):
    node: Node
    x: float
    y: float
    wide: float

    @property
    def left(self) -> tuple[float, float]:
        return self.x, self.y + _HIGH / 2

    @property
    def right(self) -> tuple[float, float]:
        return self.x + self.wide, self.y + _HIGH / 2


def _svg(nodes: Sequence[Node]) -> str:
    """Each step in a column behind those that it needs; in a column, near to them."""
    boxes = _laid_out(nodes)
    wide = max(box.x + box.wide for box in boxes.values()) + _MARGIN
    high = max(box.y for box in boxes.values()) + _HIGH + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" '
        f'viewBox="0 0 {wide:g} {high:g}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for box in boxes.values():
        lines += [_line(boxes[need], box) for need in box.node.needs]
    lines += [_drawn(box) for box in boxes.values()]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _laid_out(nodes: Sequence[Node]) -> dict[str, _Box]:
    level: dict[str, int] = {}
    for node in nodes:  # each comes after those it needs
        level[node.name] = max((level[need] + 1 for need in node.needs), default=0)
    boxes: dict[str, _Box] = {}
    x = float(_MARGIN)
    for column in range(max(level.values()) + 1):
        here = [node for node in nodes if level[node.name] == column]
        here.sort(key=lambda node: _mean([boxes[need].y for need in node.needs]))
        wide = max(_width(node) for node in here)
        for place, node in enumerate(here):
            boxes[node.name] = _Box(node, x, _MARGIN + place * (_HIGH + _GAP_Y), wide)
        x += wide + _GAP_X
    return boxes


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _width(node: Node) -> float:
    return max(len(node.name), len(node.below)) * _LETTER + 24


def _line(start: _Box, end: _Box) -> str:
    (x1, y1), (x2, y2) = start.right, end.left
    bend = max(_GAP_X / 2, (x2 - x1) / 2)
    path = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}"
    return f'<path d="{path}" fill="none" stroke="#90a4ae" stroke-width="1.5"/>'


def _drawn(box: _Box) -> str:
    middle = box.x + box.wide / 2
    return (
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.wide:g}" height="{_HIGH}" rx="8" fill="#e3f2fd" '
        f'stroke="#1e88e5"/><text x="{middle:g}" y="{box.y + 19:g}" text-anchor="middle" font-weight="bold">'
        f'{escape(box.node.name)}</text><text x="{middle:g}" y="{box.y + 35:g}" text-anchor="middle" fill="#607d8b" '
        f'font-size="11">{escape(box.node.below)}</text>'
    )


_KINDS: dict[str, Callable[[Sequence[Node]], str]] = {"text": _text, "dot": _dot, "svg": _svg}
