"""What a task is given by a backend beside what its caller gives it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from turnout.compat.openff.resources import ComputeResources

NAME = "available_resources"
_PLUGINS = "openff.evaluator.workflow.plugins"
_THEIRS = "openff.evaluator.protocols."


def call(
    function: Callable[..., Any], resources: ComputeResources, protocols: dict[str, type],
    args: tuple[Any, ...], kwargs: dict[str, Any],
) -> Any:  # fmt: skip
    """On a worker: calls it with what the worker has, and with what was registered where it was submitted."""
    if protocols:
        _registry(import_module(_PLUGINS)).update(protocols)
    return function(*args, **kwargs, **{NAME: resources.on_worker()})


def protocols() -> dict[str, type]:
    """Protocols that programs added to those of OpenFF's Evaluator in this process: its tasks name them only, and a
    worker has imported nothing of the program."""
    plugins = sys.modules.get(_PLUGINS)
    known = _registry(plugins) if plugins is not None else {}
    return {name: each for name, each in known.items() if not each.__module__.startswith(_THEIRS)}


def _registry(plugins: ModuleType) -> dict[str, type]:
    return plugins.registered_workflow_protocols  # type: ignore[no-any-return]


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
