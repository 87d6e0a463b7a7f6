"""Spaces and parameters of one level, as tables and plots need them: what a branch brings along is a parameter named
``layer/conv/width``, and its choice has the name of the branch."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.plugin.space import Branch, Choice, Parameter, Params, Range, Space
from turnout.search.spaces.drawing import NAME


def flat_space(space: Space, above: str = "") -> dict[str, Parameter]:
    """All parameters there can be, each after the choice that it belongs to."""
    found: dict[str, Parameter] = {}
    for name, parameter in space.items():
        if not isinstance(parameter, Choice):
            found[above + name] = parameter
            continue
        found[above + name] = Choice(
            tuple(each.name if isinstance(each, Branch) else each for each in parameter.values)
        )
        for each in parameter.values:
            if isinstance(each, Branch):
                found |= flat_space(each.space, f"{above}{name}/{each.name}/")
    return found


def flat_params(space: Space, params: Mapping[str, object], above: str = "") -> Params:
    """Parameters that lie in the space; those of branches that were not chosen are left out."""
    found: Params = {}
    for name, parameter in space.items():
        if name not in params:
            continue
        value = params[name]
        branch = _branch(parameter, value.get(NAME)) if isinstance(value, Mapping) else None
        found[above + name] = value if branch is None else branch.name
        if branch is not None and isinstance(value, Mapping):
            found |= flat_params(branch.space, value, f"{above}{name}/{branch.name}/")
    return found


def nested_params(space: Space, flat: Mapping[str, object], above: str = "") -> Params:
    """What `flat_params` was made from; parameters that are not there are left out."""
    found: Params = {}
    for name, parameter in space.items():
        if above + name not in flat:
            continue
        value = flat[above + name]
        branch = _branch(parameter, value)
        if branch is None:
            found[name] = value
        else:
            found[name] = {NAME: branch.name, **nested_params(branch.space, flat, f"{above}{name}/{branch.name}/")}
    return found


def is_varied(parameter: Parameter) -> bool:
    if isinstance(parameter, Choice):
        return len(parameter.values) > 1
    return not isinstance(parameter, Range) or parameter.low < parameter.high


def is_numeric(parameter: Parameter) -> bool:
    """Whether its values have an order and distances."""
    if not isinstance(parameter, Choice):
        return True
    return all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in parameter.values)


def _branch(parameter: Parameter, name: object) -> Branch | None:
    if not isinstance(parameter, Choice):
        return None
    return next((each for each in parameter.values if isinstance(each, Branch) and each.name == name), None)
