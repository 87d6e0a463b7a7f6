"""Which class serves which kind of place. Built-ins and installed packages come in by the same door: entry points."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from turnout.errors import NotFound
from turnout.plugin.provider import Provider

GROUP = "turnout.providers"


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def provider_names() -> list[str]:
    return sorted(_installed())


def provider_class(name: str) -> type[Provider]:
    """The provider of that name, imported now. NotFound when no installed package has it."""
    point = _installed().get(name)
    if point is None:
        raise NotFound(f"no compute provider {name!r}", hint=f"installed: {', '.join(provider_names())}")
    found = point.load()
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise NotFound(f"{point.value} is not a Provider", hint="see the docs on adding a compute provider")
    return found
