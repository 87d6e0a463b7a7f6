"""A space as JSON holds it: how it is kept with its job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnout.plugin.space import Branch, Choice, Normal, Parameter, Range, Space


def to_plain(space: Space) -> dict[str, Any]:
    return {name: _plain(parameter) for name, parameter in space.items()}


def from_plain(plain: Mapping[str, Any]) -> dict[str, Parameter]:
    """What `to_plain` wrote."""
    return {name: _parameter(each) for name, each in plain.items()}


def _plain(parameter: Parameter) -> dict[str, Any]:
    if isinstance(parameter, Choice):
        return {"choice": [_plain_value(value) for value in parameter.values]}
    if isinstance(parameter, Normal):
        return {"normal": [parameter.mean, parameter.deviation], "log": parameter.log, "step": parameter.step}
    return {
        "range": [parameter.low, parameter.high], "log": parameter.log, "step": parameter.step,
        "whole": parameter.whole,
    }  # fmt: skip


def _plain_value(value: object) -> dict[str, Any]:
    if isinstance(value, Branch):
        return {"branch": value.name, "space": to_plain(value.space)}
    return {"value": value}


def _parameter(plain: Mapping[str, Any]) -> Parameter:
    if "choice" in plain:
        return Choice(tuple(_value(each) for each in plain["choice"]))
    if "normal" in plain:
        mean, deviation = plain["normal"]
        return Normal(mean, deviation, log=plain["log"], step=plain["step"])
    low, high = plain["range"]
    return Range(low, high, log=plain["log"], step=plain["step"], whole=plain["whole"])


def _value(plain: Mapping[str, Any]) -> object:
    return Branch(plain["branch"], from_plain(plain["space"])) if "branch" in plain else plain["value"]
