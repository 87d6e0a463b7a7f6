"""Which compute providers there are here, and where each comes from. Nothing of theirs is imported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnout import registry
from turnout.config.sections import Config


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProvider:
    """`code` is its class. It came with the `package` of that `version`, or is named by its path at `place`."""

    name: str
    code: str
    package: str | None = None
    version: str | None = None
    place: str | None = None
    python_path: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    """those of the settings that it serves"""
    hides: tuple[str, ...] = ()
    """packages that bring another of the same name, which is not used"""


def known_providers(settings: Config) -> dict[str, KnownProvider]:
    """By name. What the settings name by its path stands before what is installed."""
    found = {each.name: each for each in (*_installed(settings), *_named(settings))}
    return dict(sorted(found.items()))


def _installed(settings: Config) -> Iterator[KnownProvider]:
    for name, point in registry.installed().items():
        dist = point.dist
        yield KnownProvider(
            name=name, code=point.value, package=dist.name if dist else None, version=dist.version if dist else None,
            targets=_targets(settings, name),
            hides=tuple(registry.package_of(other) for other in registry.hidden(name)),
        )  # fmt: skip


def _named(settings: Config) -> Iterator[KnownProvider]:
    for name, each in settings.classes.items():
        yield KnownProvider(
            name=name, code=each.path, place=each.place, python_path=each.python_path, targets=_targets(settings, name)
        )


def _targets(settings: Config, provider: str) -> tuple[str, ...]:
    return tuple(name for name, target in settings.targets.items() if settings.provider_of(target) == provider)
