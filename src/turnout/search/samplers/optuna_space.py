"""A space as Optuna has it: parameters of one level, named ``layer/conv/width``, of three kinds of distributions.

Numbers in a list are places in its order, other values are places without one. A `Normal` is the share of it that lies
below. What does not vary, and seeds, Optuna does not hear of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Params, Range, Space
from turnout.search.spaces.drawing import NAME, draw_one, placed, settled
from turnout.search.spaces.functions import ANY_SEED
from turnout.search.spaces.grids import values_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
    from optuna.trial import Trial

#: How far into its tails a `Normal` is searched.
_TAIL = 1e-6
_NEAR = 1e-9


class Outside(ValueError):
    """These parameters do not lie in the space."""


@dataclass(slots=True)
class Raw:
    """Parameters as Optuna has them, by its names. `kept` are those that cannot be had from ours again."""

    params: dict[str, Any] = field(default_factory=dict)
    distributions: dict[str, BaseDistribution] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)


class Tree:
    """The parameters of one level, with those below."""

    def __init__(self, space: Space, above: str = "") -> None:
        self._knobs = {name: _make_knob(f"{above}{_safe(name)}", parameter) for name, parameter in space.items()}

    def suggest(self, trial: Trial, random: Random, kept: dict[str, Any]) -> Params:
        """Parameters that Optuna picks, and into `kept` what has to be kept of them; seeds are of `random`."""
        return {name: knob.suggest(trial, random, kept) for name, knob in self._knobs.items()}

    def read(self, params: Mapping[str, object], kept: Mapping[str, Any], raw: Raw) -> None:
        """Adds to `raw` what these parameters are for Optuna. Outside."""
        for name, knob in self._knobs.items():
            if name not in params:
                raise Outside(name)
            knob.read(params[name], kept, raw)


class _Fixed:
    """One value, or any seed."""

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter

    def suggest(self, trial: Trial, random: Random, kept: dict[str, Any]) -> object:
        return draw_one(self._parameter, random)

    def read(self, value: object, kept: Mapping[str, Any], raw: Raw) -> None:
        """Whatever it is, it makes no difference."""


class _Listed:
    """One of several values, or branches."""

    def __init__(self, key: str, parameter: Choice) -> None:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        self._key = key
        values = values_of(parameter)
        self._is_ordered = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        self._values: list[Any] = sorted(values) if self._is_ordered else values
        self._below = {
            value.name: Tree(value.space, f"{key}/{_safe(value.name)}/")
            for value in self._values
            if isinstance(value, Branch)
        }
        self._places = list(range(len(values)))
        self._distribution: BaseDistribution = (
            IntDistribution(0, len(values) - 1) if self._is_ordered else CategoricalDistribution(self._places)
        )

    def suggest(self, trial: Trial, random: Random, kept: dict[str, Any]) -> object:
        if len(self._places) == 1:
            place = 0
        elif self._is_ordered:
            place = trial.suggest_int(self._key, 0, len(self._places) - 1)
        else:
            place = trial.suggest_categorical(self._key, self._places)
        value = self._values[place]
        if isinstance(value, Branch):
            return {NAME: value.name, **self._below[value.name].suggest(trial, random, kept)}
        return value

    def read(self, value: object, kept: Mapping[str, Any], raw: Raw) -> None:
        place = next((place for place in self._places if _is_same(self._values[place], value)), None)
        if place is None:
            raise Outside(self._key)
        if len(self._places) > 1:
            raw.params[self._key] = place
            raw.distributions[self._key] = self._distribution
        if isinstance(value, Mapping) and isinstance(self._values[place], Branch):
            self._below[self._values[place].name].read(value, kept, raw)


class _Ranged:
    """A range. Optuna knows of its steps where it can; where it cannot, it picks a value that is rounded after."""

    def __init__(self, key: str, parameter: Range) -> None:
        self._key = key
        self._parameter = parameter
        self._is_kept = parameter.step is not None and not _has_even_steps(parameter)
        step = None if self._is_kept else parameter.step
        self._distribution = _whole_distribution(parameter, step) if parameter.whole else _distribution(parameter, step)

    def suggest(self, trial: Trial, random: Random, kept: dict[str, Any]) -> object:
        given = self._distribution
        suggest = trial.suggest_int if self._parameter.whole else trial.suggest_float
        picked = suggest(self._key, given.low, given.high, log=given.log, step=given.step)  # type: ignore[arg-type]
        if self._is_kept:
            kept[self._key] = picked
        return settled(self._parameter, picked)

    def read(self, value: object, kept: Mapping[str, Any], raw: Raw) -> None:
        found = kept.get(self._key, value)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise Outside(self._key)
        if not self._parameter.low <= found <= self._parameter.high:
            raise Outside(self._key)
        raw.params[self._key] = round(found) if self._parameter.whole else float(found)
        raw.distributions[self._key] = self._distribution


class _Belled:
    """A normal distribution: Optuna picks the share of it that lies below."""

    def __init__(self, key: str, parameter: Normal) -> None:
        from optuna.distributions import FloatDistribution

        self._key = key
        self._parameter = parameter
        self._distribution = FloatDistribution(_TAIL, 1 - _TAIL)

    def suggest(self, trial: Trial, random: Random, kept: dict[str, Any]) -> object:
        share = trial.suggest_float(self._key, _TAIL, 1 - _TAIL)
        kept[self._key] = share
        return settled(self._parameter, placed(self._parameter, share))

    def read(self, value: object, kept: Mapping[str, Any], raw: Raw) -> None:
        share = kept.get(self._key)
        raw.params[self._key] = self._share(value) if share is None else float(share)
        raw.distributions[self._key] = self._distribution

    def _share(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (self._parameter.log and value < 0):
            raise Outside(self._key)
        if self._parameter.log and value == 0:  # it was rounded
            return _TAIL
        place = math.log(value) if self._parameter.log else value
        below = NormalDist(self._parameter.mean, self._parameter.deviation).cdf(place)
        return min(max(below, _TAIL), 1 - _TAIL)


_Knob = _Fixed | _Listed | _Ranged | _Belled


def _make_knob(key: str, parameter: Parameter) -> _Knob:
    if parameter == ANY_SEED:
        return _Fixed(parameter)
    if isinstance(parameter, Choice):
        return _Listed(key, parameter)
    if isinstance(parameter, Normal):
        return _Belled(key, parameter)
    return _Fixed(parameter) if parameter.low == parameter.high else _Ranged(key, parameter)


def _safe(name: str) -> str:
    """A part of a path."""
    return name.replace("%", "%25").replace("/", "%2F")


def _is_same(mine: object, given: object) -> bool:
    """``true`` is not 1, but 1.0 is; a branch is known by its name."""
    if isinstance(mine, Branch):
        return isinstance(given, Mapping) and given.get(NAME) == mine.name
    return mine == given and isinstance(mine, bool) == isinstance(given, bool)


def _has_even_steps(parameter: Range) -> bool:
    """Whether its bounds are multiples of its step, and it is not logarithmic: what Optuna means by steps."""
    step = parameter.step
    if step is None or parameter.log or (parameter.whole and step != int(step)):
        return False
    return all(abs(bound / step - round(bound / step)) < _NEAR for bound in (parameter.low, parameter.high))


def _whole_distribution(parameter: Range, step: float | None) -> IntDistribution:
    from optuna.distributions import IntDistribution

    return IntDistribution(int(parameter.low), int(parameter.high), log=parameter.log, step=int(step or 1))


def _distribution(parameter: Range, step: float | None) -> FloatDistribution:
    from optuna.distributions import FloatDistribution

    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=step)
