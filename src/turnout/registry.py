"""Which class serves which kind of place. Built-ins and installed packages come in by the same door: entry points."""

from __future__ import annotations

import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from turnout.errors import NotFound, ProviderError
from turnout.plugin.provider import Provider

GROUP = "turnout.providers"


@cache
def installed() -> dict[str, EntryPoint]:
    """Where each comes from, by its name. Nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


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
        hint = f"tell who wrote {point.dist.name if point.dist else point.value}, or uninstall it"
        raise ProviderError(f"the provider {name!r} ({point.value}) is broken\n{trace}", hint=hint) from error
    if not (isinstance(found, type) and issubclass(found, Provider)):
        raise NotFound(f"{point.value} is not a Provider", hint="see `turnout help add-a-provider`")
    return found
