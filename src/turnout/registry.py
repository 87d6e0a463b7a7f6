"""Which class does what. Built-ins and installed packages come in by the same door: entry points."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from turnout.errors import NotFound, ProviderError
from turnout.plugin.provider import Provider
from turnout.plugin.sampler import Sampler
from turnout.plugin.stopper import Stopper

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of plugin: the group of its entry points, the class that it has to be of, what people call it, and the
    page that tells how to write one."""

    group: str
    base: type[T]
    word: str
    page: str


PROVIDERS: Kind[Provider] = Kind("turnout.providers", Provider, "compute provider", "add-a-provider")  # type: ignore[type-abstract]
SAMPLERS: Kind[Sampler] = Kind("turnout.samplers", Sampler, "sampler", "searching")  # type: ignore[type-abstract]
STOPPERS: Kind[Stopper] = Kind("turnout.stoppers", Stopper, "stopper", "searching")  # type: ignore[type-abstract]
GROUP = PROVIDERS.group
_OURS = "turnout"


def installed(kind: Kind[T] | None = None) -> dict[str, EntryPoint]:
    """Where each comes from, by its name; of providers, unless another kind is given. Nothing is imported."""
    return {name: points[0] for name, points in _found((kind or PROVIDERS).group).items()}


def hidden(name: str) -> list[EntryPoint]:
    """Other providers of that name, which are not used: no package takes the place of another."""
    return _found(GROUP)[name][1:]


@cache
def _found(group: str) -> dict[str, list[EntryPoint]]:
    """All of each name: ours first, then as Python finds packages."""
    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: package_of(point) != _OURS):
        found.setdefault(point.name, []).append(point)
    return found


def package_of(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


def provider_names() -> list[str]:
    return sorted(installed())


def provider_class(name: str) -> type[Provider]:
    """The provider of that name, imported now. NotFound when no installed package has it, ProviderError with a
    traceback when it is broken."""
    return plugin_class(PROVIDERS, name)


def plugin_class(kind: Kind[T], name: str) -> type[T]:
    """The class of that name, imported now. NotFound when no installed package has it, ProviderError with a traceback
    when it is broken."""
    point = installed(kind).get(name)
    if point is None:
        raise NotFound(f"no {kind.word} {name!r}", hint=f"installed: {', '.join(sorted(installed(kind)))}")
    try:
        found = point.load()
    except Exception as error:
        trace = traceback.format_exc().strip()
        hint = f"tell who wrote {package_of(point)}, or uninstall it"
        word = kind.word.rpartition(" ")[2]
        raise ProviderError(f"the {word} {name!r} ({point.value}) is broken\n{trace}", hint=hint) from error
    if not (isinstance(found, type) and issubclass(found, kind.base)):
        raise NotFound(f"{point.value} is not a {kind.base.__name__}", hint=f"see `turnout help {kind.page}`")
    return found
