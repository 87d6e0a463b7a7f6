"""How the plots of a search look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from turnout.cli.search_plots.axes import (
    LEVELS,
    SMALL,
    WIDTH,
    Frame,
    all_about,
    axis_across,
    axis_up,
    colour_bar,
    goodness,
    legend,
    legend_entry,
    padded,
    room_for,
    title,
)
from turnout.cli.search_plots.contents import Content, Contour, Front, History, Parallel, Point, Shares
from turnout.cli.search_plots.scales import Scale, number, of_axis, of_results
from turnout.cli.search_plots.shapes import (
    COLOURS,
    INK,
    MARKS,
    NO_RESULT,
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

_MOST_LINES, _MOST_DOTS = 600, 1000
_BEST = 50  # that are drawn in any case


def draw(content: Content) -> Picture:
    return _CHARTS[type(content)](content)


# --- history ----------------------------------------------------------------------------------------------------------


def _history(content: History) -> Picture:
    tall = 420.0
    picture = Picture(WIDTH, tall * len(content.aims), f"{content.job}: optimisation history")
    for index, (aim, points) in enumerate(zip(content.aims, content.points, strict=True)):
        best = [each for each in points if each.is_best]
        found = f", best {number(best[-1].values[0] or 0.0)} by {best[-1].run}" if best else ""
        title(picture, f"{content.job}: {aim.metric} ({aim.goal}){found}", tall * index)
        _progress(picture, aim, points, tall * index)
    return picture


def _progress(picture: Picture, aim: Aim, points: Sequence[Point], top: float) -> None:
    values = [
        value for each in points if each.state not in ("failed", "cancelled") and (value := each.values[0]) is not None
    ]
    scale = of_results(values or [0.0, 1.0])
    last = max(2, max(each.place for each in points))
    first = min(1, min(each.place for each in points))
    frame = Frame(room_for(scale), top + 66, WIDTH - 24, top + 360)
    pad = 0.02
    across = padded(lambda place: (place - first) / (last - first), pad)
    axis_up(picture, frame, scale, aim.metric, pad=0.05)
    _axis_of_numbers(picture, frame, first, last, across)
    kinds = list(dict.fromkeys(map(_kind, points)))
    steps = _steps(frame, scale, points, across)
    if steps:
        picture.add(Line(points=steps, colour=INK, width=1.8))
    for each in sorted(points, key=lambda point: (point.is_best, point.state)):
        share = None if each.values[0] is None else scale.share(each.values[0])
        y = frame.bottom - 5 if share is None else frame.y(padded(float, 0.05)(share))
        mark, colour = MARKS.get(_kind(each), "circle"), COLOURS.get(_kind(each), PALE)
        size = 4.5 if len(points) <= 300 else 3.0
        faint = 1.0 if each.is_best or len(points) <= 300 else 0.6
        told = all_about(each, [aim])
        picture.add(
            Dot(x=frame.x(across(each.place)), y=y, mark=mark, colour=colour, size=size, opacity=faint, told=told)
        )
    legend(picture, [*kinds, *(["best so far"] if steps else [])], frame.left, top + 46)
    if beyond := sum(not scale.low <= value <= scale.high for value in values):
        note = f"{beyond:,} beyond the edge"
        picture.add(Words(x=frame.right, y=top + 46, text=note, size=SMALL, colour=PALE, anchor="end"))


def _kind(point: Point) -> str:
    """What it is shown as: its state, unless it measured nothing though it should have. Such lie at the bottom."""
    return NO_RESULT if point.values[0] is None and point.state in ("completed", "stopped") else point.state


def _steps(
    frame: Frame, scale: Scale, points: Sequence[Point], across: Callable[[float], float]
) -> list[tuple[float, float]]:
    """The best result so far, run by run."""
    line: list[tuple[float, float]] = []
    for each in points:
        share = scale.share(each.values[0]) if each.is_best else None
        if share is not None:
            x, y = frame.x(across(each.place)), frame.y(padded(float, 0.05)(share))
            line += [(x, line[-1][1]), (x, y)] if line else [(x, y)]
    if line:
        line.append((frame.x(across(max(each.place for each in points))), line[-1][1]))
    return line


def _axis_of_numbers(picture: Picture, frame: Frame, first: int, last: int, across: Callable[[float], float]) -> None:
    step = max(1, round((last - first) / 10))
    step = next(nice for nice in _nice_steps() if nice >= step)
    picture.add(Line(points=[(frame.left, frame.bottom), (frame.right, frame.bottom)]))
    for place in [1, *range(step, last + 1, step)] if step > 1 else range(first, last + 1):
        x = frame.x(across(place))
        picture.add(Line(points=[(x, frame.bottom), (x, frame.bottom + 5)]))
        picture.add(Words(x=x, y=frame.bottom + 16, text=str(place), size=SMALL, anchor="middle"))
    picture.add(Words(x=frame.x(0.5), y=frame.bottom + 38, text="number of the run", anchor="middle"))


def _nice_steps() -> list[int]:
    return [factor * 10**power for power in range(9) for factor in (1, 2, 5)]


# --- importance -------------------------------------------------------------------------------------------------------


def _importance(content: Shares) -> Picture:
    rows = len(content.shares)
    labels = [shortened(name, 40) for name in content.shares]
    left = 30 + max(width_of(label) for label in labels)
    picture = Picture(WIDTH, 130.0 + 30 * rows, f"{content.job}: parameter importance")
    title(picture, f"{content.job}: what matters for {content.aim.metric}", 0)
    worth = f"of {content.runs} results; {content.explained:.0%} of their order is explained by the parameters"
    picture.add(Words(x=24, y=50, text=worth, size=SMALL, colour=PALE))
    most = max(max(content.shares.values()), 0.01)
    room = WIDTH - left - 90
    for row, (label, (name, share)) in enumerate(zip(labels, content.shares.items(), strict=True)):
        y, width = 76.0 + 30 * row, max(1.0, room * share / most)
        told = f"{name}\n{share:.1%}"
        picture.add(Words(x=left - 10, y=y + 11, text=label, anchor="end"))
        picture.add(Box(x=left, y=y, width=width, height=22, colour=COLOURS["completed"], told=told))
        picture.add(Words(x=left + width + 8, y=y + 11, text=f"{share:.1%}", size=SMALL))
    picture.add(Line(points=[(left, 70), (left, 76.0 + 30 * rows)]))
    picture.add(Words(x=left, y=98.0 + 30 * rows, text="share of what the parameters explain", size=SMALL, colour=PALE))
    return picture


# --- parallel coordinates ---------------------------------------------------------------------------------------------


def _parallel(content: Parallel) -> Picture:
    width = max(WIDTH, 150.0 * (len(content.axes) + 1) + 80)
    picture = Picture(width, 520.0, f"{content.job}: parallel coordinates")
    best = content.points[-1]
    title(
        picture,
        f"{content.job}: {content.aim.metric} ({content.aim.goal}), best {number(best.values[0] or 0.0)} by {best.run}",
        0,
    )
    strands = _thinned(content.points, _MOST_LINES)
    _note_thinned(picture, len(strands), len(content.points))
    results = of_results([each.values[0] or 0.0 for each in content.points])
    scales = [of_axis(axis, [each.params.get(axis.name) for each in content.points]) for axis in content.axes]
    frame = Frame(max(90.0, room_for(scales[0]) if scales else 0.0), 110, width - 180, 470)
    places = [frame.x(index / max(1, len(scales))) for index in range(len(scales) + 1)]
    for each in strands:
        shares = [scale.share(each.params.get(axis.name)) for scale, axis in zip(scales, content.axes, strict=True)]
        shares.append(results.share(each.values[0]))
        colour = shade(goodness(content.aim, results, each.values[0]))
        for piece in _pieces(places, shares, frame):
            style = (3.0, 1.0) if each is best else (1.2, 0.75 if len(strands) <= 100 else 0.45)
            picture.add(
                Line(points=piece, colour=colour, width=style[0], opacity=style[1], told=all_about(each, [content.aim]))
            )
    names = [axis.name for axis in content.axes]
    for x, scale, name in zip(places, [*scales, results], [*names, content.aim.metric], strict=True):
        _upright(picture, frame, x, scale, name, is_last=x == places[-1])
    colour_bar(picture, content.aim, results, width - 90, frame, is_named=False)
    return picture


def _thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Some of many, evenly from the worst to the best, and the best ones."""
    if len(points) <= most:
        return list(points)
    stride = -(-len(points) // (most - _BEST))
    return [*points[:-_BEST:stride], *points[-_BEST:]]


def _note_thinned(picture: Picture, drawn: int, of: int) -> None:
    if drawn < of:
        note = f"{drawn:,} of {of:,} runs are drawn, the best ones among them"
        picture.add(Words(x=24, y=48, text=note, size=SMALL, colour=PALE))


def _pieces(places: Sequence[float], shares: Sequence[float | None], frame: Frame) -> list[list[tuple[float, float]]]:
    """Lines between axes; there is a gap where a run does not have a parameter."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, share in zip(places, shares, strict=True):
        if share is None:
            pieces.append([])
        else:
            pieces[-1].append((x, frame.y(share)))
    return [[(x - 6, y), (x + 6, y)] if len(piece) == 1 else piece for piece in pieces if piece for x, y in piece[:1]]


def _upright(picture: Picture, frame: Frame, x: float, scale: Scale, name: str, *, is_last: bool) -> None:
    """Labels are on the left, over the lines; of the last axis, on the right, where there are none."""
    picture.add(Line(points=[(x, frame.top), (x, frame.bottom)], width=1.3))
    picture.add(Words(x=x, y=frame.top - 20, text=shortened(name, 20), anchor="middle", is_bold=True))
    side = 1 if is_last else -1
    for share, label in scale.ticks(8):
        y = frame.y(share)
        picture.add(Line(points=[(x, y), (x + 4 * side, y)]))
        if not is_last:
            back = width_of(label, SMALL) + 4
            picture.add(Box(x=x - 8 - back, y=y - 7, width=back + 2, height=14, colour="#ffffff"))
        picture.add(Words(x=x + 7 * side, y=y, text=label, size=SMALL, anchor="start" if is_last else "end"))


# --- contour ----------------------------------------------------------------------------------------------------------


def _contour(content: Contour) -> Picture:
    picture = Picture(WIDTH, 640.0, f"{content.job}: contour")
    across, up = content.axes
    title(picture, f"{content.job}: {content.aim.metric} ({content.aim.goal}) over {across.name} and {up.name}", 0)
    results = of_results([each.values[0] or 0.0 for each in content.points])
    scales = [of_axis(axis, [each.params[axis.name] for each in content.points]) for axis in content.axes]
    frame = Frame(room_for(scales[1]), 72, WIDTH - 150, 570)
    _fields(picture, content, results, frame)
    axis_up(picture, frame, scales[1], up.name, grid=False)
    axis_across(picture, frame, scales[0], across.name)
    shown = _thinned(content.points, _MOST_DOTS)
    _note_thinned(picture, len(shown), len(content.points))
    for each in shown:
        x, y = scales[0].share(each.params[across.name]), scales[1].share(each.params[up.name])
        if x is None or y is None:
            continue
        place, told = (frame.x(x), frame.y(y)), all_about(each, [content.aim])
        size = 2.5 if len(content.points) <= 500 else 1.5
        picture.add(Dot(x=place[0], y=place[1], colour="#ffffff", size=size + 1.2, opacity=0.9))
        picture.add(Dot(x=place[0], y=place[1], colour=INK, size=size, told=told))
        if each.is_best:
            picture.add(
                Dot(x=place[0], y=place[1], mark="ring", colour=COLOURS["failed"], size=7.0, told=f"best: {told}")
            )
            picture.add(Dot(x=place[0], y=place[1], colour=COLOURS["failed"], size=3.5, told=f"best: {told}"))
    colour_bar(picture, content.aim, results, WIDTH - 110, frame)
    return picture


def _fields(picture: Picture, content: Contour, results: Scale, frame: Frame) -> None:
    """Neighbours of one colour are one box."""
    rows = len(content.surface)
    for row, values in enumerate(content.surface):
        levels = [None if each is None else _level(content.aim, results, each) for each in values]
        start = 0
        for column in range(1, len(levels) + 1):
            if column < len(levels) and levels[column] == levels[start]:
                continue
            level = levels[start]
            if level is not None:
                left, right = frame.x(start / len(levels)), frame.x(column / len(levels))
                top, bottom = frame.y((row + 1) / rows), frame.y(row / rows)
                picture.add(Box(x=left, y=top, width=right - left, height=bottom - top, colour=shade(level)))
            start = column


def _level(aim: Aim, results: Scale, value: float) -> float:
    return round(goodness(aim, results, value) * (LEVELS - 1)) / (LEVELS - 1)


# --- Pareto front -----------------------------------------------------------------------------------------------------


def _pareto(content: Front) -> Picture:
    picture = Picture(WIDTH, 600.0, f"{content.job}: Pareto front")
    across, up = content.aims
    best = [each for each in content.points if each.is_best]
    title(
        picture,
        f"{content.job}: {across.metric} ({across.goal}) and {up.metric} ({up.goal}), {len(best)} that none beats",
        0,
    )
    scales = [of_results([each.values[place] or 0.0 for each in content.points]) for place in (0, 1)]
    frame = Frame(room_for(scales[1]), 76, WIDTH - 30, 530)
    inner = padded(float, 0.03)
    axis_up(picture, frame, scales[1], up.metric, pad=0.03)
    axis_across(picture, frame, scales[0], across.metric, pad=0.03)

    def place(point: Point) -> tuple[float, float]:
        x, y = scales[0].share(point.values[0]), scales[1].share(point.values[1])
        return frame.x(inner(x or 0.0)), frame.y(inner(y or 0.0))

    ordered = sorted(best, key=lambda each: each.values[0] or 0.0)
    picture.add(Line(points=[place(each) for each in ordered], colour=COLOURS["failed"], width=1.5, opacity=0.6))
    for each in sorted(content.points, key=lambda point: point.is_best):
        colour, size = (COLOURS["failed"], 5.5) if each.is_best else (COLOURS["completed"], 3.5)
        faint = 1.0 if each.is_best else 0.5
        x, y = place(each)
        picture.add(Dot(x=x, y=y, colour=colour, size=size, opacity=faint, told=all_about(each, content.aims)))
    x = legend_entry(picture, frame.left, 50, "no other is better in both", "circle", COLOURS["failed"])
    legend_entry(picture, x, 50, "others", "circle", COLOURS["completed"])
    return picture


_CHARTS: dict[type[Content], Callable[[Any], Picture]] = {
    History: _history, Shares: _importance, Parallel: _parallel, Contour: _contour, Front: _pareto,
}  # fmt: skip
