"""What a task is given by a backend beside what its caller gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from turnout.compat.openff.resources import ComputeResources

NAME = "available_resources"


def call(
    function: Callable[..., Any], resources: ComputeResources, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """On a worker: calls it with what the worker has."""
    return function(*args, **kwargs, **{NAME: resources.on_worker()})


def takes_resources(function: Callable[..., Any]) -> bool:
    """Whether it can be called with them; what it wraps has to take them too."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # of some built-in ones nobody knows
        return False
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not any(_is_named(each, by_name) or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters):
        return False
    inner = getattr(function, "__wrapped__", None)
    return inner is None or takes_resources(inner)


def _is_named(parameter: inspect.Parameter, kinds: tuple[Any, ...]) -> bool:
    return parameter.name == NAME and parameter.kind in kinds
