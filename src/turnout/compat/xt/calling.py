"""Calling methods of classes that were written for XT: with the names XT has for arguments, as many as they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_OPEN = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def call(method: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """By name those that it takes; in XT's order where it has as many of other names."""
    taken = inspect.signature(method).parameters
    if any(each.kind is each.VAR_KEYWORD for each in taken.values()):
        return method(**given)
    named = [name for name, each in taken.items() if each.kind not in _OPEN]
    if len(named) == len(given) and not set(named) <= given.keys():
        return method(*given.values())
    return method(**{name: given[name] for name in named if name in given})


class StageFlags(dict[str, bool]):
    """Which stages are asked for: ``flags["queued"]``, ``"queued" in flags``; one that is not there is False."""

    def __missing__(self, name: str) -> bool:
        return False


class Config(dict[str, Any]):
    """The settings as far as they are about a target: ``config.get("external-services", "name")``."""

    def get(self, group: str, name: Any = None, default_value: Any = None) -> Any:
        section = super().get(group)
        if name is None or not isinstance(section, dict):
            return default_value if section is None else section
        return section.get(name, default_value)


@dataclass(frozen=True)
class Core:
    """What of XT's own machinery a backend may ask for: its settings and who it is for."""

    config: Config
    username: str = field(default="")
