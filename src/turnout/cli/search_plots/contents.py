"""What the plots of a search show, before it is drawn; ``--json`` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnout.cli.search_plots.scales import Scale, of_axis, of_results
from turnout.client.studied import COUNTING, Axis, Studied, Tried, surface
from turnout.errors import InvalidInput, NotFound
from turnout.model.search import Aim

_MOST_AXES = 12
_FIELDS = 96  # of a surface, in each direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run: its `values` of the objectives that are shown, and what else it has. `is_best`: when it was over, none
    before was better; in a front, no other is better in all objectives."""

    run: str
    place: int
    state: str
    values: list[float | None]
    params: dict[str, Any]
    is_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Objectives over the number of the run. What was brought in has places from 0 down."""

    kind: str = "history"
    job: str
    aims: list[Aim]
    points: list[list[Point]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How much each parameter matters; `explained` of the results is told by all together."""

    kind: str = "importance"
    job: str
    aim: Aim
    runs: int
    shares: dict[str, float]
    explained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    kind: str = "parallel"
    job: str
    aim: Aim
    axes: list[Axis]
    points: list[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contour:
    """`surface` has rows from below, of fields from left to right; None = there was no run near."""

    kind: str = "contour"
    job: str
    aim: Aim
    axes: list[Axis]
    points: list[Point]
    surface: list[list[float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Two objectives against each other."""

    kind: str = "pareto"
    job: str
    aims: list[Aim]
    points: list[Point]


Content = History | Shares | Parallel | Contour | Front


def history(study: Studied, metrics: Sequence[str]) -> History:
    objectives = [study.objective(metric) for metric in metrics] or list(range(len(study.aims)))
    study.objective(None)
    return History(
        job=study.job, aims=[study.aims[each] for each in objectives],
        points=[_progress(study, each) for each in objectives],
    )  # fmt: skip


def importance(study: Studied, metrics: Sequence[str]) -> Shares:
    objective = _one(study, metrics)
    found = study.importance(objective)
    runs = len(study.measured(objective))
    if not study.axes:
        raise NotFound(f"nothing varies in {study.job}", hint=f"`turnout show {study.job}` has its parameters")
    if found is None:
        raise NotFound(f"{study.job} has {runs} results, too few to tell what matters", hint="try again when it has 8")
    return Shares(job=study.job, aim=study.aims[objective], runs=runs, shares=found.shares, explained=found.explained)


def parallel(study: Studied, metrics: Sequence[str], params: Sequence[str]) -> Parallel:
    objective = _one(study, metrics)
    points = _measured(study, objective)
    names = _named(study, params) or _foremost(study, objective, _MOST_AXES)
    return Parallel(job=study.job, aim=study.aims[objective], axes=[study.axes[name] for name in names], points=points)


def contour(study: Studied, metrics: Sequence[str], params: Sequence[str]) -> Contour:
    objective = _one(study, metrics)
    names = _named(study, params) or _foremost(study, objective, 2)
    if len(names) != 2:
        has = ", ".join(study.axes)
        raise InvalidInput("a contour is of two parameters", hint=f"say --params A,B; {study.job} varies {has}")
    points = [each for each in _measured(study, objective) if all(name in each.params for name in names)]
    if not points:
        raise NotFound(f"no run of {study.job} has both {' and '.join(names)}", hint="choose others: --params A,B")
    axes = [study.axes[name] for name in names]
    scales = [of_axis(axis, [each.params[axis.name] for each in points]) for axis in axes]
    return Contour(
        job=study.job, aim=study.aims[objective], axes=axes, points=points, surface=_surface(scales, axes, points)
    )


def pareto(study: Studied, metrics: Sequence[str]) -> Front:
    objectives = [study.objective(metric) for metric in metrics] or list(range(len(study.aims)))[:2]
    if len(set(objectives)) != 2:
        has = ", ".join(aim.metric for aim in study.aims) or "none"
        raise InvalidInput("a Pareto front is of two objectives", hint=f"{study.job} has {has}: say --metric A,B")
    aims = [study.aims[each] for each in objectives]
    rows = [each for each in study.tried if each.state in COUNTING]
    rows = [each for each in rows if None not in [each.values[place] for place in objectives]]
    if not rows:
        raise _nothing(study)
    first, second = objectives
    best = _front([(_cost(aims[0], each.values[first]), _cost(aims[1], each.values[second])) for each in rows])
    points = [
        _point(each, number, [each.values[place] for place in objectives], is_best=number in best)
        for number, each in enumerate(rows)
    ]
    return Front(job=study.job, aims=aims, points=points)


def _progress(study: Studied, objective: int) -> list[Point]:
    """All that is over or has told something, in order."""
    aim = study.aims[objective]
    brought = sum(each.number is None for each in study.tried)
    best: float | None = None
    points: list[Point] = []
    for index, each in enumerate(study.tried):
        value = each.values[objective]
        if value is None and each.state not in ("failed", "cancelled", "stopped", "completed"):
            continue
        is_best = value is not None and each.state in COUNTING and (best is None or _cost(aim, value) < best)
        if is_best:
            best = _cost(aim, value)
        place = each.number if each.number is not None else index + 1 - brought
        points.append(_point(each, place, [value], is_best=is_best))
    if not points:
        raise _nothing(study)
    return points


def _point(each: Tried, place: int, values: Sequence[float | None], *, is_best: bool = False) -> Point:
    return Point(
        run=each.run or "imported", place=place, state=each.state, values=list(values), params=each.flat,
        is_best=is_best,
    )  # fmt: skip


def _cost(aim: Aim, value: float | None) -> float:
    assert value is not None
    return value if aim.goal == "minimize" else -value


def _measured(study: Studied, objective: int) -> list[Point]:
    """The worst first, for the best should lie above."""
    aim = study.aims[objective]
    found = sorted(study.measured(objective), key=lambda each: -_cost(aim, each[1]))
    if not found:
        raise _nothing(study)
    last = len(found) - 1
    return [_point(each, number, [value], is_best=number == last) for number, (each, value) in enumerate(found)]


def _nothing(study: Studied) -> NotFound:
    return NotFound(f"no run of {study.job} has a result yet", hint=f"`turnout show {study.job}` tells how it stands")


def _one(study: Studied, metrics: Sequence[str]) -> int:
    if len(metrics) > 1:
        raise InvalidInput("one metric, not several", hint=f"--metric {metrics[0]}")
    return study.objective(metrics[0] if metrics else None)


def _named(study: Studied, params: Sequence[str]) -> list[str]:
    for name in params:
        if name not in study.axes:
            what = "does not vary" if name in study.parameters else "is no parameter"
            has = ", ".join(study.axes) or "none"
            raise InvalidInput(f"{name!r} {what} of {study.job}", hint=f"those that vary: {has}")
    return list(dict.fromkeys(params))


def _foremost(study: Studied, objective: int, most: int) -> list[str]:
    """Those that matter most, in the order of the space; the first, if there is nothing to tell by."""
    if len(study.axes) <= most:
        return list(study.axes)
    found = study.importance(objective)
    chosen = list(found.shares if found is not None else study.axes)[:most]
    return [name for name in study.axes if name in chosen]


def _front(costs: Sequence[tuple[float, float]]) -> set[int]:
    """Those that no other beats; of two objectives."""
    found: list[int] = []
    for index in sorted(range(len(costs)), key=lambda each: costs[each]):
        if not found or costs[index][1] < costs[found[-1]][1] or costs[index] == costs[found[-1]]:
            found.append(index)
    return set(found)


def _surface(scales: Sequence[Scale], axes: Sequence[Axis], points: Sequence[Point]) -> list[list[float | None]]:
    """What is far off counts as far as its scale goes."""
    results = of_results([each.values[0] or 0.0 for each in points])
    places: list[tuple[float, float]] = []
    values: list[float] = []
    for each in points:
        x, y = (scale.share(each.params[axis.name]) for scale, axis in zip(scales, axes, strict=True))
        value = results.share(each.values[0])
        if x is not None and y is not None and value is not None:
            places.append((x, y))
            values.append(value)
    columns, rows = (_fields(axis) for axis in axes)
    shares = surface(places, values, columns, rows)
    return [[None if share is None else results.value(share) for share in row] for row in shares]


def _fields(axis: Axis) -> list[float]:
    """The middles of all fields; where values have no distances, the place of the nearest."""
    middles = [(index + 0.5) / _FIELDS for index in range(_FIELDS)]
    if axis.choices is None:
        return middles
    count = len(axis.choices)
    return [(min(int(middle * count), count - 1) + 0.5) / count for middle in middles]
