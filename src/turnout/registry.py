"""Which class serves which kind of place. Built-ins and installed packages come in by the same door: entry points."""

from __future__ import annotations

import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from turnout.errors import NotFound, ProviderError
from turnout.plugin.provider import Provider

GROUP = "turnout.providers"
_OURS = "turnout"


def installed() -> dict[str, EntryPoint]:
    """Where each comes from, by its name. Nothing is imported."""
    return {name: points[0] for name, points in _found().items()}


def hidden(name: str) -> list[EntryPoint]:
    """Others of that name, which are not used: no package takes the place of another."""
    return _found()[name][1:]


@cache
def _found() -> dict[str, list[EntryPoint]]:
    """All of each name: ours first, then as Python finds packages."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: package_of(point) != _OURS):
        found.setdefault(point.name, []).append(point)
    return found


def package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def provider_names() -> list[str]:
    return sorted(installed())


def provider_class(name: str) -> type[Provider]:
    """The provider of that name, imported now. NotFound when no installed package has it, ProviderError with a
    traceback when it is broken."""
    point = installed().get(name)
    if point is None:
        raise NotFound(f"no compute provider {name!r}", hint=f"installed: {', '.join(provider_names())}")
    try:
        found = point.load()
    except Exception as error:
        trace = traceback.format_exc().strip()
        hint = f"tell who wrote {package_of(point)}, or uninstall it"
        raise ProviderError(f"the provider {name!r} ({point.value}) is broken\n{trace}", hint=hint) from error
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise NotFound(f"{point.value} is not a Provider", hint="see `turnout help add-a-provider`")
    return found
