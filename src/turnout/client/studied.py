"""A search with all that it has tried, as tables, plots and studies of others are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from turnout.errors import InvalidInput
from turnout.model.search import Aim
from turnout.plugin.space import Choice, Parameter
from turnout.search.flattening import flat_params, flat_space, is_numeric, is_varied
from turnout.search.spaces import from_plain

if TYPE_CHECKING:
    from turnout.search.importance import Importance

#: States whose results count, for the best as for plots: what still runs may yet fail.
COUNTING = frozenset({"completed", "stopped", "imported"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One run, or what was brought in: then it has neither `number` nor `run`. `flat` are its parameters in one level.
    `values` are those of the objectives, None where it has not told one."""

    number: int | None
    run: str | None
    state: str
    params: dict[str, Any]
    flat: dict[str, Any]
    values: tuple[float | None, ...]
    target: str | None
    started: str | None
    ended: str | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it is not over."""
        if self.started is None or self.ended is None:
            return None
        return (datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.started)).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A parameter that varies. `choices` in their order; None = it is a number between any others."""

    name: str
    is_log: bool = False
    choices: tuple[object, ...] | None = None


@dataclass(frozen=True)
class Studied:
    """`tried` is in order: first what was brought in, then the runs by number. `view` is how the search stands."""

    view: Mapping[str, Any]
    tried: Sequence[Tried]

    @property
    def job(self) -> str:
        return str(self.view["job"])

    @cached_property
    def aims(self) -> list[Aim]:
        return [Aim(**aim) for aim in self.view["aims"]]

    @cached_property
    def space(self) -> dict[str, Parameter]:
        return from_plain(self.view["space"])

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """All, in one level."""
        return flat_space(self.space)

    @cached_property
    def names(self) -> list[str]:
        """Of all parameters that any run has, as columns of a table."""
        return list(dict.fromkeys([*self.parameters, *(name for each in self.tried for name in each.flat)]))

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The parameters that vary."""
        return {name: _axis(name, each) for name, each in self.parameters.items() if is_varied(each)}

    def objective(self, metric: str | None) -> int:
        """The place of an objective; of None, the first. InvalidInput."""
        metrics = [aim.metric for aim in self.aims]
        if not metrics:
            raise InvalidInput(
                f"{self.job} has no objective", hint="give a search --minimize METRIC, or --maximize METRIC"
            )
        if metric is not None and metric not in metrics:
            raise InvalidInput(f"{metric!r} is no objective of {self.job}", hint=f"it has {', '.join(metrics)}")
        return 0 if metric is None else metrics.index(metric)

    def measured(self, objective: int) -> list[tuple[Tried, float]]:
        """Those whose result counts, with it."""
        found = [(each, each.values[objective]) for each in self.tried if each.state in COUNTING]
        return [(each, value) for each, value in found if value is not None]

    def importance(self, objective: int) -> Importance | None:
        """Of the parameters that vary; None = too few results to tell. Always the same for the same results."""
        from turnout.search.importance import FEWEST, measure

        found = self.measured(objective)
        if len(found) < FEWEST or not self.axes:
            return None
        parameters = {name: self.parameters[name] for name in self.axes}
        return measure(parameters, [each.flat for each, _ in found], [value for _, value in found])


def studied(view: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> Studied:
    """From what the hub tells of a search, and of all it has tried."""
    space = from_plain(view["space"])
    rows = [_tried(each, space) for each in tried]
    brought = [each for each in rows if each.run is None and each.state == "imported"]
    return Studied(view, [*reversed(brought), *(each for each in rows if each.state != "imported")])


def _tried(view: Mapping[str, Any], space: Mapping[str, Parameter]) -> Tried:
    params = view["params"]
    others = {name: value for name, value in params.items() if name not in space}
    return Tried(
        number=view["number"], run=view["run"], state=view["state"], params=params,
        flat=flat_params(space, params) | others, values=tuple(view["values"]), target=view["target"],
        started=view["started"], ended=view["ended"],
    )  # fmt: skip


def _axis(name: str, parameter: Parameter) -> Axis:
    if not isinstance(parameter, Choice):
        return Axis(name=name, is_log=parameter.log)
    values: list[Any] = list({repr(each): each for each in parameter.values}.values())
    return Axis(name=name, choices=tuple(sorted(values) if is_numeric(parameter) else values))


def surface(
    places: Sequence[tuple[float, float]], values: Sequence[float], columns: Sequence[float], rows: Sequence[float]
) -> list[list[float | None]]:
    """As `turnout.search.surface.smoothed`."""
    from turnout.search.surface import smoothed

    return smoothed(places, values, columns, rows)
