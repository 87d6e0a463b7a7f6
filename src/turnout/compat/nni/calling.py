"""Classes that were written for NNI: made as NNI makes them, and called with what they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from turnout.plugin.sampler import BadOption


def make(found: Callable[..., Any], options: Mapping[str, object], also: Mapping[str, object]) -> Any:
    """An instance with these arguments, and with those of `also` that it takes and that are not among them. BadOption
    with what it raised."""
    extra = {name: value for name, value in also.items() if name not in options and _names(found, name)}
    try:
        return found(**{**extra, **options})
    except Exception as error:
        name = getattr(found, "__name__", str(found))
        raise BadOption(f"{name} cannot be made: {type(error).__name__}: {error}") from error


def call(method: Callable[..., Any], *arguments: object, **extra: object) -> Any:
    """What it answers. Of `extra` it is told what it takes: NNI passes things that are no part of what it documents."""
    return method(*arguments, **{name: value for name, value in extra.items() if _takes(method, name)})


def overrides(instance: object, name: str) -> bool:
    """Whether its class has a method of its own of that name, rather than the one of NNI's base class, or ours."""
    for each in type(instance).__mro__:
        if name in vars(each):
            return each.__module__ not in _BASES
    return False


_BASES = ("nni.tuner", "nni.assessor", "nni.recoverable", "turnout.compat.nni.interface")


def _takes(called: Callable[..., Any], name: str) -> bool:
    return _names(called, name) or any(
        each.kind is inspect.Parameter.VAR_KEYWORD for each in _parameters(called).values()
    )


def _names(called: Callable[..., Any], name: str) -> bool:
    found = _parameters(called).get(name)
    return found is not None and found.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def _parameters(called: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(called).parameters
    except (TypeError, ValueError):
        return {}
